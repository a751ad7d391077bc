"""The transport of :class:`AsyncClient`: runs calls with the connections of an event loop."""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable
from typing import Any, TypeVar

from nearprint.client import operations
from nearprint.client.address import Address
from nearprint.client.batching import Call, check_in_flight, check_timeout
from nearprint.client.tasks import Tasks
from nearprint.errors import Overloaded, Unreachable

T = TypeVar("T")

_OF_PARENTS: list[Tasks] = []
"""The connections of processes that this one was forked from. They are kept, because closing them
here would take them out of the selector that the event loop of the parent still waits for.
"""


class AsyncTransport:
    """Runs calls, one in its task or several at once in tasks of their own."""

    def __init__(
        self, address: Address, timeout: float, connections: int, reply_bytes_max: int
    ) -> None:
        self._address = address
        self.timeout = timeout
        self._connections = connections
        self._reply_bytes_max = reply_bytes_max
        self._closed = False
        self._tasks: Tasks | None = None

    async def close(self) -> None:
        self._closed = True
        if self._tasks is not None and self._tasks.loop is asyncio.get_running_loop():
            await self._tasks.close()

    async def run(self, call: Call[T], timeout: float | None = None) -> T:
        """The result of a call, within its timeout or that of the client."""
        if self._closed:
            raise RuntimeError("the client is closed")
        seconds = self.timeout if timeout is None else check_timeout(timeout)
        loop = asyncio.get_running_loop()
        tasks = self._tasks
        if tasks is None or tasks.loop is not loop or tasks.process != os.getpid():
            # Connections belong to their event loop, and to their process.
            if tasks is not None and tasks.process != os.getpid():
                _OF_PARENTS.append(tasks)
            tasks = self._tasks = Tasks(
                self._address, self._connections, self._reply_bytes_max, loop
            )
        return await tasks.run(call, time.monotonic() + seconds)

    async def run_many(
        self,
        calls: Iterable[Call[Any]] | AsyncIterable[Call[Any]],
        in_flight: int,
        timeout: float | None = None,
    ) -> AsyncGenerator[Any, None]:
        """The results of calls in their order, of which a few are under way; each has the timeout."""
        check_in_flight(in_flight)
        done = 0
        under_way: deque[asyncio.Task[Any]] = deque()
        try:
            async for call in calls if isinstance(calls, AsyncIterable) else _each(calls):
                under_way.append(asyncio.ensure_future(self.run(call, timeout)))
                if len(under_way) == in_flight:
                    result = await under_way[0]
                    under_way.popleft()
                    yield result
                    done += operations.documents_in(result)
            while under_way:
                result = await under_way[0]
                under_way.popleft()
                yield result
                done += operations.documents_in(result)
        except (Overloaded, Unreachable) as error:
            error.done += done
            raise
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)


async def _each(items: Iterable[T]) -> AsyncIterator[T]:
    for item in items:
        yield item
