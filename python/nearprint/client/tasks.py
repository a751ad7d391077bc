"""The connections of an :class:`AsyncClient`, and the tasks that wait for one."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any, TypeVar
from weakref import WeakSet

import aiohttp
from yarl import URL

from nearprint.client.address import Address
from nearprint.client.batching import (
    Batch,
    Call,
    Exchange,
    Lost,
    Queue,
    Reply,
    Request,
    Waiter,
    too_large,
    unanswered,
)
from nearprint.client.connection import has_unasked

T = TypeVar("T")


class _Connector(aiohttp.TCPConnector):
    """Connections, of which none is used again that has something in it that nobody asked for."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._used: WeakSet[Any] = WeakSet()

    async def connect(self, *arguments: Any, **settings: Any) -> Any:
        while True:
            connection: Any = await super().connect(*arguments, **settings)
            protocol = connection.protocol
            if protocol not in self._used:
                self._used.add(protocol)
                return connection
            # What the event loop has read already, and what it has not.
            sock = connection.transport.get_extra_info("socket")
            if not (protocol.should_close or has_unasked(sock)):
                return connection
            connection.close()


class _TaskWaiter(Waiter):
    """A call whose task waits until it is answered."""

    __slots__ = ("batch", "future")

    def __init__(self, call: Call[Any], deadline: float) -> None:
        super().__init__(call, deadline)
        self.batch: Batch[_TaskWaiter] | None = None
        self.future: asyncio.Future[None] | None = None

    def is_awaited(self) -> bool:
        return self.future is not None and not self.future.done()

    def settled(self) -> None:
        if self.future is not None and not self.future.done():
            self.future.set_result(None)


class Tasks:
    """At most a few requests under way in one event loop.

    A call that finds all of them in use waits; when one has ended, a new task sends it, and with it
    all that fit into one batch.
    """

    def __init__(
        self,
        address: Address,
        connections: int,
        reply_bytes_max: int,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.process = os.getpid()
        self.loop = loop
        self._address = address
        self._reply_bytes_max = reply_bytes_max
        self._free = connections
        self._queue: Queue[_TaskWaiter] = Queue()
        self._exchanges: dict[Batch[_TaskWaiter], asyncio.Task[None]] = {}
        self._reached = False
        self._closed = asyncio.Event()
        self._session = aiohttp.ClientSession(
            connector=_Connector(limit=0, ssl=address.context or True),
            headers=address.headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            # As Client does it: replies are not compressed, so their size is what was sent.
            skip_auto_headers=("Accept-Encoding",),
            auto_decompress=False,
        )

    async def run(self, call: Call[T], deadline: float) -> T:
        waiter = _TaskWaiter(call, deadline)
        if waiter.missing:
            try:
                if self._free:
                    self._free -= 1
                    await self._send(self._batch([waiter]))
                else:
                    await self._wait(waiter)
            finally:
                self._release(waiter)
        if waiter.error is not None:
            raise waiter.error
        return call.finish(waiter.replies)

    async def close(self) -> None:
        self._closed.set()
        for waiter in self._queue.clear():
            waiter.fail(RuntimeError("the client is closed"))
        await self._session.close()
        await asyncio.gather(*self._exchanges.values(), return_exceptions=True)

    async def _wait(self, waiter: _TaskWaiter) -> None:
        """Wait until the call is answered."""
        waiter.future = self.loop.create_future()
        self._queue.add(waiter)
        left = waiter.deadline - time.monotonic()
        timer = self.loop.call_later(max(0.0, left), self._expire, waiter)
        try:
            await waiter.future
        finally:
            timer.cancel()

    def _expire(self, waiter: _TaskWaiter) -> None:
        waited = self._queue.discard(waiter)
        waiter.fail(unanswered(self._address, waited))

    async def _send(self, batch: Batch[_TaskWaiter]) -> None:
        """Send a batch, until all its calls are answered or the attempts end."""
        exchange = Exchange(self._address, batch.waiters, self._reached)
        try:
            while exchange.pending:
                wait = await self._attempt(exchange)
                if wait:
                    await self._pause(wait)
        except Exception as error:  # noqa: BLE001 - its caller raises it
            exchange.failed(error)
        except BaseException as error:
            for waiter in batch.waiters:
                waiter.fail(error)
            raise
        finally:
            self._finish(batch)

    async def _pause(self, seconds: float) -> None:
        """Wait, unless the client is closed meanwhile."""
        try:
            await asyncio.wait_for(self._closed.wait(), seconds)
        except asyncio.TimeoutError:
            pass

    async def _attempt(self, exchange: Exchange[_TaskWaiter]) -> float:
        if self._closed.is_set():
            raise RuntimeError("the client is closed")
        try:
            reply = await self._exchange(exchange.request(), exchange.deadline)
        except Lost as lost:
            return exchange.lost(lost)
        self._reached = True
        return exchange.received(reply)

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
                        if len(body) > self._reply_bytes_max:
                            response.close()
                            raise too_large(self._address, self._reply_bytes_max)
                except aiohttp.ClientPayloadError:
                    whole = False
                found = response.headers
                return Reply(
                    response.status,
                    bytes(body),
                    found.get("Retry-After"),
                    whole,
                    found.get("Content-Type"),
                    found.get("Content-Encoding"),
                )
        except (aiohttp.ClientError, OSError, asyncio.TimeoutError) as error:
            raise _lost(error) from error

    @staticmethod
    def _batch(waiters: list[_TaskWaiter]) -> Batch[_TaskWaiter]:
        batch = Batch(waiters)
        for waiter in waiters:
            waiter.batch = batch
        return batch

    def _release(self, waiter: _TaskWaiter) -> None:
        """End a call; with the last of a batch, its connection is free."""
        batch, waiter.batch = waiter.batch, None
        if batch is None:
            self._queue.discard(waiter)
        elif batch.release():
            self._send_next()
        elif batch.is_abandoned() and batch in self._exchanges:
            self._exchanges[batch].cancel()

    def _finish(self, batch: Batch[_TaskWaiter]) -> None:
        """End an exchange; calls without an answer wait again, if their time is not up."""
        again = [
            waiter
            for waiter in batch.waiters
            if waiter.missing and waiter.error is None and waiter.batch is not None
        ]
        for waiter in again:
            waiter.batch = None
        self._queue.put_back(again)
        if batch.finish(len(again)):
            self._send_next()

    def _send_next(self) -> None:
        """Give a free connection to the calls that wait."""
        waiters: list[_TaskWaiter] = []
        while not waiters and (taken := self._queue.take()):
            # Without those that were cancelled in this turn of the loop.
            waiters = [waiter for waiter in taken if waiter.is_awaited()]
        if not waiters:
            self._free += 1
            return
        batch = self._batch(waiters)
        task = self._exchanges[batch] = self.loop.create_task(self._send(batch))
        task.add_done_callback(lambda _: self._exchanges.pop(batch))


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
