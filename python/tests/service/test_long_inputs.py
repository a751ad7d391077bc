"""Inputs of any length: chunks, order, errors of lines, and memory."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from harness import Proxy, Seen, Service, text
from nearprint import errors
from nearprint.client import AsyncClient
from nearprint.client.encoding import CHUNK_BYTES_MAX, CHUNK_LINES_MAX

Connect = Callable[..., Any]


def test_replies_come_in_order_from_requests_of_limited_size(
    service: Service, proxy: Proxy, connect: Connect
) -> None:
    client = connect(proxy.url)
    short = [{"fingerprint": number << 20} for number in range(2_500)]
    long = [{"text": text(number, 20_000)} for number in range(20)]
    replies = list(client.fingerprint_many([*short, *long]))
    assert [int(reply["fingerprint"], 16) for reply in replies[:2_500]] == [
        number << 20 for number in range(2_500)
    ]
    assert [reply["features"] > 1_000 for reply in replies[2_500:]] == [True] * 20
    for seen in proxy.seen:
        assert int(seen.headers["Content-Length"]) == len(seen.body) <= CHUNK_BYTES_MAX
        assert seen.body.count(b"\n") <= CHUNK_LINES_MAX
    assert sum(seen.body.count(b"\n") for seen in proxy.seen) == 2_520


@pytest.mark.parametrize("in_flight", [1, 4])
def test_so_many_requests_are_under_way(proxy: Proxy, connect: Connect, in_flight: int) -> None:
    together = threading.Barrier(in_flight)
    lock = threading.Lock()
    now, most = 0, 0

    def meet(proxy: Proxy, seen: Seen) -> bytes | None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        together.wait(30)
        reply = proxy.pass_on(seen)
        with lock:
            now -= 1
        return reply

    proxy.always(meet)
    given = ({"fingerprint": number} for number in range(8 * CHUNK_LINES_MAX))
    replies = list(connect(proxy.url).query_many(given, in_flight=in_flight))
    assert len(replies) == 8 * CHUNK_LINES_MAX
    assert most == in_flight


def test_the_input_is_read_as_the_replies_are_taken(service: Service, connect: Connect) -> None:
    read = 0

    def documents() -> Iterator[dict[str, Any]]:
        nonlocal read
        while True:
            yield {"fingerprint": read}
            read += 1

    replies = connect(service.url).query_many(documents())
    for _ in range(10):
        next(replies)
    assert read <= 5 * CHUNK_LINES_MAX
    replies.close()


def test_an_asynchronous_generator_is_an_input(service: Service) -> None:
    async def documents() -> AsyncIterator[str]:
        for number in range(1_500):
            yield text(number, 12)

    async def main() -> int:
        async with AsyncClient(service.url) as client:
            return sum([reply["stored"] async for reply in client.insert_many(documents())])  # type: ignore[index]

    assert asyncio.run(main()) == 1_500


def test_a_line_that_is_refused_leaves_the_others(service: Service, connect: Connect) -> None:
    client = connect(service.url)
    given = [text(1), "...", {"text": 5}, "a \ud800", {"fingerprint": 1, "distance": 12}, text(2)]
    replies = list(client.check_and_insert_many(given))
    assert [type(reply) for reply in replies] == [
        dict,
        errors.EmptyDocument,
        errors.InvalidValue,
        errors.InvalidValue,
        errors.DistanceAboveMax,
        dict,
    ]
    assert "text must be a str, not int" in str(replies[2])
    # The order says which document it was; the number of a line in a request would not.
    assert [reply.line for reply in replies[1:5]] == [None] * 4
    assert [type(reply) for reply in client.query_many([5, 6])] == [errors.InvalidValue] * 2
    assert list(client.query_many([])) == []


def test_options_are_defaults_of_the_documents(service: Service, connect: Connect) -> None:
    client = connect(service.url)
    list(
        client.insert_many(
            [{"text": text(1), "id": 1}, {"text": text(2), "id": 2, "namespace": "b"}],
            namespace="a",
        )
    )
    assert (client.count("a"), client.count("b")) == (1, 1)
    removed = client.delete_many(["1", 2, {"id": "2", "namespace": "b"}], namespace="a")
    assert [reply["removed"] for reply in removed] == [1, 0, 1]


def test_a_million_lines_take_little_memory(service: Service) -> None:
    program = f"""
import re
from nearprint.client import Client
with Client({service.url!r}) as client:
    given = ({{"fingerprint": number}} for number in range(1_000_000))
    assert sum(1 for reply in client.query_many(given) if not reply["duplicate"]) == 1_000_000
# Not ru_maxrss, which is at least that of the process that started this one.
peak = re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())
print(int(peak[1]) // 1024)
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=False, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) < 200
