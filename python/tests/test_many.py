"""Batches: lists, numpy, Arrow, pandas and polars in, one column of `uint64` out."""

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
from nearprint import errors

TEXTS = ["black tea", None, "北京烤鸭", "...", "a text that is longer than twelve bytes", ""]


def expected(texts: list[str | None]) -> list[int | None]:
    def bits(text: str | None) -> int | None:
        try:
            return None if text is None else nearprint.fingerprint(text)
        except nearprint.EmptyDocument:
            return None

    return [bits(text) for text in texts]


def chunked(texts: list[str | None], kind: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array(
        [pa.array(texts[:2], kind), pa.array([], kind), pa.array(texts[2:], kind)]
    )


@pytest.mark.parametrize(
    "column",
    [
        list,
        tuple,
        iter,
        lambda texts: np.array(texts, dtype=object),
        lambda texts: pa.array(texts),
        lambda texts: pa.array(texts, pa.large_string()),
        lambda texts: pa.array(texts, pa.string_view()),
        lambda texts: pa.array(["dropped", *texts])[1:],
        lambda texts: pa.array(["dropped", *texts], pa.string_view())[1:],
        lambda texts: chunked(texts, pa.string()),
        lambda texts: chunked(texts, pa.string_view()),
        lambda texts: pa.array([text and text.encode() for text in texts]),
        lambda texts: pa.array([text and text.encode() for text in texts], pa.large_binary()),
        lambda texts: pa.array([text and text.encode() for text in texts], pa.binary_view()),
        lambda texts: [text and text.encode() for text in texts],
        lambda texts: pd.Series(texts),
        lambda texts: pd.Series(texts, dtype=object),
        lambda texts: pd.Series(texts, dtype="string"),
        lambda texts: pd.Series(texts, dtype=pd.ArrowDtype(pa.string())),
        lambda texts: pd.Series(texts, index=range(10, 10 + len(texts))),
        lambda texts: pl.Series(texts),
        lambda texts: pl.DataFrame({"text": texts})["text"],
    ],
)
def test_every_column_of_texts_has_the_same_fingerprints(column: Callable) -> None:
    given = column(TEXTS)
    got = nearprint.fingerprint_many(given)
    assert got.tolist() == expected(TEXTS)
    assert got.null_count == 3


def test_a_numpy_array_of_strings_is_a_column() -> None:
    texts = ["black tea", "green tea"]
    for dtype in (str, np.dtypes.StringDType()):
        assert nearprint.fingerprint_many(np.array(texts, dtype)).tolist() == expected(texts)


def test_no_documents_are_no_fingerprints() -> None:
    for nothing in (
        [],
        pa.array([], pa.string()),
        pl.Series([], dtype=pl.String),
        pd.Series([], dtype=str),
    ):
        assert nearprint.fingerprint_many(nothing).tolist() == []
    nulls = pa.array([None, None])
    assert nearprint.fingerprint_many(nulls).tolist() == [None, None]


def test_batches_of_any_size_keep_their_order() -> None:
    texts = [f"document {number} of many, with some words of its own" for number in range(40_000)]
    got = nearprint.fingerprint_many(texts)
    assert len(got) == len(texts) and got.null_count == 0
    for at in range(0, len(texts), 997):
        assert got[at] == nearprint.fingerprint(texts[at])
    assert nearprint.fingerprint_many(texts, threads=1) == got
    assert nearprint.fingerprint_many(pa.array(texts)) == got
    batches = [pa.array(texts[at : at + 700]) for at in range(0, len(texts), 700)]
    assert nearprint.fingerprint_many(pa.chunked_array(batches)) == got


def test_pages_with_a_charset_are_a_column() -> None:
    page = "<p>Café &amp; tea</p>".encode("latin1")
    got = nearprint.fingerprint_many(pa.array([page, None]), html=True, charset="latin1")
    assert got.tolist() == [nearprint.fingerprint("Café & tea"), None]
    with pytest.raises(errors.InvalidValue, match="charset: only bytes have one"):
        nearprint.fingerprint_many(["tea"], charset="latin1")


def test_numpy_has_uint64_or_says_that_there_are_nulls() -> None:
    whole = nearprint.fingerprint_many(["black tea", "green tea"])
    array = np.asarray(whole)
    assert array.dtype == np.uint64 and array.tolist() == whole.tolist()
    assert np.array_equal(whole.to_numpy(), array)
    holed = nearprint.fingerprint_many(["black tea", "..."])
    assert np.asarray(holed).tolist() == [whole[0], None]
    with pytest.raises(ValueError, match="1 of 2 documents have no fingerprint"):
        holed.to_numpy()
    with pytest.raises(ValueError, match="have no fingerprint"):
        np.asarray(holed, dtype=np.uint64)
    assert holed.to_numpy(null=7).tolist() == [whole[0], 7]
    masked = holed.to_masked()
    assert masked.dtype == np.uint64 and masked.tolist() == [whole[0], None]
    with pytest.raises(ValueError, match="is a copy"):
        np.array(whole, copy=False)


def test_arrow_pandas_and_polars_have_nulls_and_lose_no_bit() -> None:
    got = nearprint.fingerprint_many(TEXTS)
    assert any(bits and bits >= 2**53 for bits in got)
    array = pa.array(got)
    assert array.type == pa.uint64() and array.to_pylist() == got.tolist()
    array.validate(full=True)
    series = pl.Series("fingerprint", got)
    assert series.dtype == pl.UInt64 and series.to_list() == got.tolist()
    frame = pd.DataFrame({"text": TEXTS})
    frame["fingerprint"] = got
    assert [bits if pd.notna(bits) else None for bits in frame["fingerprint"]] == got.tolist()
    exact = pd.array(got, dtype="UInt64")
    assert [bits if bits is not pd.NA else None for bits in exact] == got.tolist()
    assert pa.array(got[0:0]).to_pylist() == []


def test_arrow_keeps_the_fingerprints_when_python_has_dropped_them() -> None:
    array = pa.array(nearprint.fingerprint_many(TEXTS * 1_000))
    assert array.to_pylist() == expected(TEXTS) * 1_000


def test_an_array_is_a_sequence() -> None:
    got = nearprint.fingerprint_many(TEXTS)
    assert list(got) == got.tolist() and len(got) == len(TEXTS)
    assert got[-4] == got[2] and got[1] is None
    assert got[::-2].tolist() == got.tolist()[::-2]
    with pytest.raises(IndexError):
        got[len(TEXTS)]
    assert got == nearprint.FingerprintArray(got.tolist()) == pickle.loads(pickle.dumps(got))
    assert got != got[1:] and got != 1
    with pytest.raises(errors.InvalidValue, match="from 0 to"):
        nearprint.FingerprintArray([-(2**63) - 1])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("tea", r"documents takes many documents; give \[document\]"),
        (b"tea", r"documents takes many documents"),
        ({"tea": 1}, r"documents takes many documents"),
        (7, "documents takes many documents, not int"),
        (["tea", 7], r"documents\[1\] takes a str, bytes"),
        (np.array([1, 2]), r"documents\[0\] takes a str, bytes"),
        (pa.array([1, 2]), "'?\"?l\"?'?, none of strings or binary"),
        (pa.array([1, 2]).dictionary_encode(), "a dictionary of other values; cast it to strings"),
        (pa.table({"text": ["tea"]}), "a table or a struct; give one column of it"),
        (pl.DataFrame({"text": ["tea"]}), "a table or a struct; give one column of it"),
        (pa.array([["tea"]]), "lists; vectors are lists of float32, float64 or integers"),
    ],
)
def test_what_is_no_column_is_a_type_error(given: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        nearprint.fingerprint_many(given)  # type: ignore[arg-type]


def test_a_wrong_document_is_named() -> None:
    with pytest.raises(errors.DimensionMismatch, match=r"documents\[1\]: the vector has 3"):
        nearprint.fingerprint_many([[1.0, 2.0], [1.0, 2.0, 3.0]], recipe="hyperplanes-2")
    vectors = np.array([[1.0, 2.0], [0.0, 0.0]])
    assert nearprint.fingerprint_many(vectors, recipe="hyperplanes-2").null_count == 1
    with pytest.raises(errors.InvalidValue, match="threads: a batch needs at least one"):
        nearprint.fingerprint_many(["tea"], threads=0)


def test_vectors_without_numbers_are_as_many_as_they_are() -> None:
    with pytest.raises(errors.DimensionMismatch, match=r"documents\[0\]: the vector has 0"):
        nearprint.fingerprint_many(np.empty((3, 0)), recipe="hyperplanes-2")
    for shape in ((0, 0), (0, 2)):
        assert len(nearprint.fingerprint_many(np.empty(shape), recipe="hyperplanes-2")) == 0


def test_masked_numbers_of_vectors_are_refused() -> None:
    vectors = np.ma.masked_equal([[0.5, -1.25], [0.5, 9.0]], 9.0)
    with pytest.raises(errors.InvalidValue, match="documents: numbers of this array are masked"):
        nearprint.fingerprint_many(vectors, recipe="hyperplanes-2")
    with pytest.raises(errors.InvalidValue, match=r"documents\[1\]: numbers of this array"):
        nearprint.fingerprint_many(list(vectors), recipe="hyperplanes-2")
    with pytest.raises(errors.InvalidValue, match="document: numbers of this array are masked"):
        nearprint.fingerprint(vectors[1], recipe="hyperplanes-2")
    whole = nearprint.fingerprint_many(vectors[:1], recipe="hyperplanes-2")
    assert whole.tolist() == [nearprint.fingerprint([0.5, -1.25], recipe="hyperplanes-2")]


def test_a_broken_column_is_refused() -> None:
    offsets = pa.array([0, 3, 1], pa.int32()).buffers()[1]
    broken = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"tea")])
    with pytest.raises(ValueError, match="offsets that descend"):
        nearprint.fingerprint_many(broken)
    offsets = pa.array([0, 1], pa.int32()).buffers()[1]
    no_text = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(b"\xff")])
    with pytest.raises(ValueError, match="a text is not UTF-8"):
        nearprint.fingerprint_many(no_text)


def test_a_failing_stream_says_why() -> None:
    def batches():
        yield pa.record_batch([pa.array(["tea"])], names=["text"])
        raise RuntimeError("the network is away")

    class Column:
        """A stream of one column whose producer fails."""

        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            schema = pa.schema([("text", pa.string())])
            return pa.RecordBatchReader.from_batches(schema, batches()).__arrow_c_stream__()

    with pytest.raises((RuntimeError, TypeError), match="the network is away|one column of it"):
        nearprint.fingerprint_many(Column())


def test_a_batch_works_after_a_fork() -> None:
    texts = [f"document {number} " * 50 for number in range(2_000)]
    before = nearprint.fingerprint_many(texts)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        same = nearprint.fingerprint_many(texts) == before
        os.write(writer, b"same" if same else b"other")
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        assert pipe.read() == b"same"
    assert os.waitpid(child, 0)[1] == 0


def test_no_thread_outlives_a_batch() -> None:
    texts = [f"document {number} " * 50 for number in range(2_000)]
    before = set(os.listdir("/proc/self/task"))
    nearprint.fingerprint_many(texts, threads=4)
    assert set(os.listdir("/proc/self/task")) <= before


def test_control_c_ends_a_long_batch() -> None:
    texts = ["The lamp leaves at seven in the morning. " * 200] * 400_000

    def interrupt() -> None:
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        nearprint.fingerprint_many(texts)
