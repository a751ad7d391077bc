"""Texts with near-duplicates, and groups by brute force."""

from __future__ import annotations

import random
from collections.abc import Iterable

import nearprint

WORDS = ["lamp", "stair", "kettle", "harbour", "ferry", "baker", "wire", "panel", "lift", "noon"]


def texts(count: int, seed: int) -> list[str | None]:
    """Texts of 4 to 40 words; some have changed words or numbers of one before, some are equal to
    one, and some have no fingerprint."""
    draw = random.Random(seed)
    made: list[str | None] = []
    for _ in range(count):
        before = draw.choice(made) if made else None
        kind = draw.random()
        if before and kind < 0.3:
            words = before.split()
            for _ in range(draw.randint(1, 3)):
                words[draw.randrange(len(words))] = draw.choice(WORDS)
            made.append(" ".join(words))
        elif before and kind < 0.4:
            made.append(before)
        elif before and kind < 0.45:
            made.append(f"{before} {draw.randrange(9_999)}")
        elif kind > 0.97:
            made.append(draw.choice([None, "", "..."]))
        else:
            size = draw.choice([4, 12, 24, 40])
            made.append(" ".join(f"{draw.choice(WORDS)}{draw.randrange(900)}" for _ in range(size)))
    return made


def connected(count: int, pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """The groups of at least two that chains of pairs connect, the largest first."""
    group = list(range(count))
    for one, other in pairs:
        old, new = group[one], group[other]
        group = [new if mine == old else mine for mine in group]
    members: dict[int, list[int]] = {}
    for number, mine in enumerate(group):
        members.setdefault(mine, []).append(number)
    groups = [found for found in members.values() if len(found) > 1]
    return sorted(groups, key=lambda found: (-len(found), found[0]))


def groups_of_pairs(
    documents: list[str | None], distance: int = 3, min_similarity: float = 0.83
) -> list[list[int]]:
    """The groups of an exact search, by the comparison of all pairs."""
    rows = [row for row, text in enumerate(documents) if text and text != "..."]
    bits = {row: nearprint.fingerprint(documents[row] or "") for row in rows}
    sketches = {row: nearprint.sketch(documents[row] or "") for row in rows}
    pairs = []
    for at, one in enumerate(rows):
        for other in rows[at + 1 :]:
            apart = (bits[one] ^ bits[other]).bit_count()
            is_near = apart <= distance and (
                apart == 0
                or min_similarity == 0
                or sketches[one].similarity(sketches[other]) >= min_similarity
            )
            if is_near:
                pairs.append((one, other))
    return connected(len(documents), pairs)


def groups_of_queries(documents: list[str | None], **options: float) -> list[list[int]]:
    """The groups of a likely search, by a look-up of each document."""
    index = nearprint.Index(distance_max=12)
    index.insert_many(range(len(documents)), documents)
    hits = index.query_many(documents, limit=len(documents), **options)  # type: ignore[arg-type]
    pairs = [(row, int(hit.id)) for row, found in enumerate(hits) for hit in found or ()]
    return connected(len(documents), pairs)
