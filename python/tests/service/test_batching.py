"""Single calls that wait at the same time are sent together, in threads and in tasks."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from harness import Proxy, Seen, Service, hang, problem, text, wait_until
from nearprint import errors
from nearprint.client import AsyncClient, Client
from nearprint.client.batching import Call, Queue, Waiter
from nearprint.client.encoding import CHUNK_LINES_MAX, Line

CONNECTIONS = 2
CALLS = 64


class Gate:
    """Holds requests back until it is opened."""

    def __init__(self) -> None:
        self.opened = threading.Event()

    def __call__(self, proxy: Proxy, seen: Seen) -> bytes | None:
        assert self.opened.wait(30)
        return proxy.pass_on(seen)


def documents() -> list[dict[str, Any]]:
    """Calls of which some are refused, and which differ in their options."""
    calls: list[dict[str, Any]] = []
    for number in range(CALLS):
        call: dict[str, Any] = {
            "text": text(number),
            "id": str(number),
            "namespace": f"n{number % 3}",
        }
        if number % 8 == 5:
            call["text"] = "..."
        calls.append(call)
    return calls


def assert_answers(answers: list[Any], service: Service, proxy: Proxy) -> None:
    for number, answer in enumerate(answers):
        if number % 8 == 5:
            assert isinstance(answer, errors.EmptyDocument), number
        else:
            assert answer["outcome"] == "inserted", number
    with Client(service.url) as client:
        for name in ("n0", "n1", "n2"):
            ids = {int(document["id"]) for document in client.documents(namespace=name)}
            assert ids == {n for n in range(CALLS) if n % 3 == int(name[1]) and n % 8 != 5}
    # The first calls went at once, and all others together.
    lines = sorted(len(seen.body.splitlines()) for seen in proxy.seen)
    assert lines == [1, 1, CALLS - CONNECTIONS]
    assert {seen.headers["Content-Length"] for seen in proxy.seen} == {
        str(len(seen.body)) for seen in proxy.seen
    }


def test_calls_of_threads_are_sent_together(service: Service, proxy: Proxy) -> None:
    gate = Gate()
    proxy.then(gate, gate)
    with Client(proxy.url, connections=CONNECTIONS) as client, ThreadPoolExecutor(CALLS) as threads:

        def call(document: dict[str, Any]) -> Any:
            try:
                return client.insert(**document)
            except errors.NearprintError as error:
                return error

        answers = [threads.submit(call, document) for document in documents()]
        wait_until(lambda: waiting(client) == CALLS - CONNECTIONS)
        gate.opened.set()
        assert_answers([answer.result() for answer in answers], service, proxy)


def waiting(client: Client) -> int:
    """How many calls wait for a connection."""
    return sum(map(len, client._transport._pool._queue._batches.values()))


def test_calls_of_tasks_are_sent_together(service: Service, proxy: Proxy) -> None:
    gate = Gate()
    proxy.then(gate, gate)

    async def main() -> list[Any]:
        async with AsyncClient(proxy.url, connections=CONNECTIONS) as client:
            calls = [asyncio.ensure_future(client.insert(**document)) for document in documents()]
            # One turn of the loop lets every call begin.
            await asyncio.sleep(0)
            gate.opened.set()
            return await asyncio.gather(*calls, return_exceptions=True)

    assert_answers(asyncio.run(main()), service, proxy)


def test_calls_of_other_operations_go_in_their_turn(service: Service, proxy: Proxy) -> None:
    gate = Gate()
    proxy.then(gate)

    async def main() -> None:
        async with AsyncClient(proxy.url, connections=1) as client:
            first = asyncio.ensure_future(client.insert(fingerprint=1, id="a"))
            await asyncio.sleep(0)
            calls: list[Any] = [
                client.query(fingerprint=1),
                client.stats(),
                client.query(fingerprint=1, distance=0),
                client.delete("a"),
                client.delete("b"),
                client.get("a"),
            ]
            under_way = [asyncio.ensure_future(call) for call in calls]
            await asyncio.sleep(0)
            gate.opened.set()
            await first
            answers = await asyncio.gather(*under_way)
            assert [answers[0]["hit_count"], answers[2]["hit_count"]] == [1, 1]
            assert answers[3:] == [True, False, None]

    asyncio.run(main())
    assert [seen.line.split()[1] for seen in proxy.seen] == [
        "/v1/insert",
        "/v1/query/batch",
        "/v1/stats",
        "/v1/delete/batch",
        "/v1/documents/a",
    ]


def test_a_refused_request_is_an_error_of_each_call(proxy: Proxy) -> None:
    gate = Gate()
    proxy.then(gate, problem(401, "token_unknown"))

    async def main() -> list[Any]:
        async with AsyncClient(proxy.url, connections=1) as client:
            calls = [asyncio.ensure_future(client.query(text(number))) for number in range(4)]
            await asyncio.sleep(0)
            gate.opened.set()
            return await asyncio.gather(*calls, return_exceptions=True)

    answers = asyncio.run(main())
    assert [type(answer) for answer in answers[1:]] == [errors.TokenUnknown] * 3
    assert len({id(answer) for answer in answers}) == 4


def test_a_call_that_is_given_up_leaves_the_others(service: Service, proxy: Proxy) -> None:
    gate = Gate()
    proxy.then(gate)

    async def main() -> None:
        async with AsyncClient(proxy.url, connections=1) as client:
            calls = [asyncio.ensure_future(client.insert(text(n), id=n)) for n in range(5)]
            await asyncio.sleep(0)
            calls[0].cancel()
            calls[2].cancel()
            gate.opened.set()
            answers = await asyncio.gather(*calls, return_exceptions=True)
            assert [isinstance(each, asyncio.CancelledError) for each in answers] == [
                True,
                False,
                True,
                False,
                False,
            ]
            assert await client.get("2") is None
            # The connection is free again.
            assert (await client.query(text(1)))["duplicate"] is True

    asyncio.run(main())


def test_calls_whose_thread_fails_are_sent_by_another(service: Service, proxy: Proxy) -> None:
    gate = Gate()
    lost = threading.Event()

    def lose_and_tell(proxy: Proxy, seen: Seen) -> bytes | None:
        lost.set()
        return hang(proxy, seen)

    proxy.then(gate, lose_and_tell)
    patient = Client(proxy.url, connections=1)
    with patient as client, ThreadPoolExecutor(4) as threads:
        first = threads.submit(client.insert, text(0))
        wait_until(lambda: len(proxy.seen) == 1)
        # The thread of the oldest call sends the others; its time is up in the middle of it.
        carrier = threads.submit(client.insert, text(1), timeout=1.0)
        wait_until(lambda: waiting(client) == 1)
        others = [threads.submit(client.insert, text(n)) for n in (2, 3)]
        wait_until(lambda: waiting(client) == 3)
        gate.opened.set()
        assert first.result()["stored"]
        assert lost.wait(30)
        with pytest.raises(errors.Unreachable, match="no reply in time"):
            carrier.result()
        assert [other.result()["stored"] for other in others] == [True, True]
        assert client.query(text(2))["duplicate"] is True


def test_a_call_whose_time_is_up_while_it_waits_is_not_sent(proxy: Proxy) -> None:
    gate = Gate()
    proxy.then(gate)
    with Client(proxy.url, connections=1) as client, ThreadPoolExecutor(2) as threads:
        first = threads.submit(client.insert, text(0), id="first")
        wait_until(lambda: len(proxy.seen) == 1)
        with pytest.raises(errors.Unreachable, match="every connection was in use"):
            client.insert(text(1), id="late", timeout=0.2)
        gate.opened.set()
        first.result()
        assert client.get("late") is None


def test_closing_ends_the_calls_that_wait(proxy: Proxy) -> None:
    gate = Gate()
    proxy.then(gate)
    client = Client(proxy.url, connections=1)
    with ThreadPoolExecutor(3) as threads:
        first = threads.submit(client.insert, text(0))
        wait_until(lambda: len(proxy.seen) == 1)
        others = [threads.submit(client.insert, text(n)) for n in (1, 2)]
        wait_until(lambda: waiting(client) == 2)
        client.close()
        for other in others:
            with pytest.raises(RuntimeError, match="the client is closed"):
                other.result()
        gate.opened.set()
        assert first.result()["stored"]


def test_a_queue_keeps_within_the_limits_of_a_request() -> None:
    queue: Queue[Waiter] = Queue()

    def add(lines: int, size: int = 10) -> Waiter:
        call: Call[Any] = Call(list, batch="/v1/query/batch", lines=[Line(b"x" * size)] * lines)
        queue.add(waiter := Waiter(call, 0.0))
        return waiter

    small = [add(CHUNK_LINES_MAX - 1), add(1)]
    large = [add(1, size=1 << 21), add(1)]
    assert queue.take() == small
    assert queue.take() == large[:1]
    assert queue.take() == large[1:]
    assert queue.take() == []


def test_many_threads_get_their_own_answers(service: Service) -> None:
    with Client(service.url) as client, ThreadPoolExecutor(CALLS) as threads:
        fingerprints = [n << 32 for n in range(CALLS * 40)]
        replies = threads.map(lambda each: client.fingerprint(fingerprint=each), fingerprints)
        assert [int(reply["fingerprint"], 16) for reply in replies] == fingerprints


def _insert(client: Client, number: int) -> None:
    for turn in range(20):
        assert client.insert(text(number), id=f"{number}-{turn}")["stored"]


def test_a_forked_process_has_connections_of_its_own(service: Service, proxy: Proxy) -> None:
    with Client(proxy.url) as client:
        _insert(client, 0)
        fork = multiprocessing.get_context("fork")
        children = [fork.Process(target=_insert, args=(client, number)) for number in (1, 2, 3)]
        for child in children:
            child.start()
        _insert(client, 4)
        for child in children:
            child.join(30)
            assert child.exitcode == 0
        assert client.stats()["documents"] == 100
    users: dict[tuple[str, int], set[str]] = {}
    for seen in proxy.seen:
        if seen.body:
            name = json.loads(seen.body)["id"].split("-")[0]
            users.setdefault(seen.peer, set()).add("parent" if name in "04" else name)
    assert all(len(names) == 1 for names in users.values())


@pytest.mark.filterwarnings("ignore:Unclosed client session:ResourceWarning")
def test_an_asynchronous_client_may_serve_several_loops(service: Service) -> None:
    client = AsyncClient(service.url)

    async def main() -> None:
        assert (await client.query(text(1)))["duplicate"] is False

    asyncio.run(main())
    asyncio.run(main())
    asyncio.run(client.close())
