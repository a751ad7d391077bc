"""The connections of a :class:`Client`, and the threads that wait for one."""

from __future__ import annotations

import os
import threading
import time
from typing import Any, TypeVar

from nearprint.client.address import Address
from nearprint.client.connection import Connection
from nearprint.client.travel import Call, Company, Lost, Queue, Ticket, Trip, unanswered

T = TypeVar("T")


class _Waiting(Ticket):
    """A call whose thread waits until it is answered, or until it is to go itself."""

    __slots__ = ("company", "wake")

    def __init__(self, call: Call[Any], deadline: float) -> None:
        super().__init__(call, deadline)
        self.company: _Company | None = None
        self.wake: threading.Lock | None = None

    def wait_for_turn(self) -> None:
        """Prepare to wait; called before others can see the ticket."""
        self.wake = threading.Lock()
        self.wake.acquire()

    def settled(self) -> None:
        if self.wake is not None and self.wake.locked():
            self.wake.release()


class _Company(Company[_Waiting]):
    """Calls that travel together; the thread of the first carries the others."""

    __slots__ = ("connection",)

    def __init__(self, tickets: list[_Waiting]) -> None:
        super().__init__(tickets)
        self.connection: Connection | None = None
        for ticket in tickets:
            ticket.company = self


class Pool:
    """At most a few connections, each carrying one company at a time.

    The lock is never held while anything is sent or received.
    """

    def __init__(self, address: Address, connections: int) -> None:
        self.process = os.getpid()
        self._address = address
        self._lock = threading.Lock()
        self._free = connections
        self._idle: list[Connection] = []
        self._queue: Queue[_Waiting] = Queue()
        self._reached = False
        self._closed = False

    def run(self, call: Call[T], deadline: float) -> T:
        ticket = _Waiting(call, deadline)
        if ticket.missing:
            self._travel(ticket)
        if ticket.error is not None:
            raise ticket.error
        return call.finish(ticket.replies)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            waiting = self._queue.clear()
        for ticket in waiting:
            ticket.fail(RuntimeError("the client is closed"))
        for connection in idle:
            connection.close()

    def _travel(self, ticket: _Waiting) -> None:
        with self._lock:
            if self._closed:
                raise RuntimeError("the client is closed")
            if self._free:
                self._free -= 1
                _Company([ticket])
            else:
                ticket.wait_for_turn()
                self._queue.add(ticket)
        try:
            if ticket.wake is not None:
                self._wait(ticket, ticket.wake)
            company = ticket.company
            if company is not None and company.tickets[0] is ticket and ticket.missing:
                self._carry(company)
        finally:
            self._go_on(ticket)

    def _wait(self, ticket: _Waiting, wake: threading.Lock) -> None:
        """Wait until the call is answered, or until its thread is to carry others."""
        if wake.acquire(timeout=max(0.0, ticket.deadline - time.monotonic())):
            return
        with self._lock:
            company = ticket.company
        if company is None or company.tickets[0] is not ticket:
            raise unanswered(self._address, company is None)

    def _carry(self, company: _Company) -> None:
        """Take calls to the service and back."""
        trip = Trip(self._address, company.tickets, self._reached)
        try:
            with self._lock:
                company.connection = self._idle.pop() if self._idle else None
            if company.connection is None:
                company.connection = Connection(self._address)
            while trip.pending:
                wait = self._attempt(trip, company.connection)
                if wait:
                    time.sleep(wait)
        except Exception as error:
            trip.failed(error)

    def _attempt(self, trip: Trip[_Waiting], connection: Connection) -> float:
        try:
            reply = connection.exchange(trip.request(), trip.deadline, trip.repeatable)
        except Lost as lost:
            return trip.lost(lost)
        self._reached = True
        return trip.received(reply)

    def _go_on(self, ticket: _Waiting) -> None:
        """Leave the company of a call; perhaps its connection is free then."""
        connection = None
        with self._lock:
            company, ticket.company = ticket.company, None
            if company is None:
                self._queue.discard(ticket)
                return
            if company.tickets[0] is ticket:
                # Those without an answer, whose time is not up.
                again = [other for other in company.tickets[1:] if other.missing and other.company]
                for other in again:
                    other.company = None
                self._queue.put_back(again)
                company.arrive(len(again))
            if company.leave():
                connection = company.connection
                if connection is not None and not self._closed:
                    self._idle.append(connection)
                    connection = None
                self._let_go()
        if connection is not None:
            connection.close()

    def _let_go(self) -> None:
        """Let the calls that wait go, now that a connection is free. The lock is held."""
        tickets = self._queue.take()
        if not tickets:
            self._free += 1
            return
        _Company(tickets)
        assert tickets[0].wake is not None
        tickets[0].wake.release()
