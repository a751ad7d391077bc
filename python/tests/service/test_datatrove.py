"""Pipelines of datatrove keep the documents that `nearprint dedup` keeps."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter
from harness import Proxy, Service, lose, near, problem, text
from nearprint import errors
from nearprint.client import Client
from nearprint.datatrove import NearprintFilter

FILES = 4
UNIQUE = 300
COPIES = 100


@pytest.fixture
def folder(service: Service, tmp_path: Path) -> Path:
    """Four files with documents, some of which are near-duplicates, copies or without a letter."""
    with Client(service.url) as client:
        texts = [text(number, 150) for number in range(UNIQUE)]
        texts += (
            [near(original, client) for original in texts[:COPIES]] + texts[50:60] + ["..."] * 2
        )
    # Copies are far from their originals, in other files and in the same.
    order = sorted(range(len(texts)), key=lambda number: (number * 7) % 31)
    (tmp_path / "in").mkdir()
    for file in range(FILES):
        lines = [
            json.dumps({"id": f"document {number}", "text": texts[number]})
            for number in order[file * len(order) // FILES : (file + 1) * len(order) // FILES]
        ]
        (tmp_path / "in" / f"{file}.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path


def run(folder: Path, filter: NearprintFilter, **executor: Any) -> tuple[list[str], list[str]]:
    """Run a pipeline; the ids of the documents that it keeps and drops."""
    for name in ("out", "dropped"):
        for file in (folder / name).glob("*"):
            file.unlink()
    filter.exclusion_writer = JsonlWriter(str(folder / "dropped"), compression=None)
    LocalPipelineExecutor(
        pipeline=[
            JsonlReader(str(folder / "in")),
            filter,
            JsonlWriter(str(folder / "out"), compression=None),
        ],
        logging_dir=str(folder / f"logs-{len(list(folder.glob('logs-*')))}"),
        **executor,
    ).run()
    return ids(folder / "out"), ids(folder / "dropped")


def ids(folder: Path) -> list[str]:
    return [
        json.loads(line)["id"]
        for file in folder.glob("*")
        for line in file.read_text().splitlines()
    ]


def dedup(folder: Path) -> set[str]:
    """The ids of the documents that `nearprint dedup` keeps."""
    subprocess.run(
        [
            os.environ["NEARPRINT_TEST_SERVICE"],
            "dedup",
            *sorted((folder / "in").glob("*")),
            "-o",
            folder / "unique.jsonl",
        ],
        check=True,
        capture_output=True,
    )
    return {json.loads(line)["id"] for line in (folder / "unique.jsonl").read_text().splitlines()}


def test_one_task_keeps_what_dedup_keeps(service: Service, folder: Path) -> None:
    kept, dropped = run(folder, NearprintFilter(service.url, batch_size=64))
    assert len(kept) == UNIQUE + 2
    assert set(kept) == dedup(folder)
    assert len(dropped) == COPIES + 10
    excluded = next((folder / "dropped").glob("*")).read_text().splitlines()[0]
    assert json.loads(excluded)["metadata"]["filter_reason"] == "near_duplicate"


def test_a_task_that_runs_again_keeps_the_same(service: Service, folder: Path) -> None:
    first = run(folder, NearprintFilter(service.url))
    assert run(folder, NearprintFilter(service.url)) == first


def test_lost_replies_change_nothing(service: Service, proxy: Proxy, folder: Path) -> None:
    proxy.then(lose, Proxy.pass_on, lose, lose)
    kept, _ = run(folder, NearprintFilter(proxy.url, batch_size=64))
    assert set(kept) == dedup(folder)


def test_tasks_in_several_processes_keep_each_group_once(service: Service, folder: Path) -> None:
    for method in ("fork", "forkserver"):
        filter = NearprintFilter(service.url, namespace=method)
        kept, dropped = run(folder, filter, tasks=FILES, workers=FILES, start_method=method)
        assert (len(kept), len(dropped)) == (UNIQUE + 2, COPIES + 10)


def test_a_document_that_cannot_be_stored_fails_the_task(
    service: Service, proxy: Proxy, folder: Path
) -> None:
    filter = NearprintFilter(service.url, distance=12)
    with pytest.raises(errors.DistanceAboveMax):
        run(folder, filter)
    proxy.always(problem(503, "overloaded", Retry_After="1000"))
    with pytest.raises(errors.Overloaded):
        run(folder, NearprintFilter(proxy.url))


def test_documents_stored_under_their_ids_are_kept_also_if_they_are_near(
    service: Service, tmp_path: Path
) -> None:
    """A search for one of two near documents may miss the other: then both are kept, each time."""
    with Client(service.url) as client:
        first = text(1, 150)
        pair = {"a": first, "b": near(first, client)}
        for name, content in pair.items():
            client.insert(content, id=name)
    (tmp_path / "in").mkdir()
    lines = [json.dumps({"id": name, "text": content}) for name, content in pair.items()]
    (tmp_path / "in" / "0.jsonl").write_text("\n".join(lines))
    assert run(tmp_path, NearprintFilter(service.url)) == (["a", "b"], [])


def test_a_field_of_another_name_is_said(service: Service) -> None:
    from datatrove.data import Document
    from datatrove.utils.logging import logger

    said: list[str] = []
    sink = logger.add(said.append, level="WARNING", format="{message}")
    try:
        for documents, warnings in ([""] * 250, 1), ([""] * 3, 1), ([], 0), (["a lamp", ""], 0):
            said.clear()
            data = [Document(content, f"{at}") for at, content in enumerate(documents)]
            assert len(list(NearprintFilter(service.url).run(iter(data)))) == len(documents)
            assert len(said) == warnings, said
            assert all("text_key" in line for line in said)
    finally:
        logger.remove(sink)
