"""Copies by `nearprint dedup`, read again by the libraries that others read such files with."""

from __future__ import annotations

import datetime
import decimal
import io
import os
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from warcio.archiveiterator import ArchiveIterator
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

PROGRAM = os.environ["NEARPRINT_TEST_SERVICE"]
ROWS = 300
WORDS = [
    "anchor",
    "basket",
    "candle",
    "dragon",
    "engine",
    "forest",
    "garden",
    "harbour",
    "island",
    "jacket",
    "kettle",
]


def dedup(source: Path, copy: Path, *options: str, status: int = 0) -> None:
    command = [PROGRAM, "dedup", str(source), "-o", str(copy), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr


def text(row: int) -> str:
    """The text of a row; every third one is that of the row before it."""
    row -= row % 3 == 2
    return " ".join(f"{WORDS[(row * 7 + i * i) % len(WORDS)]}{row % 50 + i}" for i in range(30))


def table() -> pa.Table:
    """A column of each type that data sets have, a tenth of the cells null."""
    utc = datetime.UTC
    day = datetime.datetime(2026, 1, 1, tzinfo=utc)
    columns: dict[str, tuple[pa.DataType, Any]] = {
        "flag": (pa.bool_(), lambda i: i % 2 == 0),
        "int8": (pa.int8(), lambda i: i % 100 - 50),
        "int16": (pa.int16(), lambda i: i - 150),
        "int32": (pa.int32(), lambda i: i * 70_000),
        "int64": (pa.int64(), lambda i: i << 40),
        "uint8": (pa.uint8(), lambda i: i % 256),
        "uint32": (pa.uint32(), lambda i: i + (1 << 31)),
        "uint64": (pa.uint64(), lambda i: i + (1 << 63)),
        "float": (pa.float32(), lambda i: i / 3),
        "double": (pa.float64(), lambda i: i / 7),
        "decimal": (pa.decimal128(20, 3), lambda i: decimal.Decimal(i) / 8),
        "date": (pa.date32(), lambda i: (day + datetime.timedelta(i)).date()),
        "time": (pa.time64("us"), lambda i: datetime.time(i % 24, i % 60)),
        "stamp_ms": (
            pa.timestamp("ms"),
            lambda i: (day + datetime.timedelta(i)).replace(tzinfo=None),
        ),
        "stamp_utc": (pa.timestamp("us", "UTC"), lambda i: day + datetime.timedelta(hours=i)),
        "bytes": (pa.binary(), lambda i: bytes([i % 256, 255])),
        "fixed": (pa.binary(4), lambda i: i.to_bytes(4, "big")),
        "name": (pa.string(), lambda i: f"name {i % 5}"),
        "large": (pa.large_string(), lambda i: f"gr\u00f6\u00dfe {i}"),
        "list": (pa.list_(pa.int32()), lambda i: list(range(i % 4))),
        "nested": (
            pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))]),
            lambda i: {"a": i, "b": [str(i)] * (i % 3)},
        ),
        "map": (pa.map_(pa.string(), pa.int32()), lambda i: [("key", i)]),
    }
    arrays = {
        "id": pa.array([f"d{i}" for i in range(ROWS)]),
        "text": pa.array(map(text, range(ROWS))),
    }
    for name, (kind, value) in columns.items():
        cells = [None if i % 10 == 3 else value(i) for i in range(ROWS)]
        arrays[name] = pa.array(cells, kind)
    return pa.table(arrays)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"compression": "none", "use_dictionary": False},
        {"compression": "gzip", "data_page_version": "2.0"},
        {"compression": "zstd", "row_group_size": 37},
        {"compression": "lz4", "version": "1.0"},
        {"compression": "brotli", "data_page_size": 200, "write_page_checksum": True},
        {"use_deprecated_int96_timestamps": True},
        {"store_schema": False, "write_statistics": False},
        {"use_byte_stream_split": ["float", "double"], "use_dictionary": False},
        {"column_encoding": {"int64": "DELTA_BINARY_PACKED"}, "use_dictionary": False},
    ],
    ids=str,
)
def test_a_copy_of_parquet_has_the_same_rows_and_types(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    source, copy = tmp_path / "source.parquet", tmp_path / "copy.parquet"
    parquet.write_table(table(), source, **settings)
    dedup(source, copy)
    before, after = parquet.read_table(source), parquet.read_table(copy)
    if "use_deprecated_int96_timestamps" in settings:
        # These have no unit and no zone; the copy has those of the Arrow schema.
        after = after.cast(before.schema)
    assert after.schema == before.schema
    kept = [i for i in range(ROWS) if i % 3 != 2]
    assert after.to_pylist() == before.take(kept).to_pylist()


def test_a_row_that_is_not_utf_8_is_copied_as_it_is(tmp_path: Path) -> None:
    source, copy = tmp_path / "source.parquet", tmp_path / "copy.parquet"
    rows = pa.table({"text": [text(i) for i in range(30)]})
    parquet.write_table(rows, source, row_group_size=10, use_dictionary=False, compression="none")
    # Statistics may have the text, too.
    good, bad = text(12).encode(), b"\xff" + text(12).encode()[1:]
    source.write_bytes(source.read_bytes().replace(good, bad))
    dedup(source, copy, status=1)
    column = parquet.read_table(copy).column("text").cast(pa.binary()).to_pylist()
    expected = [text(i).encode() for i in range(30) if i % 3 != 2]
    assert column == [bad if each == good else each for each in expected]


def archive() -> bytes:
    """Pages as a crawler stores them, each record compressed by itself."""
    file = io.BytesIO()
    writer = WARCWriter(file, gzip=True)
    for i in range(30):
        page = f"<html><body><p>{text(i)}</p></body></html>".encode()
        headers = StatusAndHeaders("200 OK", [("Content-Type", "text/html")], protocol="HTTP/1.1")
        address = f"https://example.org/{i}"
        record = writer.create_warc_record(
            address, "response", io.BytesIO(page), http_headers=headers
        )
        writer.write_record(record)
    return file.getvalue()


def test_a_copy_of_a_web_archive_has_the_pages_that_stay_whole(tmp_path: Path) -> None:
    source, copy = tmp_path / "source.warc.gz", tmp_path / "copy.warc.gz"
    source.write_bytes(archive())
    dedup(source, copy, "--revisit")
    pages, revisits = {}, {}
    with copy.open("rb") as file:
        for record in ArchiveIterator(file, check_digests="raise"):
            address = record.rec_headers.get_header("WARC-Target-URI")
            if record.rec_type == "revisit":
                revisits[address] = record.rec_headers.get_header("WARC-Refers-To-Target-URI")
            else:
                pages[address] = record.content_stream().read()
    number = "https://example.org/{}".format
    expected = {number(i): text(i) for i in range(30) if i % 3 != 2}
    assert {address: page.decode()[15:-18] for address, page in pages.items()} == expected
    assert revisits == {number(i): number(i - 1) for i in range(30) if i % 3 == 2}
