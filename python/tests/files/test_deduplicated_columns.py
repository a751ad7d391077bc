"""`nearprint.dedup` beside the command `nearprint dedup`, on the same documents."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import nearprint
import pytest
from corpus import texts

PROGRAM = os.environ["NEARPRINT_TEST_SERVICE"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"search": "exact"},
        {"distance": 7},
        {"distance": 0, "search": "exact"},
        {"min_similarity": 0},
        {"min_similarity": 0.95},
        {"min_numbers": 0.5},
        {"recipe": "words-2"},
    ],
)
def test_the_groups_are_those_of_the_command(tmp_path: Path, options: dict) -> None:
    documents = texts(1_500, 11)
    lines = (json.dumps({"id": row, "text": text}) for row, text in enumerate(documents))
    (tmp_path / "documents.jsonl").write_text("\n".join(lines))
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    command = [PROGRAM, "dedup", "documents.jsonl", "--groups", "groups.jsonl", *flags]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    keep, group, original = nearprint.dedup(documents, **options)
    rows = [json.loads(line) for line in (tmp_path / "groups.jsonl").read_text().splitlines()]
    assert len(rows) > 50
    expected = {
        int(document): (row["group"] - 1, int(row["original"]))
        for row in rows
        for document in row["documents"]
    }
    for row in range(len(documents)):
        assert (group[row], original[row]) == expected.get(row, (-1, row)), documents[row]
        assert keep[row] == (original[row] == row)
