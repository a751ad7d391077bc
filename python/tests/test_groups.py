"""Groups of near-duplicates of an index."""

from __future__ import annotations

import os
import signal
import threading
import time

import nearprint
import numpy as np
import pytest
from corpus import groups_of_pairs, groups_of_queries, texts
from nearprint import errors

COUNT = 500


def numbered(groups: list[list[str]]) -> list[list[int]]:
    return [[int(id) for id in group] for group in groups]


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(("distance", "min_similarity"), [(3, 0.83), (12, 0.83), (7, 0), (5, 0.95)])
def test_an_exact_search_finds_the_groups_of_all_pairs(
    seed: int, distance: int, min_similarity: float
) -> None:
    documents = texts(COUNT, seed)
    expected = groups_of_pairs(documents, distance, min_similarity)
    assert len(expected) > 20 and len(expected[0]) > 3
    index = nearprint.Index(distance_max=12)
    index.insert_many(range(COUNT), documents)
    options = {"distance": distance, "min_similarity": min_similarity}
    for threads in (1, 3):
        found = index.groups(search="exact", threads=threads, **options)  # type: ignore[arg-type]
        assert numbered(found) == expected


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"distance": 6}, {"min_numbers": 0.5}])
def test_a_likely_search_finds_the_groups_of_look_ups(seed: int, options: dict) -> None:
    documents = texts(COUNT, seed)
    expected = groups_of_queries(documents, **options)
    index = nearprint.Index(distance_max=6)
    index.insert_many(range(COUNT), documents)
    assert numbered(index.groups(**options)) == expected
    if not options:
        assert expected != groups_of_pairs(documents), "it finds more than an exact one"


def test_groups_are_of_what_is_stored_now() -> None:
    index = nearprint.Index()
    assert index.groups() == []
    far = 2**64 - 1
    index.insert_many("abcde", [0b0, 0b1, 0b111, far, far - 0b11])
    assert index.groups() == [["a", "b", "c"], ["d", "e"]]
    assert index.groups(distance=2) == [["a", "b", "c"], ["d", "e"]]
    assert index.groups(distance=1) == [["a", "b"]]
    index.delete("e")
    assert index.groups() == [["a", "b", "c"]]
    index.insert("d", 0b11)
    assert index.groups(distance=1) == [["a", "b", "c", "d"]]
    index.insert("b", far)
    assert index.groups(distance=1) == [["c", "d"]]
    index.insert("c", far - 1)
    assert index.groups(distance=1) == [["b", "c"]]
    index.insert("b", far - 3)
    assert index.groups(distance=1) == [["c", "b"]], "the oldest comes first"
    with pytest.raises(errors.DistanceAboveMax):
        index.groups(distance=4)


def test_groups_of_a_loaded_index_are_the_same() -> None:
    index = nearprint.Index()
    index.insert_many(range(COUNT), texts(COUNT, 4))
    assert nearprint.Index.from_bytes(bytes(index)).groups() == index.groups()


def test_merged_documents_are_those_of_both() -> None:
    documents = texts(COUNT, 5)
    index, other, all_of_them = (
        nearprint.Index(),
        nearprint.Index(distance_max=6),
        nearprint.Index(),
    )
    index.insert_many(range(300), documents[:300])
    other.insert_many(range(200, COUNT), documents[200:])
    for each in (slice(0, 300), slice(200, COUNT)):
        all_of_them.insert_many(range(COUNT)[each], documents[each])
    before = other.items()
    index.merge(other)
    assert index.items() == all_of_them.items() and other.items() == before
    assert index.groups() == all_of_them.groups()
    assert index.query_many(documents) == all_of_them.query_many(documents)
    index.merge(index)
    assert index.items() == all_of_them.items()


def test_a_merge_replaces_and_refuses_other_recipes() -> None:
    index, other = nearprint.Index(), nearprint.Index()
    index.insert_many("ab", [1, 2])
    other.insert_many("bc", [3, 4])
    index.merge(other)
    assert index.items() == [("a", 1), ("b", 3), ("c", 4)]
    words = nearprint.Index(recipe="words-2")
    words.insert("d", "black tea")
    with pytest.raises(
        errors.RecipeMismatch, match="other: this index compares fingerprints of np2"
    ):
        index.merge(words)
    assert len(index) == 3
    with pytest.raises(TypeError):
        index.merge([("a", 1)])  # type: ignore[arg-type]


def test_two_indexes_may_be_merged_into_each_other_at_once() -> None:
    one, other = nearprint.Index(), nearprint.Index()
    one.insert_many(range(2_000), range(2_000))
    other.insert_many(range(2_000, 4_000), range(2_000, 4_000))
    merges = [(one, other), (other, one)] * 3
    threads = [threading.Thread(target=into.merge, args=(of,)) for into, of in merges]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert dict(one.items()) == dict(other.items()) and len(one) == 4_000


def test_ctrl_c_ends_a_search_for_groups() -> None:
    draw = np.random.default_rng(1)
    centre = int(draw.integers(2**63))
    bits = (draw.integers(0, 64, (60_000, 6), dtype=np.uint64)).tolist()
    near = [centre ^ sum(1 << bit for bit in set(row)) for row in bits]
    index = nearprint.Index(distance_max=12)
    index.insert_many(range(len(near)), near)

    def interrupt() -> None:
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        index.groups(distance=12, threads=1)
    assert index.get(7) == near[7], "it can be used afterwards"
