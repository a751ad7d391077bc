"""The connections of an :class:`AsyncClient`, and the tasks that wait for one."""

from __future__ import annotations

import asyncio
import time
from typing import Any, TypeVar

import aiohttp
from yarl import URL

from nearprint.client.address import Address
from nearprint.client.travel import (
    Call,
    Company,
    Lost,
    Queue,
    Reply,
    Request,
    Ticket,
    Trip,
    unanswered,
)

T = TypeVar("T")


class _Waiting(Ticket):
    """A call whose task waits until it is answered."""

    __slots__ = ("company", "future")

    def __init__(self, call: Call[Any], deadline: float) -> None:
        super().__init__(call, deadline)
        self.company: Company[_Waiting] | None = None
        self.future: asyncio.Future[None] | None = None

    def is_awaited(self) -> bool:
        return self.future is not None and not self.future.done()

    def settled(self) -> None:
        if self.future is not None and not self.future.done():
            self.future.set_result(None)


class Tasks:
    """At most a few requests under way in one event loop.

    A call that finds all of them in use waits; a task of its own carries it when one has ended, and
    with it all that can travel together.
    """

    def __init__(self, address: Address, connections: int, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._address = address
        self._free = connections
        self._queue: Queue[_Waiting] = Queue()
        self._trips: set[asyncio.Task[None]] = set()
        self._reached = False
        self._closed = False
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=address.context or True),
            headers=address.headers,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def run(self, call: Call[T], deadline: float) -> T:
        ticket = _Waiting(call, deadline)
        if ticket.missing:
            try:
                if self._free:
                    self._free -= 1
                    await self._carry(self._company([ticket]))
                else:
                    await self._wait(ticket)
            finally:
                self._go_on(ticket)
        if ticket.error is not None:
            raise ticket.error
        return call.finish(ticket.replies)

    async def close(self) -> None:
        self._closed = True
        for ticket in self._queue.clear():
            ticket.fail(RuntimeError("the client is closed"))
        await self._session.close()
        await asyncio.gather(*self._trips, return_exceptions=True)

    async def _wait(self, ticket: _Waiting) -> None:
        """Wait until the call is answered."""
        ticket.future = self.loop.create_future()
        self._queue.add(ticket)
        left = ticket.deadline - time.monotonic()
        timer = self.loop.call_later(max(0.0, left), self._expire, ticket)
        try:
            await ticket.future
        finally:
            timer.cancel()

    def _expire(self, ticket: _Waiting) -> None:
        waited = self._queue.discard(ticket)
        ticket.fail(unanswered(self._address, waited))

    async def _carry(self, company: Company[_Waiting]) -> None:
        """Take calls to the service and back, then let others go."""
        trip = Trip(self._address, company.tickets, self._reached)
        try:
            while trip.pending:
                wait = await self._attempt(trip)
                if wait:
                    await asyncio.sleep(wait)
        except Exception as error:
            trip.failed(error)
        except BaseException as error:
            for ticket in company.tickets:
                ticket.fail(error)
            raise
        finally:
            self._arrive(company)

    async def _attempt(self, trip: Trip[_Waiting]) -> float:
        if self._closed:
            raise RuntimeError("the client is closed")
        try:
            reply = await self._exchange(trip.request(), trip.deadline)
        except Lost as lost:
            return trip.lost(lost)
        self._reached = True
        return trip.received(reply)

    async def _exchange(self, request: Request, deadline: float) -> Reply:
        left = deadline - time.monotonic()
        headers = {}
        if request.content_type is not None:
            headers["Content-Type"] = request.content_type
        if request.accept is not None:
            headers["Accept"] = request.accept
        try:
            if left <= 0:
                raise asyncio.TimeoutError
            async with self._session.request(
                request.method,
                URL(self._address.name + request.path, encoded=True),
                data=request.body,
                headers=headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=left),
            ) as response:
                body, whole = bytearray(), True
                try:
                    async for piece in response.content.iter_any():
                        body += piece
                except aiohttp.ClientPayloadError:
                    whole = False
                return Reply(
                    response.status, bytes(body), response.headers.get("Retry-After"), whole
                )
        except (aiohttp.ClientError, OSError, asyncio.TimeoutError) as error:
            raise _lost(error) from error

    @staticmethod
    def _company(tickets: list[_Waiting]) -> Company[_Waiting]:
        company = Company(tickets)
        for ticket in tickets:
            ticket.company = company
        return company

    def _go_on(self, ticket: _Waiting) -> None:
        """Leave the company of a call; perhaps its connection is free then."""
        company, ticket.company = ticket.company, None
        if company is None:
            self._queue.discard(ticket)
        elif company.leave():
            self._let_go()

    def _arrive(self, company: Company[_Waiting]) -> None:
        """End a trip; those without an answer go again, if their time is not up."""
        again = [
            ticket
            for ticket in company.tickets
            if ticket.missing and ticket.error is None and ticket.company is not None
        ]
        for ticket in again:
            ticket.company = None
        self._queue.put_back(again)
        if company.arrive(len(again)):
            self._let_go()

    def _let_go(self) -> None:
        """Let the calls that wait go, now that a connection is free."""
        tickets: list[_Waiting] = []
        while not tickets and (taken := self._queue.take()):
            # Without those that were cancelled in this turn of the loop.
            tickets = [ticket for ticket in taken if ticket.is_awaited()]
        if not tickets:
            self._free += 1
            return
        task = self.loop.create_task(self._carry(self._company(tickets)))
        self._trips.add(task)
        task.add_done_callback(self._trips.discard)


def _lost(error: Exception) -> Lost:
    if isinstance(error, asyncio.TimeoutError):
        return Lost(TimeoutError("no reply in time"), sent=True)
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        hint = "name the certificate of its authority as ca_file"
        cause = ConnectionError(
            f"its certificate is not trusted: {error.certificate_error}; {hint}"
        )
        return Lost(cause, sent=False, fatal=True)
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return Lost(error, sent=False, fatal=True)
    if isinstance(error, aiohttp.ClientConnectorError):
        return Lost(error.os_error, sent=False)
    if isinstance(error, aiohttp.ClientResponseError):
        cause = ConnectionError(f"it does not speak HTTP: {error.message}")
        return Lost(cause, sent=True, fatal=True)
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return Lost(ConnectionResetError("the connection was closed without a reply"), sent=True)
    return Lost(error, sent=True)
