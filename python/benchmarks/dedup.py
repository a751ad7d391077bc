"""Deduplicates short texts in one pass, beside rensa and datasketch: CPU seconds and what is found.

    python python/benchmarks/dedup.py [FILE]

FILE has a JSON object with `text` a line. Without it, there are 3,600 texts of 12 to 40 words, of
which a third differ from another in one of each twelve words, and a sixth equal another. Each
program runs in a process of its own, with one thread, several times; the least time counts. Needs
the package, and rensa and datasketch from PyPI.

MinHash has 128 permutations, sets of words, and the Jaccard similarity 0.7, which finds more of
short texts than sets of several words do.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROUNDS = 5
PERMUTATIONS = 128
JACCARD = 0.7


def made(count: int = 3_600) -> tuple[list[str], list[int]]:
    """Texts, and for each the first one that it is a near-duplicate of."""
    draw = random.Random(1)
    letters = "eeetttaaooiinnsshhrrddlucmfwypvbgk"
    words = ["".join(draw.choices(letters, k=draw.randint(2, 9))) for _ in range(20_000)]

    def word() -> str:
        return words[int(20_000 ** draw.random()) - 1]

    pairs: list[tuple[str, int]] = []
    for number in range(count // 2):
        text = [word() for _ in range(draw.randint(12, 40))]
        pairs.append((" ".join(text), number))
        if number % 3 < 2:
            for _ in range(len(text) // 12):
                text[draw.randrange(len(text))] = word()
        pairs.append((" ".join(text), number))
    draw.shuffle(pairs)
    first: dict[int, int] = {}
    return [text for text, _ in pairs], [
        first.setdefault(of, at) for at, (_, of) in enumerate(pairs)
    ]


def by_nearprint(texts: list[str]) -> Sequence[bool]:
    import nearprint

    return nearprint.dedup(texts, threads=1).keep.tolist()


def by_rensa(texts: list[str]) -> Sequence[bool]:
    from rensa import RMinHashDeduplicator

    index = RMinHashDeduplicator(threshold=JACCARD, num_perm=PERMUTATIONS, use_lsh=True)
    return index.add_pairs((str(row), text.split()) for row, text in enumerate(texts))


def by_datasketch(texts: list[str]) -> Sequence[bool]:
    from datasketch import MinHash, MinHashLSH

    index = MinHashLSH(threshold=JACCARD, num_perm=PERMUTATIONS)
    keep = []
    for row, text in enumerate(texts):
        sketch = MinHash(num_perm=PERMUTATIONS)
        sketch.update_batch([word.encode() for word in set(text.split())])
        keep.append(not index.query(sketch))
        if keep[-1]:
            index.insert(row, sketch)
    return keep


def run(by: Callable[[list[str]], Sequence[bool]], texts: list[str]) -> tuple[float, list[bool]]:
    """CPU seconds of all threads of a process, without the imports, and what stays."""
    by(texts[:2])
    best, keep = float("inf"), [True]
    for _ in range(ROUNDS):
        begun = time.process_time()
        keep = list(by(texts))
        best = min(best, time.process_time() - begun)
    return best, keep


def main() -> None:
    # The threads of rensa.
    os.environ["RAYON_NUM_THREADS"] = "1"
    truth: list[int] | None = None
    if len(sys.argv) > 1:
        lines = Path(sys.argv[1]).read_text().splitlines()
        texts = [json.loads(line)["text"] for line in lines]
    else:
        texts, truth = made()
    print(f"{len(texts):,} texts, {sum(map(len, texts)):,} characters")
    for by in (by_nearprint, by_rensa, by_datasketch):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            seconds, keep = pool.apply(run, (by, texts))
        found = f"{keep.count(False):>7,} dropped"
        if truth:
            right = sum(
                not stays and first != row
                for row, (first, stays) in enumerate(zip(truth, keep, strict=True))
            )
            planted = sum(first != row for row, first in enumerate(truth))
            found += (
                f", {right:,} of {planted:,} near-duplicates, {keep.count(False) - right:,} others"
            )
        print(f"{by.__name__.removeprefix('by_'):12}{seconds:>8.3f} s of CPU {found}")


if __name__ == "__main__":
    main()
