"""The page about data sets, each example of it as a program of its own, and processes of datasets."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "datasets.md").read_text()
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", PAGE, flags=re.DOTALL)


def run(program: str, folder: pathlib.Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HF_HOME": str(folder), "HF_HUB_OFFLINE": "1"}
    script = folder / "program.py"
    script.write_text(program)
    return subprocess.run(
        [sys.executable, str(script)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_all_code_of_the_page_is_python() -> None:
    assert [language for language, _ in BLOCKS] == ["python"] * 5
    assert not re.search(r"^ {4}\S", re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL), re.MULTILINE)
    for library in ("datasets", "duckdb", "pandas", "polars"):
        assert any(f"import {library}" in code or f"from {library}" in code for _, code in BLOCKS)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_each_example_prints_what_it_says(number: int, tmp_path: pathlib.Path) -> None:
    code = BLOCKS[number][1]
    done = run(code, tmp_path)
    assert done.returncode == 0, done.stderr
    shown = [line.strip() for line in re.findall(r"print\(.*# -> (.*)", code)]
    assert shown and done.stdout.splitlines() == shown
    assert "RuntimeWarning" not in done.stderr


def test_an_index_in_processes_of_datasets_warns(tmp_path: pathlib.Path) -> None:
    program = (
        "import nearprint\n"
        "from datasets import Dataset\n"
        "index = nearprint.Index()\n"
        "rows = Dataset.from_dict({'id': list(range(4)), 'text': ['black tea'] * 4})\n"
        "def is_new(rows):\n"
        "    return [not it.duplicate for it in index.check_and_insert_many(rows['id'], rows['text'])]\n"
        "print(len(rows.filter(is_new, batched=True, num_proc=PROCESSES)))\n"
    )
    alone = run(program.replace("PROCESSES", "None"), tmp_path)
    assert (alone.stdout, "RuntimeWarning" in alone.stderr) == ("1\n", False), alone.stderr
    many = run(program.replace("PROCESSES", "2"), tmp_path)
    assert many.stdout == "2\n" and "RuntimeWarning: this process was forked" in many.stderr
