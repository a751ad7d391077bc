"""The programs of docs/clients.md that stand in files of their own, each run in an empty folder."""

from __future__ import annotations

import functools
import gzip
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from harness import Service, near, text
from nearprint.client import Client

PAGE = Path(__file__).resolve().parents[3] / "docs" / "clients.md"
PROGRAMS = dict(re.findall(r"```python (\S+)\n(.*?)```", PAGE.read_text(), re.DOTALL))
COMMANDS = re.findall(r"^\$ (scrapy .*)$", PAGE.read_text(), re.MULTILINE)


@pytest.fixture
def texts(service: Service) -> dict[str, str]:
    """Three pages, one of which is the first with a word changed."""
    first, other = text(1, 100), text(2, 100)
    with Client(service.url) as client:
        return {"a": first, "b": other, "c": near(first, client)}


@pytest.fixture
def crawl(tmp_path: Path, texts: dict[str, str]) -> Path:
    """A folder with the pages as JSON lines in ``crawl/``."""
    (tmp_path / "crawl").mkdir()
    lines = (json.dumps({"id": name, "text": content}) for name, content in texts.items())
    (tmp_path / "crawl" / "pages.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory, texts: dict[str, str]) -> Iterator[str]:
    """The pages as a site."""
    folder = tmp_path_factory.mktemp("site")
    links = "".join(f'<a href="/{name}.html">{name}</a>' for name in texts)
    (folder / "index.html").write_text(links)
    for name, content in texts.items():
        (folder / f"{name}.html").write_text(f"<p>{content}</p>")
    handler = functools.partial(Silent, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        pass


def run(folder: Path, name: str, command: list[str], replaced: dict[str, str]) -> None:
    program = PROGRAMS[name]
    for part, other in replaced.items():
        assert part in program, part
        program = program.replace(part, other)
    (folder / name).write_text(program)
    ran = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        check=False,
        text=True,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr


def test_the_page_has_these_programs() -> None:
    assert PROGRAMS.keys() == {"pages.py", "unique.py", "rows.py"}


def test_the_spider_keeps_each_page_once(service: Service, site: str, tmp_path: Path) -> None:
    (line,) = COMMANDS
    replaced = {"https://example.org/": site, "127.0.0.1:7878": f"127.0.0.1:{service.port}"}
    run(tmp_path, "pages.py", [sys.executable, "-m", *line.split()], replaced)
    kept = [json.loads(line)["url"] for line in (tmp_path / "unique.jsonl").open()]
    names = {url.removeprefix(site).removesuffix(".html") for url in kept}
    # Which of two near-duplicates comes first, the crawl decides; the index has no text.
    assert names in ({"", "a", "b"}, {"", "b", "c"})


def test_datatrove_keeps_each_document_once(service: Service, crawl: Path) -> None:
    replaced = {"127.0.0.1:7878": f"127.0.0.1:{service.port}"}
    run(crawl, "unique.py", [sys.executable, "unique.py"], replaced)
    files = sorted((crawl / "unique").glob("*.jsonl.gz"))
    lines = [line for file in files for line in gzip.decompress(file.read_bytes()).splitlines()]
    assert sorted(json.loads(line)["id"] for line in lines) == ["a", "b"]


def test_spark_keeps_each_row_once(service: Service, crawl: Path) -> None:
    replaced = {"127.0.0.1:7878": f"127.0.0.1:{service.port}"}
    run(crawl, "rows.py", [sys.executable, "rows.py"], replaced)
    files = sorted((crawl / "unique-rows").glob("*.json"))
    assert sorted(json.loads(line)["id"] for file in files for line in file.open()) == ["a", "b"]
