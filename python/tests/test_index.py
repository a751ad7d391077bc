"""The index in memory."""

from __future__ import annotations

import copy
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable

import nearprint
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from nearprint import errors


def test_a_changed_word_is_found(lamp: str, cable: str) -> None:
    assert nearprint.distance(lamp, cable) > 3, "within the distance it would be no example"
    index = nearprint.Index()
    assert index.insert("a", lamp) == "inserted"
    [hit] = index.query(cable)
    assert (hit.id, hit.distance) == ("a", nearprint.distance(lamp, cable))
    assert hit.fingerprint == nearprint.fingerprint(lamp)
    assert hit.similarity == nearprint.similarity(lamp, cable)
    assert index.query(cable, search="exact") == []
    assert index.query(cable, min_similarity=0.99) == []
    assert index.query(cable, id="a") == []
    checked = index.check_and_insert("b", cable)
    assert (checked.outcome, checked.duplicate, checked.hit) == ("duplicate", True, hit)
    assert "b" not in index and len(index) == 1


def test_it_finds_what_a_linear_search_finds() -> None:
    draw = random.Random(1)
    centres = [draw.getrandbits(64) for _ in range(40)]

    def near() -> int:
        bits = draw.choice(centres)
        for _ in range(draw.randrange(5)):
            bits ^= 1 << draw.randrange(64)
        return bits

    stored = {str(number): near() for number in range(2_000)}
    index = nearprint.Index(distance_max=6)
    outcomes = index.insert_many(stored, stored.values())
    assert set(outcomes) == {"inserted"}
    for _ in range(200):
        query, distance = near(), draw.randrange(7)
        hits = index.query(query, distance=distance, limit=10_000)
        expected = {id for id, bits in stored.items() if (bits ^ query).bit_count() <= distance}
        assert {hit.id for hit in hits} == expected
        assert [hit.distance for hit in hits] == sorted(hit.distance for hit in hits)
        assert index.query(query, distance=distance, limit=2) == hits[:2]


def test_writes_have_the_outcomes_of_the_service(lamp: str, cable: str) -> None:
    index = nearprint.Index()
    assert index.check_and_insert("a", lamp).outcome == "inserted"
    assert index.check_and_insert("a", lamp).outcome == "already_present"
    assert index.insert("a", lamp) == "already_present"
    assert index.check_and_insert("a", cable).outcome == "replaced", (
        "it is not a duplicate of itself"
    )
    assert index.get("a") == nearprint.fingerprint(cable)
    assert index.insert("a", lamp) == "replaced"
    assert (
        index.insert("b", "Something else, of which nothing else is a near-duplicate.")
        == "inserted"
    )
    checked = index.check_and_insert("b", cable)
    assert checked.outcome == "duplicate" and checked.hit.id == "a"
    assert "b" not in index, "its content before is removed"
    assert index.delete("a") and not index.delete("a") and len(index) == 0
    assert index.query(lamp) == [] and index.get("a") is None


def test_fingerprints_without_texts_count_by_their_distance_alone(lamp: str, cable: str) -> None:
    index = nearprint.Index(distance_max=6)
    index.insert("bare", nearprint.fingerprint(lamp))
    [hit] = index.query(cable, distance=6)
    assert hit.similarity is None
    index.insert(
        "sketched", nearprint.fingerprint(lamp), sketch=nearprint.sketch(lamp), recipe="np2"
    )
    by_id = {hit.id: hit.similarity for hit in index.query(cable)}
    assert by_id == {"sketched": nearprint.similarity(lamp, cable)}


def test_sketches_refute_what_is_only_near_by_chance(lamp: str) -> None:
    other = "An entirely different text about bread and butter, and about the price of a loaf."
    index = nearprint.Index()
    index.insert("a", nearprint.fingerprint(lamp), sketch=nearprint.sketch(other))
    assert index.query(lamp) == []
    assert [hit.id for hit in index.query(lamp, min_similarity=0)] == ["a"]


def test_short_texts_count_when_they_are_equal_or_confirmed() -> None:
    index = nearprint.Index(distance_max=12)
    index.insert("a", nearprint.fingerprint("black tea"))
    assert [hit.id for hit in index.query("black tea")] == ["a"]
    assert nearprint.distance("black tea", "black tee") <= 12
    assert index.query("black tee", distance=12) == []


@pytest.mark.parametrize(
    "column",
    [
        list,
        np.array,
        pl.Series,
        pd.Series,
        lambda bits: pa.array(bits, pa.uint64()),
        lambda bits: pa.chunked_array([bits[:1], bits[1:]], pa.uint64()),
    ],
)
def test_fingerprints_that_were_made_before_are_documents(column: Callable, lamp: str) -> None:
    fingerprints = nearprint.fingerprint_many([lamp, "black tea"])
    assert (np.asarray(fingerprints) > 2**63).any(), "no sign bit gets in the way"
    index = nearprint.Index()
    assert index.insert_many("ab", fingerprints) == ["inserted", "inserted"]
    given = column(fingerprints.tolist())
    hits = index.query_many(given)
    assert [[hit.id for hit in each] for each in hits] == [["a"], ["b"]]
    with_null = nearprint.fingerprint_many([lamp, "..."])
    assert [
        checked and checked.hit.id for checked in index.check_and_insert_many("cd", with_null)
    ] == ["a", None]


def test_every_index_finds_the_same(lamp: str) -> None:
    """A likely search goes by a permutation of the bits; with a random one, these would differ."""
    words = lamp.split()
    changed = [" ".join([*words[:at], "changed", *words[at + 1 :]]) for at in range(len(words))]
    assert sum(nearprint.distance(lamp, text) > 3 for text in changed) > 5

    def found() -> list[bool]:
        index = nearprint.Index()
        index.insert("a", lamp)
        return [bool(index.query(text)) for text in changed]

    first = found()
    assert any(first) and all(found() == first for _ in range(20))


def test_ids_may_be_numbers() -> None:
    index = nearprint.Index()
    index.insert(7, "black tea")
    assert "7" in index and 7 in index
    assert index.query("black tea")[0].id == "7"


def test_batches_are_their_documents_one_after_the_other(lamp: str, cable: str) -> None:
    index = nearprint.Index()
    texts = pa.array(
        [lamp, None, "...", cable, "something else, and more than ten words of it, as it is"]
    )
    checked = index.check_and_insert_many(range(5), texts)
    assert [each and each.outcome for each in checked] == [
        "inserted",
        None,
        None,
        "duplicate",
        "inserted",
    ]
    assert checked[3].hit.id == "0"
    hits = index.query_many([cable, None, lamp])
    assert [each and [hit.id for hit in each] for each in hits] == [["0"], None, ["0"]]
    assert index.insert_many(["0", "x"], [cable, cable]) == ["replaced", "inserted"]
    many = [
        f"document number {number} with some words of its own {number * 7919}"
        for number in range(3_000)
    ]
    index = nearprint.Index()
    index.insert_many(range(3_000), many)
    assert len(index) == 3_000
    batch = index.query_many(many, limit=3)
    assert batch == [index.query(text, limit=3) for text in many]


def test_a_refused_batch_changes_nothing(lamp: str) -> None:
    index = nearprint.Index()
    with pytest.raises(errors.InvalidValue, match="ids: 1 ids for 2 documents"):
        index.insert_many(["a"], [lamp, lamp])
    with pytest.raises(errors.InvalidValue, match="ids: 3 ids for 2 documents"):
        index.check_and_insert_many("abc", pa.array([lamp, lamp]))
    with pytest.raises(TypeError, match=r"documents\[1\] takes"):
        index.insert_many(["a", "b"], [lamp, 1.5])
    with pytest.raises(errors.InvalidValue, match=r"ids\[1\]: an id has 1 to 2048 bytes"):
        index.insert_many(["a", ""], [lamp, lamp])
    assert len(index) == 0


def test_what_an_index_does_not_take_has_the_code_of_the_service(lamp: str) -> None:
    index = nearprint.Index()
    for call, error, code in (
        (lambda: index.query(1, distance=4), errors.DistanceAboveMax, "distance_above_max"),
        (lambda: index.insert("a", 1, recipe="words-3"), errors.RecipeMismatch, "recipe_mismatch"),
        (lambda: index.insert("a", [1.0, 2.0]), errors.RecipeMismatch, "recipe_mismatch"),
        (lambda: index.insert("a", "..."), nearprint.EmptyDocument, "empty_document"),
        (lambda: index.query(1, min_similarity=2), errors.InvalidValue, "invalid_value"),
        (lambda: index.query(1, search="all"), errors.InvalidValue, "invalid_value"),
        (lambda: index.insert("", lamp), errors.InvalidValue, "invalid_value"),
        (lambda: index.insert("a" * 2_049, lamp), errors.InvalidValue, "invalid_value"),
        (
            lambda: index.insert("a", lamp, sketch=nearprint.sketch(lamp)),
            errors.InvalidValue,
            "invalid_value",
        ),
        (lambda: nearprint.Index(distance_max=13), errors.InvalidValue, "invalid_value"),
    ):
        with pytest.raises(error) as caught:
            call()
        assert caught.value.code == code
    vectors = nearprint.Index(recipe="hyperplanes-2")
    with pytest.raises(errors.DimensionMismatch):
        vectors.insert("a", [1.0, 2.0, 3.0])
    with pytest.raises(errors.RecipeMismatch):
        vectors.query("tea")
    with pytest.raises(TypeError, match="id takes a str or an int, not float"):
        index.insert(1.0, lamp)  # type: ignore[arg-type]
    assert len(index) == len(vectors) == 0


def test_vectors_are_documents() -> None:
    index = nearprint.Index(recipe="hyperplanes-3")
    vectors = np.array([[1.0, 2.0, 3.0], [-3.0, 1.0, 0.5]])
    assert index.insert_many(["a", "b"], vectors) == ["inserted", "inserted"]
    assert [hit.id for hit in index.query(vectors[1])] == ["b"]


def test_exactly_one_of_many_threads_inserts(lamp: str) -> None:
    index = nearprint.Index()
    outcomes: list[str] = []

    def check(number: int) -> None:
        for text in range(50):
            outcomes.append(index.check_and_insert(f"{number}-{text}", lamp).outcome)

    threads = [threading.Thread(target=check, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["duplicate"] * 399 + ["inserted"]


def test_its_documents_are_iterated_in_the_order_in_which_they_were_stored() -> None:
    index = nearprint.Index()
    ids = [str(number) for number in range(300)]
    random.Random(7).shuffle(ids)
    index.insert_many(ids, np.arange(300, dtype=np.uint64) << 20)
    assert list(index) == ids
    assert index.items() == [(id, number << 20) for number, id in enumerate(ids)]
    index.delete(ids[0])
    index.insert(ids[1], 7)
    assert index.insert(ids[2], 2 << 20) == "already_present"
    assert list(index) == [*ids[2:], ids[1]]
    assert index.items()[-1] == (ids[1], 7)
    assert dict(index.items()) == {id: index.get(id) for id in index}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_what_it_answers_is_copied_and_pickled(lamp: str, cable: str, protocol: int) -> None:
    index = nearprint.Index()
    index.insert("a", lamp)
    checked = index.check_and_insert("b", cable)
    fresh = index.check_and_insert("c", "black tea")
    for answer in (checked, checked.hit, fresh):
        assert pickle.loads(pickle.dumps(answer, protocol)) == answer
        assert copy.copy(answer) == copy.deepcopy(answer) == answer
    hit = nearprint.Hit("a", 11, distance=1)
    assert (hit.similarity, hit.numbers) == (None, None)
    assert nearprint.Checked("duplicate", hit).hit == hit
    with pytest.raises(errors.InvalidValue, match="outcome"):
        nearprint.Checked("perhaps")  # type: ignore[arg-type]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_that_is_forked_while_threads_use_an_index_can_use_it(lamp: str) -> None:
    index = nearprint.Index()
    texts = [f"{number} {lamp}" for number in range(500)]
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            index.insert_many([f"{number}" for number in range(500)], texts)

    def read() -> None:
        while not stop.is_set():
            index.query_many(texts[:50], threads=2)

    threads = [threading.Thread(target=use) for use in (write, read)]
    for thread in threads:
        thread.start()
    statuses = []
    for _ in range(40):
        child = os.fork()
        if child == 0:
            signal.alarm(60)  # a child that waits for ever ends with a signal
            try:
                index.insert("child", "black tea")
                counts = [hit.id for hit in index.query("black tea")] == ["child"]
                os._exit(not (counts and len(list(index)) == len(index)))
            finally:
                os._exit(2)
        statuses.append(os.waitpid(child, 0)[1])
        if statuses[-1]:
            break
    stop.set()
    for thread in threads:
        thread.join()
    assert statuses == [0] * 40


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_that_stores_in_its_copy_warns_once() -> None:
    index = nearprint.Index()
    index.insert("a", 1)

    def writes(index: nearprint.Index) -> list[str]:
        """The warnings of a look-up, and of two documents stored."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            index.query_many([1])
            assert caught == []
            index.insert_many(["b"], [1 << 40])
            index.delete("b")
        return [f"{warning.category.__name__}: {warning.message}" for warning in caught]

    def in_a_child(work: Callable[[], bool]) -> bool:
        child = os.fork()
        if child == 0:
            try:
                os._exit(0 if work() else 1)
            finally:
                os._exit(2)
        return os.waitpid(child, 0)[1] == 0

    def warns() -> bool:
        (warning,) = writes(index)
        return warning.startswith("RuntimeWarning: this process was forked and stores")

    assert in_a_child(lambda: warns() and writes(index) == [])
    assert in_a_child(lambda: warns() and in_a_child(warns))
    assert in_a_child(lambda: writes(nearprint.Index()) == [])
    assert writes(index) == [], "the parent has the index that it made"
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        def refuses() -> bool:
            with pytest.raises(RuntimeWarning, match="num_proc=1"):
                index.insert("c", 7)
            return "c" not in index

        assert in_a_child(refuses)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes fork here")
def test_a_fork_that_others_prepare_after_the_index_does_not_stop_the_process() -> None:
    """Hooks run in the reverse of their order, so that of another module may let threads run."""
    program = """
import os, threading, time
os.register_at_fork(before=lambda: time.sleep(0.02))
import nearprint
index = nearprint.Index()
index.insert("a", "black tea")
stop = threading.Event()
def read():
    while not stop.is_set():
        index.query_many(["black tea"])
        index.query("black tea")
        len(index)
threads = [threading.Thread(target=read) for _ in range(2)]
for thread in threads:
    thread.start()
for _ in range(10):
    child = os.fork()
    if child == 0:
        os._exit(len(index.query_many(["black tea"])[0]) != 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
for thread in threads:
    thread.join()
"""
    command = [sys.executable, "-W", "ignore", "-c", program]
    assert subprocess.run(command, timeout=60, check=False).returncode == 0
