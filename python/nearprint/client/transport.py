"""The transport of :class:`Client`: runs calls with the connections of a process."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from nearprint.client import operations
from nearprint.client.address import Address
from nearprint.client.batching import Call, check_in_flight, check_timeout
from nearprint.client.pool import Pool
from nearprint.errors import Overloaded, Unreachable

T = TypeVar("T")


class Transport:
    """Runs calls, one in its thread or several at once in threads of their own."""

    def __init__(
        self, address: Address, timeout: float, connections: int, reply_bytes_max: int
    ) -> None:
        self._address = address
        self.timeout = timeout
        self._connections = connections
        self._reply_bytes_max = reply_bytes_max
        self._closed = False
        self._pool = Pool(address, connections, reply_bytes_max)

    def close(self) -> None:
        self._closed = True
        if self._pool.process == os.getpid():
            self._pool.close()

    def run(self, call: Call[T], timeout: float | None = None) -> T:
        """The result of a call, within its timeout or that of the client."""
        pool = self._pool
        if pool.process != os.getpid():
            # After a fork: the connections and the lock belong to the other process.
            pool = self._pool = Pool(self._address, self._connections, self._reply_bytes_max)
        if self._closed:
            raise RuntimeError("the client is closed")
        seconds = self.timeout if timeout is None else check_timeout(timeout)
        return pool.run(call, time.monotonic() + seconds)

    def run_many(
        self, calls: Iterable[Call[Any]], in_flight: int, timeout: float | None = None
    ) -> Generator[Any, None, None]:
        """The results of calls in their order, of which a few are under way; each has the timeout."""
        check_in_flight(in_flight)
        done = 0
        under_way: deque[Future[Any]] = deque()
        process = os.getpid()
        # Not kept: threads do not survive a fork.
        threads = ThreadPoolExecutor(in_flight, thread_name_prefix="nearprint")
        try:
            for call in calls:
                under_way.append(threads.submit(self.run, call, timeout))
                if len(under_way) == in_flight:
                    result = under_way.popleft().result()
                    yield result
                    _check_process(process)
                    done += operations.documents_in(result)
            while under_way:
                result = under_way.popleft().result()
                yield result
                _check_process(process)
                done += operations.documents_in(result)
        except (Overloaded, Unreachable) as error:
            error.done += done
            raise
        finally:
            if process == os.getpid():
                threads.shutdown(cancel_futures=True)


def _check_process(process: int) -> None:
    """Refuse to go on in another process than the one whose threads have the requests."""
    if process != os.getpid():
        raise RuntimeError("this iterator belongs to the process before the fork; make another")
