"""The connections of a :class:`Client`, and the threads that wait for one."""

from __future__ import annotations

import os
import threading
import time
from typing import Any, TypeVar

from nearprint.client.address import Address
from nearprint.client.batching import Batch, Call, Exchange, Lost, Queue, Waiter, unanswered
from nearprint.client.connection import Connection

T = TypeVar("T")


class _ThreadWaiter(Waiter):
    """A call whose thread waits until it is answered, or until it has to send a batch itself."""

    __slots__ = ("batch", "wake")

    def __init__(self, call: Call[Any], deadline: float) -> None:
        super().__init__(call, deadline)
        self.batch: _Batch | None = None
        self.wake: threading.Lock | None = None

    def wait_for_turn(self) -> None:
        """Prepare to wait; called before others can see the call."""
        self.wake = threading.Lock()
        self.wake.acquire()

    def settled(self) -> None:
        if self.wake is not None and self.wake.locked():
            self.wake.release()


class _Batch(Batch[_ThreadWaiter]):
    """Calls that are sent together, by the thread of the first."""

    __slots__ = ("connection",)

    def __init__(self, waiters: list[_ThreadWaiter]) -> None:
        super().__init__(waiters)
        self.connection: Connection | None = None
        for waiter in waiters:
            waiter.batch = self


class Pool:
    """At most a few connections, each with one batch at a time.

    The lock is never held while anything is sent or received.
    """

    def __init__(self, address: Address, connections: int, reply_bytes_max: int) -> None:
        self.process = os.getpid()
        self._address = address
        self._reply_bytes_max = reply_bytes_max
        self._lock = threading.Lock()
        self._free = connections
        self._idle: list[Connection] = []
        self._queue: Queue[_ThreadWaiter] = Queue()
        self._reached = False
        self._closed = threading.Event()

    def run(self, call: Call[T], deadline: float) -> T:
        waiter = _ThreadWaiter(call, deadline)
        if waiter.missing:
            self._join(waiter)
        if waiter.error is not None:
            raise waiter.error
        return call.finish(waiter.replies)

    def close(self) -> None:
        with self._lock:
            self._closed.set()
            idle, self._idle = self._idle, []
            waiting = self._queue.clear()
        for waiter in waiting:
            waiter.fail(RuntimeError("the client is closed"))
        for connection in idle:
            connection.close()

    def _join(self, waiter: _ThreadWaiter) -> None:
        with self._lock:
            if self._closed.is_set():
                raise RuntimeError("the client is closed")
            if self._free:
                self._free -= 1
                _Batch([waiter])
            else:
                waiter.wait_for_turn()
                self._queue.add(waiter)
        try:
            if waiter.wake is not None:
                self._wait(waiter, waiter.wake)
            batch = waiter.batch
            if batch is not None and batch.waiters[0] is waiter and waiter.missing:
                self._send(batch)
        finally:
            self._release(waiter)

    def _wait(self, waiter: _ThreadWaiter, wake: threading.Lock) -> None:
        """Wait until the call is answered, or until its thread has to send a batch."""
        if wake.acquire(timeout=max(0.0, waiter.deadline - time.monotonic())):
            return
        with self._lock:
            batch = waiter.batch
        if batch is None or batch.waiters[0] is not waiter:
            raise unanswered(self._address, batch is None)

    def _send(self, batch: _Batch) -> None:
        """Send a batch, until all its calls are answered or the attempts end."""
        exchange = Exchange(self._address, batch.waiters, self._reached)
        try:
            with self._lock:
                batch.connection = self._idle.pop() if self._idle else None
            if batch.connection is None:
                batch.connection = Connection(self._address, self._reply_bytes_max)
            while exchange.pending:
                wait = self._attempt(exchange, batch.connection)
                if exchange.pending and self._closed.wait(wait):
                    raise RuntimeError("the client is closed")
        except Exception as error:  # noqa: BLE001 - its caller raises it
            exchange.failed(error)

    def _attempt(self, exchange: Exchange[_ThreadWaiter], connection: Connection) -> float:
        try:
            reply = connection.exchange(exchange.request(), exchange.deadline)
        except Lost as lost:
            return exchange.lost(lost)
        self._reached = True
        return exchange.received(reply)

    def _release(self, waiter: _ThreadWaiter) -> None:
        """End a call; with the last of a batch, its connection is free."""
        connection = None
        with self._lock:
            batch, waiter.batch = waiter.batch, None
            if batch is None:
                self._queue.discard(waiter)
                return
            if batch.waiters[0] is waiter:
                # Those without an answer, whose time is not up.
                again = [other for other in batch.waiters[1:] if other.missing and other.batch]
                for other in again:
                    other.batch = None
                self._queue.put_back(again)
                batch.finish(len(again))
            if batch.release():
                connection = batch.connection
                if connection is not None and not self._closed.is_set():
                    self._idle.append(connection)
                    connection = None
                self._send_next()
        if connection is not None:
            connection.close()

    def _send_next(self) -> None:
        """Give a free connection to the calls that wait. The lock is held."""
        waiters = self._queue.take()
        if not waiters:
            self._free += 1
            return
        _Batch(waiters)
        assert waiters[0].wake is not None
        waiters[0].wake.release()
