"""A crawl of a local site of 300 pages, of which 80 are near-duplicates of others."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from harness import Proxy, Service, close, lose, near, text
from nearprint.client import Client

PAGES = 300
COPIES = 80
ORIGINALS = PAGES - COPIES

SPIDER = Path(__file__).with_name("spider.py")


@pytest.fixture(scope="module")
def pages(_service: Service) -> list[str]:
    """The text of each page; the last ones differ from the first in one word."""
    originals = [text(number, 100) for number in range(ORIGINALS)]
    with Client(_service.url) as client:
        return originals + [near(original, client) for original in originals[:COPIES]]


class Site:
    """Serves the pages; calls ``when_served`` after a number of them."""

    def __init__(self, pages: list[str]) -> None:
        site = self
        self.after, self.when_served = -1, lambda: None
        self._served = 0
        self._lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.path.strip("/")
                if name.isdecimal():
                    site.count()
                    body = f"<p>{pages[int(name)]}</p>"
                else:
                    body = "".join(f'<a href="/{number}">x</a>' for number in range(PAGES))
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def count(self) -> None:
        with self._lock:
            self._served += 1
            if self._served == self.after:
                self.when_served()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def site(pages: list[str]) -> Iterator[Site]:
    running = Site(pages)
    yield running
    running.close()


Crawl = Callable[..., tuple[list[dict[str, str]], dict[str, Any]]]


@pytest.fixture
def crawl(site: Site, tmp_path: Path) -> Crawl:
    """Crawls the site in a process of its own; its items and its counters."""

    def run(**settings: Any) -> tuple[list[dict[str, str]], dict[str, Any]]:
        run = subprocess.run(
            [sys.executable, str(SPIDER), site.url, str(tmp_path), json.dumps(settings)],
            capture_output=True,
            check=False,
            text=True,
            timeout=120,
        )
        assert run.returncode == 0, run.stderr
        stats = json.loads((tmp_path / "stats.json").read_text())
        print(run.stderr)
        items = (tmp_path / "items.jsonl").read_text().splitlines()
        return [json.loads(line) for line in items], stats

    return run


def assert_each_group_once(items: list[dict[str, str]], stats: dict[str, Any], url: str) -> None:
    groups = [int(item["url"].rsplit("/", 1)[1]) % ORIGINALS for item in items]
    assert sorted(groups) == list(range(ORIGINALS))
    assert stats["nearprint/dropped"] == stats["item_dropped_count"] == COPIES
    assert "nearprint/failed" not in stats
    with Client(url) as client:
        stored = {document["id"] for document in client.documents()}
    assert stored == {item["url"] for item in items}


def test_each_group_is_kept_once(service: Service, crawl: Crawl) -> None:
    items, stats = crawl(NEARPRINT_URL=service.url)
    assert_each_group_once(items, stats, service.url)
    assert stats["nearprint/outcome/inserted"] == ORIGINALS


def test_a_restart_in_the_middle_loses_nothing(
    own_service: Service, site: Site, crawl: Crawl
) -> None:
    def kill_and_start_later() -> None:
        own_service.kill()
        threading.Timer(1.0, own_service.start).start()

    site.after, site.when_served = PAGES // 2, kill_and_start_later
    items, stats = crawl(NEARPRINT_URL=own_service.url)
    assert_each_group_once(items, stats, own_service.url)


def test_lost_replies_lose_nothing(service: Service, proxy: Proxy, crawl: Crawl) -> None:
    count = iter(range(1_000_000))
    proxy.always(lambda proxy, seen: (lose if next(count) % 3 == 1 else Proxy.pass_on)(proxy, seen))
    items, stats = crawl(NEARPRINT_URL=proxy.url)
    assert_each_group_once(items, stats, service.url)


@pytest.mark.parametrize("on_failure", ["keep", "drop", "close"])
def test_what_cannot_be_checked(
    service: Service, proxy: Proxy, site: Site, crawl: Crawl, on_failure: str
) -> None:
    site.after, site.when_served = PAGES // 2, lambda: proxy.always(close)
    items, stats = crawl(
        NEARPRINT_URL=proxy.url, NEARPRINT_ON_FAILURE=on_failure, NEARPRINT_TIMEOUT=0.3
    )
    assert stats["nearprint/failed"] == stats["nearprint/failed/unreachable"] > 0
    dropped = stats.get("nearprint/dropped", 0)
    if on_failure == "keep":
        assert len(items) == PAGES - dropped
    elif on_failure == "drop":
        assert len(items) == PAGES - dropped - stats["nearprint/failed"]
    else:
        assert stats["finish_reason"] == "nearprint_failed"
        assert len(items) + dropped == stats["response_received_count"] - 1


def test_items_without_a_text_are_kept_and_said(
    service: Service, crawl: Crawl, capfd: pytest.CaptureFixture[str]
) -> None:
    items, stats = crawl(NEARPRINT_URL=service.url, NEARPRINT_FIELDS={"html": "body", "id": "url"})
    assert len(items) == stats["nearprint/without_content"] == PAGES
    log = capfd.readouterr().out
    assert log.count("NEARPRINT_FIELDS, now {'html': 'body', 'id': 'url'}") == 1, log


def test_a_crawl_that_runs_again_keeps_the_same(
    service: Service, pages: list[str], crawl: Crawl, site: Site
) -> None:
    # Two near texts, both stored: the likely search from one side may miss the other.
    with Client(service.url) as client:
        for number in (0, ORIGINALS):
            client.insert(pages[number], id=f"{site.url}{number}")
    for _ in range(2):
        items, stats = crawl(NEARPRINT_URL=service.url)
        assert stats["item_scraped_count"] == ORIGINALS + 1
        assert stats["nearprint/dropped"] == COPIES - 1
        assert {f"{site.url}{number}" for number in (0, ORIGINALS)} <= {i["url"] for i in items}


def test_options_and_other_fields(service: Service, crawl: Crawl) -> None:
    items, _ = crawl(
        NEARPRINT_URL=service.url,
        NEARPRINT_FIELDS={"html": "text"},
        NEARPRINT_OPTIONS={"namespace": "n", "min_similarity": 0.5},
    )
    assert len(items) == ORIGINALS
    with Client(service.url) as client:
        assert client.count("n") == ORIGINALS


def test_a_wrong_address_ends_the_crawl_before_it_begins(crawl: Crawl, site: Site) -> None:
    asked: list[bool] = []
    site.after, site.when_served = 1, lambda: asked.append(True)
    with pytest.raises((AssertionError, FileNotFoundError)):
        crawl(NEARPRINT_URL="http://127.0.0.1:1")
    assert not asked
