"""Drops near-duplicate items of a Scrapy crawl: an add-on with an item pipeline.

::

    ADDONS = {"nearprint.scrapy.NearprintAddon": 500}
    NEARPRINT_URL = "http://127.0.0.1:7878"

Each item is checked and stored in one step, by a client of its own: through Scrapy's downloader, a
look-up would obey the download delay and the cache of the crawl. See docs/clients.md.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

try:
    from itemadapter import ItemAdapter
    from scrapy.exceptions import DropItem
    from scrapy.utils.asyncio import is_asyncio_available
except ImportError as _error:
    _hint = "nearprint.scrapy needs scrapy, an extra: pip install 'nearprint[scrapy]' (./python[scrapy] in a clone)"
    raise ImportError(_hint) from _error

from nearprint._hooks import TextWatch, is_kept
from nearprint.client import AsyncClient
from nearprint.errors import EmptyDocument, NearprintError

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings
    from typing_extensions import Self

    from nearprint.client.messages import CheckReply

logger: logging.Logger = logging.getLogger(__name__)

PRIORITY = 300
"""Where the add-on puts the pipeline, unless ``ITEM_PIPELINES`` has it."""

FIELDS = {"text": "text", "id": "url"}
"""The default of ``NEARPRINT_FIELDS``."""

CONTENT = ("text", "html", "features", "vector", "fingerprint")
ON_FAILURE = ("keep", "drop", "close")


class NearprintAddon:
    """Enables :class:`NearprintPipeline`."""

    def update_settings(self, settings: BaseSettings) -> None:
        settings.setdefault_in_component_priority_dict(
            "ITEM_PIPELINES", NearprintPipeline, PRIORITY
        )


class NearprintPipeline:
    """Keeps the first item of each group of near-duplicates, and drops the others."""

    def __init__(self, crawler: Crawler) -> None:
        settings = crawler.settings
        self._crawler = crawler
        self._fields: Mapping[str, str] = settings.getdict("NEARPRINT_FIELDS") or FIELDS
        self._content = [name for name in CONTENT if name in self._fields]
        if len(self._content) != 1:
            raise ValueError(
                f"NEARPRINT_FIELDS must name the item's field of one of {', '.join(CONTENT)}, "
                f"as {FIELDS} does; it is {dict(self._fields)}"
            )
        self._on_failure = settings.get("NEARPRINT_ON_FAILURE", "keep")
        if self._on_failure not in ON_FAILURE:
            raise ValueError(
                f"NEARPRINT_ON_FAILURE must be {' or '.join(ON_FAILURE)}, not {self._on_failure!r}"
            )
        self._options: dict[str, Any] = settings.getdict("NEARPRINT_OPTIONS")
        self._client = AsyncClient(
            settings.get("NEARPRINT_URL", "http://127.0.0.1:7878"),
            token=settings.get("NEARPRINT_TOKEN"),
            timeout=settings.getfloat("NEARPRINT_TIMEOUT", 30.0),
        )
        self._closing: asyncio.Task[None] | None = None
        self._watch = TextWatch(
            logger.warning,
            f"Name the field in the setting NEARPRINT_FIELDS, now {dict(self._fields)}.",
        )

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    async def open_spider(self) -> None:
        if not is_asyncio_available():
            raise RuntimeError(
                "nearprint.scrapy needs asyncio: leave TWISTED_REACTOR at its default"
            )
        # A wrong address should end the crawl before it begins, not let every item through.
        await self._client.wait_until_ready()

    async def close_spider(self) -> None:
        self._watch.end()
        await self._client.close()

    async def process_item(self, item: Any) -> Any:
        document = self._document(item)
        if document.get(self._content[0]) is None:
            return self._without_content(item)
        try:
            reply = await self._client.check_and_insert(**document)
        except EmptyDocument:
            return self._without_content(item)
        except (NearprintError, TypeError, ValueError) as error:
            return self._failed(item, error)
        self._count(f"outcome/{reply['outcome']}")
        if _has_changed(reply):
            self._count("changed")
        self._watch.item(has_text=True)
        if is_kept(reply, document.get("id"), self._options):
            return item
        self._count("dropped")
        if reply.get("numbers_differ"):
            self._count("numbers_differ")
        names = [document["id"] for hit in reply["hits"] for document in hit["documents"]]
        original = f" of {names[0]}" if names and names[0] else ""
        raise DropItem(f"near-duplicate{original}", log_level="DEBUG")

    def _document(self, item: Any) -> dict[str, Any]:
        adapter = ItemAdapter(item)
        fields = {name: adapter.get(field) for name, field in self._fields.items()}
        return {**self._options, **fields}

    def _without_content(self, item: Any) -> Any:
        self._count("without_content")
        self._watch.item(has_text=False)
        return item

    def _failed(self, item: Any, error: Exception) -> Any:
        """Do with an item that could not be checked as the settings say."""
        self._count("failed")
        self._count(f"failed/{getattr(error, 'code', type(error).__name__)}")
        logger.error("An item could not be checked (%s): %s", self._on_failure, error)
        if self._on_failure == "drop":
            raise DropItem(f"could not be checked: {error}", log_level="DEBUG")
        if self._on_failure == "close" and self._closing is None:
            engine = self._crawler.engine
            assert engine is not None
            # Closing waits for the items, so this item must not wait for it.
            self._closing = asyncio.ensure_future(
                engine.close_spider_async(reason="nearprint_failed")
            )
        return item

    def _count(self, name: str) -> None:
        assert self._crawler.stats is not None
        self._crawler.stats.inc_value(f"nearprint/{name}")


def _has_changed(reply: CheckReply) -> bool:
    """Whether the id was stored before, with other content."""
    previous = reply.get("previous")
    if previous is None:
        return False
    shares = (previous["similarity"], previous["numbers"])
    return previous["distance"] > 0 or any(share is not None and share < 1 for share in shares)
