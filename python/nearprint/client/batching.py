"""Sends calls that wait at the same time as one batch; without any input or output.

A call that finds no free connection waits in a :class:`Queue`. When a connection is free again, the
oldest call is sent, and with it, as one batch, all that go into the same; nothing waits for a
timer. An :class:`Exchange` makes the requests of a batch, reads the replies, and decides whether
to try again. :class:`Client` and :class:`AsyncClient` differ in how they move bytes and wake callers.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, Generic, NamedTuple, TypeVar

from nearprint.client import messages, replies
from nearprint.client.address import Address
from nearprint.client.encoding import CHUNK_BYTES_MAX, CHUNK_LINES_MAX, Line
from nearprint.client.replies import Foreign, Form
from nearprint.errors import (
    Follower,
    NearprintError,
    OutcomeUnknown,
    Overloaded,
    Unreachable,
    of_problem,
)

T = TypeVar("T")
K = TypeVar("K", bound="Waiter")

BUSY = frozenset({429, 503})
"""Statuses of what was refused for now, and is sent again."""

GATEWAY = frozenset({502, 504})
"""Statuses of a proxy that has lost the service."""

BACKOFF_S = 0.1
"""The first wait where the service does not say how long; it doubles with each attempt."""

BACKOFF_MAX_S = 2.0

TIMEOUT_MAX_S = 7 * 86_400
"""The longest timeout of a call: what the clocks of sockets and locks can wait."""

REPLY_BYTES_MAX = 256 << 20
"""By default, a longer reply is not taken. 1,000 look-ups that list 1,000 hits each take about 200
MB.
"""


class Request(NamedTuple):
    method: str
    path: str
    body: bytes | None = None
    content_type: str | None = None
    accept: str | None = None


class Reply(NamedTuple):
    status: int
    body: bytes
    retry_after: str | None
    whole: bool
    """False if the connection was lost before the end of the body."""
    content_type: str | None = None
    coding: str | None = None
    """Its ``Content-Encoding``."""


class Lost(Exception):
    """A connection could not be made, or was lost before the head of the reply."""

    def __init__(self, cause: Exception, *, sent: bool, fatal: bool = False) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.sent = sent
        self.fatal = fatal


class Call(Generic[T]):
    """One operation: what to send, and the form of what comes back.

    ``alone`` is its request when it is sent alone. A call with ``lines`` may also be sent as a part
    of a ``batch``, which is named by its path and parameters, and whose reply has a line of this form
    for each. A call that is not ``repeatable`` is not sent again if it may have been carried out.
    """

    __slots__ = ("alone", "batch", "finish", "form", "lines", "repeatable")

    def __init__(
        self,
        finish: Callable[[list[Any]], T],
        *,
        alone: Request | None = None,
        batch: str | None = None,
        lines: Sequence[Line | NearprintError] = (),
        form: Form | None = None,
        repeatable: bool = True,
    ) -> None:
        self.finish = finish
        self.alone = alone
        self.batch = batch
        self.lines = lines
        self.form = form or replies.object_of(messages.Reply)
        self.repeatable = repeatable


class Waiter:
    """A call whose caller waits for the replies; :meth:`settled` wakes the caller."""

    __slots__ = ("call", "deadline", "error", "missing", "number", "repeated", "replies", "size")

    def __init__(self, call: Call[Any], deadline: float) -> None:
        self.call = call
        self.deadline = deadline
        self.error: BaseException | None = None
        self.number = 0
        # Whether an attempt may have been carried out without a reply.
        self.repeated = False
        # The lines that were refused before they were sent have their answers.
        self.replies: list[Any] = [
            None if isinstance(line, Line) else line for line in call.lines
        ] or [None]
        self.missing = self.replies.count(None)
        self.size = sum(len(line.data) + 1 for line in call.lines if isinstance(line, Line))

    def line(self, index: int) -> Line:
        line = self.call.lines[index]
        assert isinstance(line, Line)
        return line

    def answer(self, index: int, reply: Any) -> None:
        self.replies[index] = reply
        self.missing -= 1
        if not self.missing:
            self.settled()

    def fail(self, error: BaseException) -> None:
        self.error = error
        self.settled()

    def settled(self) -> None:
        """Wake the caller."""


class Queue(Generic[K]):
    """Calls that wait for a connection: first come, first served, several as one batch."""

    def __init__(self) -> None:
        self._batches: dict[str | None, deque[K]] = {}
        self._count = 0

    def add(self, waiter: K) -> None:
        self._count += 1
        waiter.number = self._count
        self._batches.setdefault(waiter.call.batch, deque()).append(waiter)

    def put_back(self, waiters: Sequence[K]) -> None:
        """Return calls to the places that they had; they may have been carried out."""
        for waiter in reversed(waiters):
            waiter.repeated = True
            self._batches.setdefault(waiter.call.batch, deque()).appendleft(waiter)

    def discard(self, waiter: K) -> bool:
        """Take out a call that waits no longer; whether it was there."""
        try:
            self._batches[waiter.call.batch].remove(waiter)
        except (KeyError, ValueError):
            return False
        return True

    def take(self) -> list[K]:
        """The oldest call, and those that can be sent with it; none if nothing waits."""
        # A parameter may differ in each batch, so what is empty goes.
        self._batches = {batch: line for batch, line in self._batches.items() if line}
        if not self._batches:
            return []
        line = min(self._batches.values(), key=lambda waiters: waiters[0].number)
        taken = [line.popleft()]
        if taken[0].call.batch is None:
            return taken
        count, size = len(taken[0].call.lines), taken[0].size
        while line:
            count += len(line[0].call.lines)
            size += line[0].size
            if count > CHUNK_LINES_MAX or size > CHUNK_BYTES_MAX:
                break
            taken.append(line.popleft())
        return taken

    def clear(self) -> list[K]:
        """Take out all."""
        everything = [waiter for line in self._batches.values() for waiter in line]
        self._batches.clear()
        return everything


class Batch(Generic[K]):
    """Calls that are sent together, and how many of their callers have not taken their replies.

    The connection is free for others when all callers have: by then the first have perhaps made
    their next calls, which become one batch again. A connection that is free at once would be taken
    by the first of these calls alone, and the others would wait for it.
    """

    __slots__ = ("_ended", "_waiting", "waiters")

    def __init__(self, waiters: list[K]) -> None:
        self.waiters = waiters
        self._waiting = len(waiters)
        self._ended = False

    def finish(self, unanswered: int) -> bool:
        """End the exchange, without an answer for some; whether the connection is free now."""
        self._ended = True
        self._waiting -= unanswered
        return not self._waiting

    def release(self) -> bool:
        """A caller has taken its reply; whether the connection is free now."""
        self._waiting -= 1
        return self._ended and not self._waiting

    def is_abandoned(self) -> bool:
        """Whether no caller waits any longer for an exchange that goes on."""
        return not self._ended and not self._waiting


class Exchange(Generic[K]):
    """The requests and replies of a batch, with all attempts."""

    def __init__(self, address: Address, waiters: list[K], reached: bool) -> None:
        self.address = address
        self.waiters = waiters
        # Whoever waited longest has the first deadline.
        self.deadline = waiters[0].deadline
        self.repeatable = waiters[0].call.repeatable
        # Whether the service was there before: then it is waited for.
        self.reached = reached
        self.attempts = 0
        self.began = time.monotonic()
        self.pending: list[tuple[K, int]] = [
            (waiter, index)
            for waiter in waiters
            for index, reply in enumerate(waiter.replies)
            if reply is None
        ]

    def request(self) -> Request:
        """The request of the next attempt."""
        self.attempts += 1
        alone = self.waiters[0].call.alone if len(self.waiters) == 1 else None
        if alone is not None:
            return alone
        body = b"\n".join([waiter.line(index).data for waiter, index in self.pending]) + b"\n"
        batch = self.waiters[0].call.batch
        assert batch is not None
        return Request("POST", batch, body, "application/x-ndjson")

    def received(self, reply: Reply) -> float:
        """Read a reply; the seconds to wait before the next attempt, if one is needed."""
        self.reached = True
        alone = len(self.waiters) == 1 and self.waiters[0].call.alone is not None
        if reply.status in BUSY:
            return self._busy(self._refusal(reply), reply.retry_after)
        if reply.status in GATEWAY:
            return self.lost(Lost(ConnectionError(f"a proxy replied {reply.status}"), sent=True))
        if not reply.whole and (alone or not 200 <= reply.status < 300):
            return self.lost(Lost(ConnectionError("the reply broke off"), sent=True))
        if not 200 <= reply.status < 300:
            for waiter in self.waiters:
                waiter.fail(self._refusal(reply))
            self.pending = []
            return 0.0
        try:
            replies.check_coding(reply.coding)
            if not alone:
                return self._received_lines(reply)
            waiter, index = self.pending[0]
            form = waiter.call.form
            replies.check_media_type(reply.content_type, form.media_type)
            value = form.read(reply.body)
        except Foreign as error:
            raise Unreachable(
                f"{self.address} does not answer as nearprint does: {error}. Is a nearprint service "
                "there?"
            ) from error
        self._answer(waiter, index, value)
        self.pending = []
        return 0.0

    def _received_lines(self, reply: Reply) -> float:
        values = self._values(reply)
        left: list[tuple[K, int]] = self.pending[len(values) :]
        busy: NearprintError | None = None
        for (waiter, index), value in zip(self.pending, values):
            if not isinstance(value, NearprintError):
                self._answer(waiter, index, value)
            elif value.status in BUSY or value.code == "reply_not_read":
                busy = value
                left.append((waiter, index))
            else:
                waiter.answer(index, value)
        self.pending = left
        if not left:
            return 0.0
        if busy is not None:
            self._repeat()
            return self._busy(busy, None)
        return self.lost(Lost(ConnectionError("the reply broke off"), sent=True))

    def _values(self, reply: Reply) -> list[Any]:
        """The replies and errors that the lines are, in their order; fewer than were sent if the
        connection was lost, or the service took no more. All are read before one is believed.
        """
        replies.check_media_type(reply.content_type, replies.LINES)
        lines = reply.body.split(b"\n")
        last = lines.pop()
        if reply.whole and last:
            lines.append(last)
        count = len(self.pending)
        if len(lines) <= count:
            values = [
                _value(waiter.call.form, line) for (waiter, _), line in zip(self.pending, lines)
            ]
            refused = bool(values) and isinstance(values[-1], NearprintError)
            if len(values) == count or refused or not reply.whole:
                return values
        raise Foreign(f"its reply has {len(lines)} lines for {count} documents")

    def _answer(self, waiter: K, index: int, value: Any) -> None:
        if (
            not waiter.repeated
            and waiter.call.lines
            and waiter.line(index).unnamed
            and value["outcome"] == "already_present"
        ):
            # The id is made of the text, so a copy of it was stored before. After an attempt
            # without a reply it may be this document itself, which must not be taken for a copy.
            value["duplicate"] = True
        waiter.answer(index, value)

    def lost(self, lost: Lost) -> float:
        """A connection was lost or not made; the seconds to wait before the next attempt."""
        if lost.sent:
            self._repeat()
        if lost.fatal or not (self.reached or lost.sent):
            hint = "; does `nearprint serve` run there?" if not lost.fatal else ""
            raise Unreachable(f"{self.address} cannot be reached: {lost}{hint}") from lost.cause
        if lost.sent and not self.repeatable:
            raise Unreachable(
                f"{self.address} was lost before it replied ({lost}). The write may have been "
                "carried out; it was not repeated, because its documents have no ids"
            ) from lost.cause
        wait = 0.0 if self.attempts == 1 else self._backoff(self.attempts - 2)
        if time.monotonic() + wait >= self.deadline:
            raise Unreachable(
                f"{self.address} cannot be reached: {lost} ({self._tried()})"
            ) from lost.cause
        return wait

    def _busy(self, error: NearprintError, retry_after: str | None) -> float:
        if isinstance(error, Follower):
            # It takes writes only once somebody has made it a primary.
            raise error
        if isinstance(error, OutcomeUnknown):
            if not self.repeatable:
                raise error
            self._repeat()
        told = seconds(retry_after)
        wait = told or self._backoff(self.attempts - 1)
        if time.monotonic() + wait < self.deadline:
            return wait
        first = self.waiters[0]
        done = len(first.replies) - first.missing
        advice = "" if told is None else f"; it asks to try again in {told:g} s"
        raise Overloaded(
            f"{self.address} is overloaded{advice} ({self._tried()}, "
            f"{done} of {len(first.replies)} answered). Its last reply: {error}",
            status=error.status,
            done=done,
        ) from error

    def _repeat(self) -> None:
        """Note that what has no reply may have been carried out."""
        for waiter, _ in self.pending:
            waiter.repeated = True

    def _backoff(self, doublings: int) -> float:
        # Not all at one time: what was refused together should not come back together.
        return min(BACKOFF_S * 2 ** min(doublings, 10), BACKOFF_MAX_S) * random.uniform(0.5, 1.0)

    def _tried(self) -> str:
        attempts = f"{self.attempts} attempt" + "s" * (self.attempts != 1)
        return f"{attempts} in {time.monotonic() - self.began:.1f} s"

    def _refusal(self, reply: Reply) -> NearprintError:
        """The exception of a reply that is an error."""
        problem = replies.problem_of(reply.body)
        if problem is None:
            text = reply.body[:200].decode("utf-8", "replace").strip()
            return NearprintError(
                f"{self.address} replied {reply.status}: {text}. Is a nearprint service there?",
                status=reply.status,
            )
        error = of_problem(problem)
        error.status = reply.status
        if error.code in ("token_missing", "token_unknown"):
            error.detail = f"{self.address}: {error.detail}"
            error.args = (error.detail,)
        return error

    def failed(self, error: Exception) -> None:
        """End the exchange with the error of its first call; the others may have more time."""
        if self.waiters[0].missing:
            self.waiters[0].fail(error)


def unanswered(address: Address, waited: bool) -> Unreachable:
    """The error of a call whose deadline came while another thread sent it, or before it was sent."""
    why = "every connection was in use" if waited else "its request is under way"
    return Unreachable(f"{address}: no reply in time; {why}")


def _value(form: Form, line: bytes) -> Any:
    """The reply that a line of a batch is, or its error."""
    assert isinstance(form, replies.Object)
    value = replies.parse(line)
    if not (isinstance(value, dict) and "error" in value):
        return form.check(value)
    error = of_problem(replies.object_of(messages.Problem).check(value["error"]))
    # The number counts the lines of a request that the caller never saw.
    error.line = None
    return error


def too_large(address: Address, reply_bytes_max: int) -> Unreachable:
    """The error of a reply that is longer than a client takes."""
    return Unreachable(
        f"{address}: the reply is longer than {reply_bytes_max} bytes, the reply_bytes_max of this "
        "client. Ask for less, as with limit=, or let the client take more. What was sent may have "
        "been carried out"
    )


def check_settings(timeout: float, connections: int, reply_bytes_max: int) -> None:
    """Refuse settings of a client that make no sense."""
    check_timeout(timeout)
    for name, value in (
        ("connections", connections),
        ("reply_bytes_max", reply_bytes_max),
    ):
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} must be a number, not {type(value).__name__}")
        if value < 1:
            raise ValueError(f"{name} must be at least 1, not {value!r}")


def check_timeout(timeout: float) -> float:
    """A timeout, unless it makes no sense."""
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"timeout must be a number, not {type(timeout).__name__}")
    if not 0 < timeout <= TIMEOUT_MAX_S:
        raise ValueError(
            f"timeout must be above 0 and at most {TIMEOUT_MAX_S} seconds, not {timeout!r}"
        )
    return timeout


def check_in_flight(in_flight: int) -> None:
    if in_flight < 1:
        raise ValueError(f"in_flight must be at least 1, not {in_flight!r}")


def seconds(retry_after: str | None) -> float | None:
    """The seconds of a ``Retry-After``, which is a number or a date.

    >>> seconds("3"), seconds(None), seconds("soon")
    (3.0, None, None)
    """
    if retry_after is None:
        return None
    try:
        return max(0.0, float(int(retry_after)))
    except (ValueError, OverflowError):
        pass
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (ValueError, OverflowError, OSError):
        return None
