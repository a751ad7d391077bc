"""The examples of docs/clients.md, as they stand there, and the types of the package."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from harness import Service
from nearprint.client import Client

LAMP = (
    "The lamp on the second floor flickers when the lift starts, and nobody has found the loose "
    "wire behind the panel."
)
ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "clients.md"


def examples() -> str:
    """All Python examples of the page as one program."""
    return "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))


def test_the_examples_run(service: Service) -> None:
    # As if other pages had been followed on this service before.
    with Client(service.url) as client:
        for name in ("https://a.example/lamp", "https://b.example/copy", "page-1"):
            client.insert(LAMP, id=name)
    program = examples().replace("127.0.0.1:7878", f"127.0.0.1:{service.port}")
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert run.returncode == 0, run.stderr
    assert "page-1 has a near-duplicate" in run.stdout
    assert "empty_document 422" in run.stdout
    assert "http://127.0.0.1:1 cannot be reached: [Errno 111] Connection refused" in run.stdout


def test_the_types_of_the_examples_hold(tmp_path: Path) -> None:
    typed = examples().replace("def pages():", "def pages() -> Iterator[CheckDocument]:")
    head = (
        "from collections.abc import Iterator\n"
        "from nearprint.client.messages import CheckDocument\n"
    )
    (tmp_path / "examples.py").write_text(head + typed)
    run = mypy(tmp_path / "examples.py")
    assert run.returncode == 0, run.stdout


def test_the_types_of_the_package_hold() -> None:
    hooks = ("nearprint.scrapy", "nearprint.datatrove", "nearprint.spark")
    run = mypy("-p", "nearprint.client", *(f"-m{hook}" for hook in hooks))
    assert run.returncode == 0, run.stdout


@pytest.mark.parametrize(
    "wrong",
    [
        'client.query("a", distance="2")',
        'client.query("a", treshold=2)',
        'client.query("a")["outcome"]',
        'client.check_and_insert_many([{"txt": "a"}])',
        "client.get(1.5)",
    ],
)
def test_the_types_refuse(tmp_path: Path, wrong: str) -> None:
    program = f'from nearprint.client import Client\nclient = Client("http://a")\n{wrong}\n'
    (tmp_path / "wrong.py").write_text(program)
    run = mypy(tmp_path / "wrong.py")
    assert "wrong.py:3: error" in run.stdout


def mypy(*arguments: Path | str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        # Replies are JSON, which has no types before the method that returns it.
        [sys.executable, "-m", "mypy", "--strict", "--no-warn-return-any"]
        + ["--disable-error-code=import-untyped", *map(str, arguments)],
        cwd=tempfile.gettempdir(),
        capture_output=True,
        check=False,
        text=True,
        timeout=300,
    )
