"""Columns as they lie in Arrow, numpy, pandas and polars, and rows of them that are wrong."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

import nearprint
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from nearprint import errors

TEXTS = ["black tea", None, "green tea", "black tea", "...", None, "a text of more than 12 bytes"]
TEA = nearprint.fingerprint("black tea")
VECTORS = [[0.5, -1.25, 3.0], None, [1.0, 2.0, -3.0], [-0.25, 0.5, 0.75]]


def plain(texts: list[str | None]) -> list[int | None]:
    return nearprint.fingerprint_many(texts).tolist()


@pytest.mark.parametrize(
    "column",
    [
        lambda texts: pa.array(texts).dictionary_encode(),
        lambda texts: pa.array(texts, pa.dictionary(pa.int8(), pa.string())),
        lambda texts: pa.array(texts, pa.dictionary(pa.uint16(), pa.large_string())),
        lambda texts: pa.array(texts).dictionary_encode(null_encoding="encode"),
        lambda texts: pa.array(["dropped", *texts]).dictionary_encode()[1:],
        lambda texts: pa.chunked_array([texts[:2], texts[2:]]).dictionary_encode(),
        lambda texts: pa.DictionaryArray.from_arrays(
            pa.array([1, None, 2, 1, 3, None, 4], pa.int64()),
            pa.array(["dropped", "unused", texts[0], texts[2], texts[4], texts[6]])[1:],
        ),
        lambda texts: pa.array([text and text.encode() for text in texts]).dictionary_encode(),
        lambda texts: pl.Series(texts, dtype=pl.Categorical),
        lambda texts: pl.Series(texts, dtype=pl.Enum([text for text in {*texts} if text])),
        lambda texts: pd.Series(texts, dtype="category"),
        lambda texts: pd.Series(texts, dtype="category")[lambda column: column.index >= 0],
        pd.Categorical,
    ],
)
def test_dictionaries_of_texts_are_columns_of_texts(column: Callable) -> None:
    assert nearprint.fingerprint_many(column(TEXTS)).tolist() == plain(TEXTS)


def test_an_empty_dictionary_has_nulls_alone() -> None:
    for nulls in (
        pa.array([None, None], pa.dictionary(pa.int32(), pa.string())),
        pa.array([None, None]).dictionary_encode(),
        pd.Series([None, None], dtype=pd.CategoricalDtype(["tea"])),
        pl.Series([None, None], dtype=pl.Categorical),
    ):
        assert nearprint.fingerprint_many(nulls).tolist() == [None, None]


def test_a_dictionary_index_beyond_its_values_is_refused() -> None:
    for at in (1, -1):
        indices = pa.array([0, at], pa.int8())
        broken = pa.DictionaryArray.from_arrays(indices, pa.array(["tea"]), safe=False)
        with pytest.raises(ValueError, match="an index beyond its dictionary"):
            nearprint.fingerprint_many(broken)


def vector_column(kind: pa.DataType) -> Callable:
    return lambda vectors: pa.array(vectors, kind)


@pytest.mark.parametrize(
    "column",
    [
        vector_column(pa.list_(pa.float32())),
        vector_column(pa.list_(pa.float64())),
        vector_column(pa.large_list(pa.float32())),
        vector_column(pa.large_list(pa.float64())),
        vector_column(pa.list_(pa.float32(), 3)),
        vector_column(pa.list_(pa.float64(), 3)),
        lambda vectors: pa.array([[9.0, 9, 9], *vectors], pa.list_(pa.float32()))[1:],
        lambda vectors: pa.array([[9.0, 9, 9], *vectors], pa.list_(pa.float64()))[1:],
        lambda vectors: pa.array([[9.0, 9, 9], *vectors], pa.list_(pa.float32(), 3))[1:],
        lambda vectors: pa.array([[9.0, 9, 9], *vectors], pa.list_(pa.float64(), 3))[1:],
        lambda vectors: pa.chunked_array([vectors[:1], vectors[1:]], pa.list_(pa.float32())),
        lambda vectors: pl.Series(vectors, dtype=pl.List(pl.Float64)),
        lambda vectors: pl.Series(vectors, dtype=pl.Array(pl.Float32, 3)),
        pd.Series,
        lambda vectors: pd.Series([each and np.array(each) for each in vectors]),
        lambda vectors: pd.Series([each and np.array(each, np.float32) for each in vectors]),
        lambda vectors: pd.Series(vectors, dtype=pd.ArrowDtype(pa.list_(pa.float32()))),
        lambda vectors: [each and np.array(each, np.float32) for each in vectors],
    ],
)
def test_lists_of_numbers_are_columns_of_vectors(column: Callable) -> None:
    expected = [each and nearprint.fingerprint(each, recipe="hyperplanes-3") for each in VECTORS]
    given = column(VECTORS)
    assert nearprint.fingerprint_many(given, recipe="hyperplanes-3").tolist() == expected
    index = nearprint.Index(recipe="hyperplanes-3")
    assert index.insert_many("abcd", column(VECTORS)) == ["inserted", None, "inserted", "inserted"]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_numbers_may_begin_within_those_of_another_column(kind: pa.DataType) -> None:
    numbers = pa.array([9.0, 0.5, -1.25, 3.0, 1.0, 2.0, -3.0], kind)[1:]
    expected = [nearprint.fingerprint(VECTORS[at], recipe="hyperplanes-3") for at in (0, 2)]
    for column in (
        pa.ListArray.from_arrays([0, 3, 6], numbers),
        pa.FixedSizeListArray.from_arrays(numbers, 3),
    ):
        got = nearprint.fingerprint_many(column, recipe="hyperplanes-3")
        assert got.tolist() == expected


def test_whole_numbers_are_numbers_of_vectors() -> None:
    expected = nearprint.fingerprint([3, -200, 7], recipe="hyperplanes-3")
    for kind in (pa.int16(), pa.int32(), pa.int64()):
        column = pa.array([[3, -200, 7]], pa.list_(kind))
        assert nearprint.fingerprint_many(column, recipe="hyperplanes-3").tolist() == [expected]


def test_random_columns_have_the_fingerprints_of_their_lists() -> None:
    numbers = random.Random(5)
    kinds = [pa.float32(), pa.float64(), pa.int8()]
    for _ in range(200):
        rows = [
            None if numbers.random() < 0.2 else [numbers.randrange(1, 99) for _ in range(3)]
            for _ in range(numbers.randrange(6))
        ]
        number = numbers.choice(kinds)
        kind = numbers.choice([pa.list_(number), pa.large_list(number), pa.list_(number, 3)])
        first, last = numbers.randrange(4), numbers.randrange(7)
        column = pa.array(rows, kind)[first:last]
        got = nearprint.fingerprint_many(column, recipe="hyperplanes-3").tolist()
        some = rows[first:last]
        assert got == [
            each and nearprint.fingerprint(each, recipe="hyperplanes-3") for each in some
        ]


def test_a_vector_with_a_null_or_of_another_length_is_named() -> None:
    holed = pa.array([[1.0, 2.0, 3.0], [1.0, None, 3.0]])
    with pytest.raises(errors.InvalidValue, match=r"documents\[1\]"):
        nearprint.fingerprint_many(holed, recipe="hyperplanes-3")
    ragged = pa.array([[1.0, 2.0, 3.0], [1.0]])
    with pytest.raises(errors.DimensionMismatch, match=r"documents\[1\]: the vector has 1"):
        nearprint.fingerprint_many(ragged, recipe="hyperplanes-3")


def test_a_list_beyond_its_numbers_is_refused() -> None:
    for kind in (pa.float32(), pa.float64()):
        for changed in (1, 2):
            offsets = np.array([0, 3, 3], np.int32)
            buffers = [None, pa.py_buffer(offsets)]
            child = pa.array([1.0, 2.0, 3.0], kind)
            broken = pa.Array.from_buffers(pa.list_(kind), 2, buffers, children=[child])
            offsets[changed] = 9
            with pytest.raises(ValueError, match="a list ends beyond its numbers"):
                nearprint.fingerprint_many(broken, recipe="hyperplanes-3")
    offsets = np.array([0, 1, 3], np.int32)
    buffers = [None, pa.py_buffer(offsets)]
    broken = pa.Array.from_buffers(pa.list_(kind), 2, buffers, children=[child])
    offsets[1] = -1
    with pytest.raises(ValueError, match="a negative offset"):
        nearprint.fingerprint_many(broken, recipe="hyperplanes-3")


KINDS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_integers_of_any_kind(kind: str) -> None:
    numbers = [3, 100, 7]
    for ids in (
        np.array(numbers, kind),
        list(np.array(numbers, kind)),
        pa.array(numbers, getattr(pa, kind)()),
        pl.Series(numbers, dtype=getattr(pl, kind.replace("i", "I").replace("uI", "UI"))),
        pd.Series(numbers, dtype=kind),
        pd.Series(numbers, dtype=kind.replace("i", "I").replace("uI", "UI")),
    ):
        index = nearprint.Index()
        assert index.insert_many(ids, [1, 1 << 30, 1 << 60]) == ["inserted"] * 3
        assert list(index) == ["3", "100", "7"]
        one = np.dtype(kind).type(100)
        assert one in index and index.get(one) == 1 << 30
        assert index.insert(one, 1 << 30) == "already_present"
        assert index.query(1 << 30, id=one, distance=0) == [] and index.delete(one)


def test_ids_are_texts_of_any_column() -> None:
    for ids in (
        np.array(["x", "y"]),
        pa.array(["x", "y"], pa.string_view()),
        pa.array(["x", "y"]).dictionary_encode(),
        pl.Series(["x", "y"], dtype=pl.Categorical),
        pd.Series(["x", "y"]),
    ):
        index = nearprint.Index()
        index.insert_many(ids, [1, 1 << 40])
        assert list(index) == ["x", "y"]


def test_ids_that_are_none_are_named() -> None:
    index = nearprint.Index()
    with pytest.raises(errors.InvalidValue, match=r"ids\[1\]: it is null"):
        index.insert_many(pa.array([1, None]), [1, 2])
    with pytest.raises(errors.InvalidValue, match=r"ids\[1\]: an id has 1 to 2048 bytes"):
        index.insert_many(pa.array(["a", ""]), [1, 2])
    for ids in (pa.array([1.5]), pa.array([b"a"]), pa.array([[1]]), pl.Series([1.5])):
        with pytest.raises(TypeError, match="ids: an Arrow column of type .* neither strings nor"):
            index.insert_many(ids, [1])
    for id in (True, np.bool_(True), 1.0, np.float64(1), None, np.array([1])):
        with pytest.raises(TypeError, match="id takes a str or an int"):
            index.insert(id, 1)  # type: ignore[arg-type]
    assert len(index) == 0


SIGNED = -8861359614543878907


@pytest.mark.parametrize(
    "column",
    [
        list,
        np.array,
        pa.array,
        lambda bits: pl.Series(bits, dtype=pl.Int64),
        lambda bits: pd.Series(bits, dtype="int64"),
    ],
)
def test_signed_fingerprints_are_those_with_the_same_bits(column: Callable) -> None:
    assert struct.pack("q", SIGNED) == struct.pack("Q", TEA)
    index = nearprint.Index()
    index.insert_many("ab", column([SIGNED, 7]))
    assert index.items() == [("a", TEA), ("b", 7)]
    found = index.query_many(column([SIGNED, -1]))
    assert [[hit.id for hit in hits] for hits in found] == [["a"], []]


def test_a_signed_fingerprint_alone_is_one() -> None:
    index = nearprint.Index()
    index.insert("a", SIGNED)
    assert index.get("a") == TEA
    assert nearprint.distance(SIGNED, np.int64(SIGNED)) == nearprint.distance(SIGNED, TEA) == 0
    for wrong in (-(2**63) - 1, 2**64):
        with pytest.raises(errors.InvalidValue, match="an integer from 0"):
            nearprint.distance(wrong, 0)
        with pytest.raises(errors.InvalidValue, match="an integer from 0"):
            nearprint.FingerprintArray([wrong])
    with pytest.raises(TypeError, match="documents: an Arrow column"):
        index.insert_many("a", pa.array([1], pa.int32()))


def test_an_array_gives_signed_numbers_and_takes_them_back() -> None:
    array = nearprint.fingerprint_many(TEXTS)
    signed = array.tolist(signed=True)
    assert signed[:2] == [SIGNED, None]
    exact = [bits and struct.unpack("q", struct.pack("Q", bits))[0] for bits in array.tolist()]
    assert signed == exact
    assert nearprint.FingerprintArray(signed) == array
    assert nearprint.FingerprintArray(np.array([SIGNED])) == array[:1]
    with pytest.raises(TypeError, match="fingerprints takes integers and None, not str"):
        nearprint.FingerprintArray(["tea"])  # type: ignore[list-item]


def test_pandas_assigns_an_array() -> None:
    array = nearprint.fingerprint_many(["black tea", "green tea"])
    frame = pd.DataFrame({"text": ["black tea", "green tea"]})
    frame["fp"] = array
    frame.loc[:, "located"] = array
    frame = frame.assign(assigned=array).join(pd.DataFrame({"made": array}))
    frame["series"] = pd.Series(array, index=frame.index)
    for name in ("fp", "located", "assigned", "made", "series"):
        assert frame[name].dtype == np.uint64 and frame[name].tolist() == array.tolist(), name
    holed = nearprint.fingerprint_many(["black tea", "..."])
    frame["fp"] = pd.array(holed, dtype="UInt64")
    assert frame["fp"][0] == TEA and frame["fp"][1] is pd.NA


def test_polars_assigns_an_array() -> None:
    array = nearprint.fingerprint_many(["black tea", "..."])
    frame = pl.DataFrame({"text": ["black tea", "..."]})
    for made in (
        frame.with_columns(fp=pl.Series(array)),
        frame.with_columns(pl.Series(array).alias("fp")),
        frame.clone().insert_column(1, pl.Series(array).alias("fp")),
        pl.DataFrame({"text": frame["text"], "fp": array}),
    ):
        assert made["fp"].dtype == pl.UInt64 and made["fp"].to_list() == [TEA, None]


def test_an_array_of_no_dimension_is_one_text() -> None:
    for text in (np.array("black tea"), np.array(b"black tea"), np.array("black tea", object)):
        assert nearprint.fingerprint(text) == TEA
        with pytest.raises(TypeError, match=r"give \[document\] for a single one"):
            nearprint.fingerprint_many(text)
        assert nearprint.fingerprint_many([text]).tolist() == [TEA]
    assert nearprint.distance(np.array(7, np.int64), 0) == 3
    with pytest.raises(TypeError, match="document takes a str"):
        nearprint.fingerprint(np.array(1.5))
    itself: Any = np.empty((), object)
    itself[()] = itself
    with pytest.raises((TypeError, ValueError), match="document"):
        nearprint.fingerprint(itself)


WRONG = ["black tea", "black \ud800 tea", 7, "\ud801\udc00 tea", {"tea": "x"}, None]
PAIR = nearprint.fingerprint("\U00010400 tea")
REPLACED = nearprint.fingerprint("black \ufffd tea")


@pytest.mark.parametrize("column", [list, iter, pd.Series, lambda rows: np.array(rows, object)])
def test_a_wrong_row_is_an_error_or_null_or_replaced(column: Callable) -> None:
    with pytest.raises(ValueError, match=r"documents\[1\]: a lone surrogate at index 6"):
        nearprint.fingerprint_many(column(WRONG))
    with pytest.raises(ValueError, match=r"documents\[1\]: a lone surrogate at index 6"):
        nearprint.fingerprint_many(column(WRONG), errors="raise")
    null = nearprint.fingerprint_many(column(WRONG), errors="null").tolist()
    assert null == [TEA, None, None, None, None, None]
    replaced = nearprint.fingerprint_many(column(WRONG), errors="replace").tolist()
    assert replaced == [TEA, REPLACED, None, PAIR, None, None]


@pytest.mark.parametrize(
    "column",
    [
        np.array,
        list,
        pa.array,
        pl.Series,
        pd.Series,
        lambda vectors: [np.array(vector) for vector in vectors],
    ],
)
def test_a_wrong_vector_is_an_error_or_null(column: Callable) -> None:
    vectors = [[1.0, 2.0], [1.0, float("nan")], [float("inf"), 2.0], [3.0, 1.0]]
    expected = [
        nearprint.fingerprint(vector, recipe="hyperplanes-2") if at in (0, 3) else None
        for at, vector in enumerate(vectors)
    ]
    with pytest.raises(errors.InvalidValue, match=r"documents\[1\]"):
        nearprint.fingerprint_many(column(vectors), recipe="hyperplanes-2")
    for handling in ("null", "replace"):
        got = nearprint.fingerprint_many(
            column(vectors),
            recipe="hyperplanes-2",
            errors=handling,  # type: ignore[arg-type]
        )
        assert got.tolist() == expected


def test_an_index_takes_batches_with_wrong_rows() -> None:
    index = nearprint.Index()
    assert index.insert_many("abc", ["black tea", 1.5, "t\ud800"], errors="null") == [
        "inserted",
        None,
        None,
    ]
    checked = index.check_and_insert_many("de", [object(), "ten \ud800"], errors="replace")
    assert [each and each.outcome for each in checked] == [None, "inserted"]
    found = index.query_many(["black tea", b"", [1.0]], errors="null")
    assert [hits and [hit.id for hit in hits] for hits in found] == [["a"], None, None]
    with pytest.raises(TypeError, match=r"documents\[1\] takes"):
        index.query_many(["black tea", 1.5])
    with pytest.raises(TypeError, match=r"ids\[0\] takes"):
        index.insert_many([1.5], ["black tea"], errors="null")  # type: ignore[list-item]
    assert list(index) == ["a", "e"]


def test_what_is_wrong_with_a_call_is_an_error_all_the_same() -> None:
    with pytest.raises(errors.InvalidValue, match="errors: it is raise, null or replace, not"):
        nearprint.fingerprint_many(["tea"], errors="ignore")  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidValue, match="charset: only bytes have one"):
        nearprint.fingerprint_many(["tea"], charset="latin1", errors="null")
    with pytest.raises(errors.InvalidValue, match="recipe: "):
        nearprint.fingerprint_many([[1.0, 2.0]], recipe="spectral-2", errors="null")

    def interrupted():
        yield "tea"
        raise KeyboardInterrupt

    class Features(dict):  # type: ignore[type-arg]
        def items(self) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nearprint.fingerprint_many(interrupted(), errors="null")
    with pytest.raises(KeyboardInterrupt):
        nearprint.fingerprint_many([Features()], errors="null")
    with pytest.raises(TypeError, match="cast it to strings"):
        nearprint.fingerprint_many(pa.array([1, 2]), errors="null")
