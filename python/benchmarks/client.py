"""Measures single calls: `Client` and `AsyncClient` beside http.client and requests.

    python python/benchmarks/client.py target/release/nearprint

The service has the first core and this program the second. The ways take turns, several times; the
last column is the median beside that of http.client. A write takes as long as the disk; with
`--folder /dev/shm` the disk does not count. Needs the package (`pip install './python[async]'`) and
requests.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import itertools
import json
import os
import random
import re
import resource
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from nearprint.client import AsyncClient, Client

WORKERS = 64
JSON = {"Content-Type": "application/json"}
SYLLABLES = re.findall("..", "badefigolumanepirosutavewixoyuza")
WORDS = ["".join(syllables) for syllables in itertools.product(SYLLABLES, repeat=3)]


def texts(seed: int) -> Iterator[str]:
    """Texts of 40 words, of which no two are near-duplicates; cheap to make."""
    chance = random.Random(seed)
    parts = [" ".join(chance.choices(WORDS, k=10)) for _ in range(5_000)]
    while True:
        yield " ".join(chance.choices(parts, k=4))


def in_threads(
    work: Callable[[], Callable[[str], Any]], given: Iterator[str], seconds: float
) -> float:
    """Calls a second of threads, each with its own caller."""
    lock, end = threading.Lock(), time.monotonic() + seconds
    total = 0

    def run() -> None:
        nonlocal total
        call, count = work(), 0
        while time.monotonic() < end:
            with lock:
                text = next(given)
            call(text)
            count += 1
        with lock:
            total += count

    threads = [threading.Thread(target=run) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return total / seconds


def plain(port: int, route: str) -> Callable[[str], Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port)

    def call(text: str) -> Any:
        connection.request("POST", f"/v1/{route}", json.dumps({"text": text}), JSON)
        return json.loads(connection.getresponse().read())

    return call


def with_requests(port: int, route: str) -> Callable[[str], Any]:
    import requests

    session = requests.Session()
    return lambda text: session.post(
        f"http://127.0.0.1:{port}/v1/{route}", json={"text": text}
    ).json()


async def in_tasks(port: int, route: str, given: Iterator[str], seconds: float) -> float:
    end, total = time.monotonic() + seconds, 0
    async with AsyncClient(f"http://127.0.0.1:{port}") as client:
        method = client.query if route == "query" else client.check_and_insert

        async def run() -> None:
            nonlocal total
            while time.monotonic() < end:
                await method(next(given))
                total += 1

        await asyncio.gather(*(run() for _ in range(WORKERS)))
    return total / seconds


def lone(call: Callable[[str], Any], given: Iterator[str], seconds: float) -> float:
    end = time.monotonic() + seconds
    for count, text in enumerate(given):
        if time.monotonic() >= end:
            return count / seconds
        call(text)
    raise AssertionError("the texts have no end")


def many(port: int, count: int) -> None:
    """The memory that a generator of many lines takes."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.monotonic()
    with Client(f"http://127.0.0.1:{port}", timeout=60) as client:
        replies = sum(1 for _ in client.query_many(itertools.islice(texts(9), count)))
    took = time.monotonic() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"{replies:,} lines: {took:.0f} s, peak {peak / 1024:.0f} MiB ({before / 1024:.0f} before)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nearprint")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument(
        "--folder", help="where the data directory is made; /dev/shm leaves out the disk"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        service = subprocess.Popen(
            [
                "taskset",
                "-c",
                "0",
                options.nearprint,
                "serve",
                "--data",
                f"{folder}/data",
                "--listen",
                "127.0.0.1:0",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert service.stdout is not None
            line = next(line for line in service.stdout if line.startswith("listening on"))
            os.sched_setaffinity(0, {1})
            measure(int(line.rsplit(":", 1)[1]), options)
        finally:
            service.terminate()
            service.wait()


def ways(
    port: int, client: Client, route: str, seconds: float, seeds: Iterator[int]
) -> dict[str, Callable[[], float]]:
    """Each way to make single calls of a route, by its name."""
    method = client.query if route == "query" else client.check_and_insert
    return {
        "http.client, 64 threads": lambda: in_threads(
            lambda: plain(port, route), texts(next(seeds)), seconds
        ),
        "Client, 64 threads": lambda: in_threads(lambda: method, texts(next(seeds)), seconds),
        "AsyncClient, 64 tasks": lambda: asyncio.run(
            in_tasks(port, route, texts(next(seeds)), seconds)
        ),
        "requests, 64 threads": lambda: in_threads(
            lambda: with_requests(port, route), texts(next(seeds)), seconds
        ),
        "http.client, alone": lambda: lone(plain(port, route), texts(next(seeds)), seconds),
        "Client, alone": lambda: lone(method, texts(next(seeds)), seconds),
    }


def measure(port: int, options: argparse.Namespace) -> None:
    if options.lines:
        many(port, options.lines)
    seeds = itertools.count()
    with Client(f"http://127.0.0.1:{port}") as client:
        for route in ("query", "check-and-insert"):
            chosen = ways(port, client, route, options.seconds, seeds)
            rates: dict[str, list[float]] = {name: [] for name in chosen}
            for _ in range(options.rounds):
                for name, way in chosen.items():
                    rates[name].append(way())
            medians = {name: statistics.median(values) for name, values in rates.items()}
            for name, median in medians.items():
                base = medians["http.client, " + name.split(", ")[1].replace("tasks", "threads")]
                print(f"{route:17} {name:24} {median:8,.0f}/s {median / base:5.2f}", flush=True)


main()
