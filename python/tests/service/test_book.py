"""The Python of the numbered chapters of docs/README.md: that of each as one program, in an empty folder.

Programs with the name of a file need no package, and are run by ``tests/commands/book.rs``.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from harness import Service

DOCS = Path(__file__).resolve().parents[3] / "docs"
CHAPTERS = re.findall(r"^\d+\. \[.*?\]\((.*?)\)", (DOCS / "README.md").read_text(), re.MULTILINE)
PROGRAMS = {
    chapter: "\n".join(re.findall(r"```python\n(.*?)```", (DOCS / chapter).read_text(), re.DOTALL))
    for chapter in CHAPTERS
}


def test_some_chapters_have_python() -> None:
    assert len(CHAPTERS) > 9
    assert sum(map(bool, PROGRAMS.values())) >= 2


@pytest.mark.parametrize("chapter", [chapter for chapter, program in PROGRAMS.items() if program])
def test_the_python_of_a_chapter_prints_what_it_shows(
    chapter: str, service: Service, tmp_path: Path
) -> None:
    program = PROGRAMS[chapter]
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", program.replace("127.0.0.1:7878", service.url[7:])],
        cwd=tmp_path,
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == re.findall(r"print\(.*# -> (.*)", program)
