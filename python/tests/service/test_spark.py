"""A data frame keeps the rows that `nearprint dedup` keeps. Needs Java."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import Proxy, Service, lose, near, text
from nearprint.client import Client
from nearprint.spark import drop_near_duplicates
from pyspark.sql import DataFrame, SparkSession

UNIQUE = 300
COPIES = 100

Row = dict[str, Any]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    running = session.getOrCreate()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def rows(_service: Service) -> list[Row]:
    """Rows of which some are near-duplicates, copies, without a letter or without a text."""
    with Client(_service.url) as client:
        texts: list[str | None] = [text(number, 150) for number in range(UNIQUE)]
        texts += [near(str(original), client) for original in texts[:COPIES]]
    texts += [*texts[50:60], "...", None]
    return [{"id": number, "text": content, "size": 1.5} for number, content in enumerate(texts)]


def ids(frame: DataFrame) -> list[int]:
    return sorted(row["id"] for row in frame.collect())


def test_one_partition_keeps_what_dedup_keeps(
    service: Service, spark: SparkSession, rows: list[Row], tmp_path: Path
) -> None:
    frame = spark.createDataFrame(rows).coalesce(1)
    unique = drop_near_duplicates(frame, service.url)
    assert unique.schema == frame.schema

    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    subprocess.run(
        [os.environ["NEARPRINT_TEST_SERVICE"], "dedup", "in.jsonl", "-o", "out.jsonl"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    kept = [json.loads(line)["id"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert len(kept) == UNIQUE + 2
    assert ids(unique) == sorted(kept)
    # Every action computes the frame again.
    assert ids(unique) == sorted(kept)


def test_several_partitions_keep_each_group_once(
    service: Service, proxy: Proxy, spark: SparkSession, rows: list[Row]
) -> None:
    frame = spark.createDataFrame(rows).withColumnRenamed("text", "body").repartition(4)
    proxy.then(Proxy.pass_on, lose, lose)
    unique = drop_near_duplicates(frame, proxy.url, text_column="body", namespace="n")
    kept = ids(unique)
    assert len(kept) == UNIQUE + 2
    groups = [number % UNIQUE for number in kept if number < UNIQUE + COPIES]
    assert len(set(groups)) == len(groups)
    with Client(service.url) as client:
        assert client.count("n") == UNIQUE


def test_a_missing_column_is_named(service: Service, spark: SparkSession, rows: list[Row]) -> None:
    with pytest.raises(ValueError, match="no column body"):
        drop_near_duplicates(spark.createDataFrame(rows), service.url, text_column="body")
    with pytest.raises(Exception, match="every row needs an id"):
        frame = spark.createDataFrame([{"id": None, "text": "a b"}], "id string, text string")
        drop_near_duplicates(frame, service.url).collect()


def test_rows_stored_under_their_ids_are_kept_also_if_they_are_near(
    service: Service, spark: SparkSession
) -> None:
    with Client(service.url) as client:
        first = text(1, 150)
        pair = [first, near(first, client)]
        for name, content in enumerate(pair):
            client.insert(content, id=str(name))
    frame = spark.createDataFrame([{"id": str(name), "text": pair[name]} for name in (0, 1)])
    assert drop_near_duplicates(frame.coalesce(1), service.url).count() == 2
