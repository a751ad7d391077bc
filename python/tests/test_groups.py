"""Groups of near-duplicates: of an index, and of a column."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from collections.abc import Callable

import nearprint
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from corpus import groups_of_pairs, groups_of_queries, texts
from nearprint import errors

COUNT = 500


def numbered(groups: list[list[str]]) -> list[list[int]]:
    return [[int(id) for id in group] for group in groups]


def groups_of(found: nearprint.Deduplicated) -> list[list[int]]:
    """The groups of a column in the order of their numbers."""
    count = int(found.group.max()) + 1
    return [np.flatnonzero(found.group == number).tolist() for number in range(count)]


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
        column = nearprint.dedup(documents, search="exact", threads=threads, **options)  # type: ignore[arg-type]
        assert groups_of(column) == expected


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"distance": 6}, {"min_numbers": 0.5}])
def test_a_likely_search_finds_the_groups_of_look_ups(seed: int, options: dict) -> None:
    documents = texts(COUNT, seed)
    expected = groups_of_queries(documents, **options)
    index = nearprint.Index(distance_max=6)
    index.insert_many(range(COUNT), documents)
    assert numbered(index.groups(**options)) == expected
    assert groups_of(nearprint.dedup(documents, **options)) == expected
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


@pytest.mark.parametrize(
    "column",
    [
        list,
        pl.Series,
        pd.Series,
        lambda rows: np.array(rows, dtype=object),
        pa.array,
        lambda rows: pa.chunked_array([rows[:3], rows[3:]], pa.string()),
        lambda rows: iter(rows),
    ],
)
def test_any_column_is_deduplicated(column: Callable, lamp: str, cable: str) -> None:
    found = nearprint.dedup(
        column([lamp, None, "...", "black tea", cable, lamp, "...", "black tea"])
    )
    keep, group, original = found
    assert keep.tolist() == [True, True, True, True, False, False, True, False]
    assert group.tolist() == [0, -1, -1, 1, 0, 0, -1, 1]
    assert original.tolist() == [0, 1, 2, 3, 0, 0, 6, 3]
    assert (keep.dtype, group.dtype, original.dtype) == (np.bool_, np.int64, np.int64)
    assert (found.keep is keep, found.group is group, found.original is original) == (True,) * 3
    again = pickle.loads(pickle.dumps(found))
    assert (
        isinstance(again, nearprint.Deduplicated) and again.original.tolist() == original.tolist()
    )


def test_documents_of_other_kinds_are_deduplicated(lamp: str) -> None:
    page = f"<p>{lamp}</p>"
    assert nearprint.dedup([page, lamp], html=True).keep.tolist() == [True, False]
    assert nearprint.dedup([page.encode(), b"<p>tea"], html=True).keep.tolist() == [True, True]
    fingerprints = nearprint.fingerprint_many([lamp, "...", lamp])
    assert nearprint.dedup(fingerprints).original.tolist() == [0, 1, 0]
    vectors = np.array([[1.0, 2.0, 3.0], [-3.0, 1.0, 0.5], [1.0, 2.0, 3.0]])
    assert nearprint.dedup(vectors, recipe="hyperplanes-3").keep.tolist() == [True, True, False]
    empty = nearprint.dedup([])
    assert [len(array) for array in empty] == [0, 0, 0]


def test_what_a_deduplication_does_not_take_is_refused_by_name(lamp: str) -> None:
    for call, message in (
        (lambda: nearprint.dedup([lamp], distance=13), "distance: it is 0 to 12, not 13"),
        (lambda: nearprint.dedup([lamp], min_similarity=2), "min_similarity: it is 0 to 1"),
        (lambda: nearprint.dedup([lamp], min_numbers=-1), "min_numbers: it is 0 to 1"),
        (lambda: nearprint.dedup([lamp], search="all"), "search: it is likely or exact"),  # type: ignore[arg-type]
        (lambda: nearprint.dedup([lamp], threads=0), "threads: "),
        (lambda: nearprint.dedup([lamp], recipe="np3"), "recipe: "),
    ):
        with pytest.raises(errors.InvalidValue, match=message):
            call()
    with pytest.raises(TypeError, match="give \\[document\\]"):
        nearprint.dedup(lamp)
    with pytest.raises(TypeError, match=r"documents\[1\] takes"):
        nearprint.dedup([lamp, 1.5])  # type: ignore[list-item]


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
