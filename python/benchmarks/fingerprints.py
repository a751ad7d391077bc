"""Fingerprints a second, one at a time and in batches: python fingerprints.py [CHARACTERS].

Next to it, `nearprint-bench text` measures the function in Rust with texts of 5,000 characters.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable

import nearprint


def texts(length: int, seed: int = 1) -> list[str]:
    """Two megabytes of words whose frequencies fall as those of a language."""
    draw = random.Random(seed)
    letters = "eeetttaaooiinnsshhrrddlucmfwypvbgk"
    words = ["".join(draw.choices(letters, k=draw.randint(2, 9))) for _ in range(20_000)]
    made = []
    for _ in range(2_000_000 // length):
        text = ""
        while len(text) < length:
            text += words[int(20_000 ** draw.random()) - 1] + " "
        made.append(text)
    return made


def rate(count: int, work: Callable[[], object], rounds: int = 7) -> float:
    """The best of some rounds: others use the machine, too."""
    best = float("inf")
    for _ in range(rounds):
        begun = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begun)
    return count / best


def one_by_one(some: list[str]) -> None:
    for text in some:
        nearprint.fingerprint(text)


def in_two_threads(all_texts: list[str]) -> None:
    half = len(all_texts) // 2
    other = threading.Thread(target=one_by_one, args=(all_texts[:half],))
    other.start()
    one_by_one(all_texts[half:])
    other.join()


def main() -> None:
    length = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
    given = texts(length)
    for name, work in (
        ("one by one", lambda: one_by_one(given)),
        ("one by one, two threads", lambda: in_two_threads(given)),
        ("a batch, one thread", lambda: nearprint.fingerprint_many(given, threads=1)),
        ("a batch, all cores", lambda: nearprint.fingerprint_many(given)),
    ):
        print(f"{name:25}{rate(len(given), work):>12,.0f} a second")


main()
