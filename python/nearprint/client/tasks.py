"""The connections of an :class:`AsyncClient`, and the tasks that wait for one."""

from __future__ import annotations

import asyncio
import time
from typing import Any, TypeVar

import aiohttp
from yarl import URL

from nearprint.client.address import Address
from nearprint.client.travel import Call, Lost, Queue, Reply, Request, Ticket, Trip, unanswered

T = TypeVar("T")


class _Waiting(Ticket):
    """A call whose task waits until it is answered."""

    __slots__ = ("future",)

    def __init__(self, call: Call[Any], deadline: float) -> None:
        super().__init__(call, deadline)
        self.future: asyncio.Future[None] | None = None

    @property
    def abandoned(self) -> bool:
        return self.future is not None and self.future.done()

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
            if self._free:
                self._free -= 1
                await self._carry([ticket])
            else:
                await self._wait(ticket)
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
            if ticket.missing:
                self._queue.discard(ticket)

    def _expire(self, ticket: _Waiting) -> None:
        waited = self._queue.discard(ticket)
        ticket.fail(unanswered(self._address, waited))

    async def _carry(self, company: list[_Waiting]) -> None:
        """Take calls to the service and back, then let others go."""
        trip = Trip(self._address, company, self._reached)
        again: list[_Waiting] = []
        try:
            while trip.pending:
                wait = await self._attempt(trip)
                if wait:
                    await asyncio.sleep(wait)
        except Exception as error:
            again = trip.failed(error)
        except BaseException as error:
            for ticket in company:
                ticket.fail(error)
            raise
        finally:
            # After the tasks of this company, which go on now: their next calls travel together
            # again, where the first of them would go alone if the connection were free at once.
            self.loop.call_soon(self._hand_over, again)

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

    def _hand_over(self, again: list[_Waiting]) -> None:
        """Let the next calls go, those first that are to go again."""
        self._queue.put_back([ticket for ticket in again if not ticket.abandoned])
        company = self._queue.take()
        if not company:
            self._free += 1
            return
        task = self.loop.create_task(self._carry(company))
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
