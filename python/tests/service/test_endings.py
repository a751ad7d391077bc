"""Calls and iterators that end early: closed, cancelled, interrupted, abandoned, forked."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from harness import Proxy, Seen, Service, forward, hang, problem, text, wait_until
from nearprint.client import AsyncClient, Client
from nearprint.client.encoding import CHUNK_LINES_MAX

FORK = multiprocessing.get_context("fork")


class Gate:
    """Holds requests back until it is opened."""

    def __init__(self) -> None:
        self.opened = threading.Event()

    def __call__(self, proxy: Proxy, seen: Seen) -> bytes | None:
        assert self.opened.wait(30)
        return proxy.pass_on(seen)


def waiting(client: Client) -> int:
    """How many calls wait for a connection."""
    return sum(map(len, client._transport._pool._queue._batches.values()))


def lines(count: int) -> Iterator[dict[str, Any]]:
    return ({"fingerprint": number << 20} for number in range(count))


# Closed.


def test_closing_ends_a_call_that_was_told_to_wait(proxy: Proxy) -> None:
    proxy.always(problem(503, "overloaded", Retry_After="500"))
    client = Client(proxy.url, timeout=600)
    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(client.insert, text(1))
        wait_until(lambda: len(proxy.seen) == 1)
        client.close()
        with pytest.raises(RuntimeError, match="the client is closed"):
            call.result(30)


def test_closing_ends_a_task_that_was_told_to_wait(proxy: Proxy) -> None:
    proxy.always(problem(503, "overloaded", Retry_After="500"))

    async def main() -> None:
        client = AsyncClient(proxy.url, timeout=600, connections=1)
        calls = [asyncio.ensure_future(client.insert(text(n))) for n in range(3)]
        while not proxy.seen:
            await asyncio.sleep(0.005)
        await asyncio.wait_for(client.close(), 30)
        ended = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 30)
        assert [str(each) for each in ended] == ["the client is closed"] * 3

    asyncio.run(main())


def test_closing_while_many_threads_call(service: Service) -> None:
    for _ in range(10):
        client = Client(service.url, connections=2)
        begun = threading.Barrier(17)

        def call(client: Client = client, begun: threading.Barrier = begun) -> str:
            begun.wait(30)
            while True:
                try:
                    client.fingerprint(fingerprint=1)
                except RuntimeError as error:
                    return str(error)

        with ThreadPoolExecutor(16) as threads:
            calls = [threads.submit(call) for _ in range(16)]
            begun.wait(30)
            client.fingerprint(fingerprint=2)
            client.close()
            assert {each.result(30) for each in calls} == {"the client is closed"}
        assert client._transport._pool._idle == [], "no connection is left open"


# Forked.


def in_child(run: Callable[[], None]) -> int:
    """The exit status of a child that runs something; it must end."""
    child = os.fork()
    if not child:
        status = 1
        try:
            run()
            status = 0
        finally:
            os._exit(status)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError("the child hangs")


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_fork_while_calls_wait(service: Service, proxy: Proxy) -> None:
    gate = Gate()
    proxy.then(gate)
    with Client(proxy.url, connections=1) as client, ThreadPoolExecutor(3) as threads:
        calls = [threads.submit(client.insert, text(n), id=n) for n in range(3)]
        wait_until(lambda: len(proxy.seen) == 1 and waiting(client) == 2)

        def child() -> None:
            assert client.get("0") is None
            client.close()

        assert in_child(child) == 0
        process = FORK.Process(target=client.insert, args=(text(9),), kwargs={"id": 9})
        process.start()
        process.join(30)
        assert process.exitcode == 0
        gate.opened.set()
        assert [call.result(30)["outcome"] for call in calls] == ["inserted"] * 3
        assert client.get("9")
    assert len({seen.peer for seen in proxy.seen}) == 3, "each process has its own connection"


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_child_does_not_go_on_with_an_iterator_of_its_parent(
    service: Service, proxy: Proxy
) -> None:
    gate = Gate()
    with Client(proxy.url) as client:
        replies = client.query_many(lines(8 * CHUNK_LINES_MAX), in_flight=2)
        next(replies)
        taken = 1
        proxy.then(gate, gate)

        def child() -> None:
            with pytest.raises(RuntimeError, match="the process before the fork"):
                list(replies)
            assert len(list(client.query_many(lines(10)))) == 10

        gate.opened.set()
        assert in_child(child) == 0
        taken += sum(1 for _ in replies)
        assert taken == 8 * CHUNK_LINES_MAX


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_child_leaves_the_event_loop_of_its_parent_alone(service: Service, proxy: Proxy) -> None:
    async def main() -> None:
        async with AsyncClient(proxy.url, connections=1, timeout=20) as client:
            await client.query(text(1))

            async def calls() -> None:
                assert (await client.query(text(1)))["duplicate"] is False
                await client.close()

            child = os.fork()
            if not child:
                status = 1
                try:
                    asyncio.events._set_running_loop(None)
                    asyncio.run(calls())
                    status = 0
                finally:
                    os._exit(status)
            while not (ended := os.waitpid(child, os.WNOHANG))[0]:  # noqa: ASYNC222 - it does not wait
                await asyncio.sleep(0.005)
            assert ended[1] == 0
            assert (await client.query(text(1)))["duplicate"] is False

    asyncio.run(main())
    peers = [seen.peer for seen in proxy.seen]
    assert peers[0] == peers[2] != peers[1]


# Abandoned.


def test_an_abandoned_iterator_frees_its_connections(service: Service) -> None:
    with Client(service.url, connections=2) as client:
        for _ in range(5):
            for reply in client.query_many(lines(8 * CHUNK_LINES_MAX)):
                assert reply["duplicate"] is False  # type: ignore[index]
                break
        assert client._transport._pool._free == 2
        assert not [each for each in threading.enumerate() if each.name.startswith("nearprint")]
        assert client.query(text(1))["duplicate"] is False


def test_an_abandoned_asynchronous_iterator_frees_its_connections(
    service: Service, proxy: Proxy
) -> None:
    def first_only(proxy: Proxy, seen: Seen) -> bytes | None:
        is_first = b'"fingerprint":0}' in seen.body or b'"text"' in seen.body
        return (forward if is_first else hang)(proxy, seen)

    proxy.always(first_only)

    async def main() -> None:
        async with AsyncClient(proxy.url, connections=2, timeout=600) as client:

            async def abandon(*, close: bool) -> None:
                replies: Any = client.query_many(lines(8 * CHUNK_LINES_MAX), in_flight=3)
                async for _ in replies:
                    break
                if close:
                    await replies.aclose()

            for close in (True, False):
                await abandon(close=close)
                tasks = client._transport._tasks
                assert tasks is not None
                # Without aclose(), the loop closes it.
                while tasks._free < 2:
                    await asyncio.sleep(0.005)
                assert not tasks._exchanges and not any(tasks._queue._batches.values())
                assert (await client.query(text(1)))["duplicate"] is False

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(asyncio.wait_for(main(), 60))


# Cancelled.


def test_calls_that_are_given_up_lose_no_others(service: Service) -> None:
    async def main() -> None:
        async with AsyncClient(service.url, connections=2) as client:

            async def call(number: int) -> bool:
                request = client.fingerprint(fingerprint=number)
                try:
                    # Some of them end before they are sent, some meanwhile, some after.
                    patience = (number % 40) / 4_000 if number % 3 else 30
                    reply = await asyncio.wait_for(request, patience)
                except asyncio.TimeoutError:
                    return False
                assert int(reply["fingerprint"], 16) == number
                return True

            for turn in range(10):
                numbers = range(turn * 200, turn * 200 + 200)
                answered = await asyncio.gather(*map(call, numbers))
                assert all(done for number, done in zip(numbers, answered) if number % 3 == 0)
            tasks = client._transport._tasks
            assert tasks is not None
            while tasks._exchanges:
                await asyncio.sleep(0.005)
            assert tasks._free == 2 and not any(tasks._queue._batches.values())

    asyncio.run(main())


def test_a_task_that_is_given_up_in_the_middle_closes_its_connection(
    service: Service, proxy: Proxy
) -> None:
    proxy.then(hang)

    async def main() -> None:
        async with AsyncClient(proxy.url, connections=1) as client:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(client.query(text(1)), 0.2)
            assert (await client.query(text(1)))["duplicate"] is False

    asyncio.run(main())


# Interrupted.


class Interrupt(BaseException):
    """What a handler of a signal raises, as that of Ctrl-C does."""


@pytest.fixture
def interrupt() -> Iterator[Callable[[Callable[[], bool]], None]]:
    """Interrupts the main thread once something is so."""

    def handler(number: int, frame: Any) -> None:
        raise Interrupt

    before = signal.signal(signal.SIGUSR1, handler)
    started: list[threading.Thread] = []

    def interrupt(condition: Callable[[], bool]) -> None:
        def run() -> None:
            wait_until(condition)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

        started.append(threading.Thread(target=run))
        started[-1].start()

    yield interrupt
    for thread in started:
        thread.join()
    signal.signal(signal.SIGUSR1, before)


def test_an_interrupted_call_frees_its_connection(
    service: Service, proxy: Proxy, interrupt: Callable[[Callable[[], bool]], None]
) -> None:
    proxy.then(hang)
    with Client(proxy.url, connections=1, timeout=600) as client:
        interrupt(lambda: len(proxy.seen) == 1)
        with pytest.raises(Interrupt):
            client.query(text(1))
        assert client.query(text(1))["duplicate"] is False
        assert client._transport._pool._free == 1


def test_an_interrupted_call_leaves_those_that_wait_with_it(
    service: Service, proxy: Proxy, interrupt: Callable[[Callable[[], bool]], None]
) -> None:
    gate = Gate()
    proxy.then(gate)
    with Client(proxy.url, connections=1) as client, ThreadPoolExecutor(2) as threads:
        calls = [threads.submit(client.insert, text(n), id=n) for n in range(2)]
        wait_until(lambda: len(proxy.seen) == 1 and waiting(client) == 1)
        interrupt(lambda: waiting(client) == 2)
        with pytest.raises(Interrupt):
            client.insert(text(2), id=2)
        assert waiting(client) == 1
        gate.opened.set()
        assert [call.result(30)["stored"] for call in calls] == [True, True]
        assert client.get("2") is None
        assert client._transport._pool._free == 1


def test_an_interrupted_call_that_was_told_to_wait(
    proxy: Proxy, interrupt: Callable[[Callable[[], bool]], None]
) -> None:
    proxy.then(problem(503, "overloaded", Retry_After="500"))
    with Client(proxy.url, connections=1, timeout=600) as client:
        interrupt(lambda: len(proxy.seen) == 1)
        with pytest.raises(Interrupt):
            client.query(text(1))
        assert client.query(text(1))["duplicate"] is False
