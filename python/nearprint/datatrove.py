"""Drops near-duplicate documents in a datatrove pipeline, by a nearprint service.

::

    LocalPipelineExecutor(pipeline=[
        JsonlReader("crawl/"),
        NearprintFilter("http://127.0.0.1:7878", exclusion_writer=JsonlWriter("dropped/")),
        JsonlWriter("unique/"),
    ])

See docs/clients.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    from datatrove.pipeline.filters.base_filter import BaseFilter
    from datatrove.utils.logging import logger
except ImportError as _error:
    _hint = "nearprint.datatrove needs datatrove, an extra: pip install 'nearprint[datatrove]' (./python[datatrove] in a clone)"
    raise ImportError(_hint) from _error

from nearprint._hooks import TextWatch, is_kept
from nearprint.client import Client
from nearprint.errors import EmptyDocument

if TYPE_CHECKING:
    from collections.abc import Iterator

    from datatrove.data import Document, DocumentsPipeline
    from datatrove.pipeline.writers.disk_base import DiskWriter
    from typing_extensions import Unpack

    from nearprint.client.messages import CheckDocument, CheckOptions


class NearprintFilter(BaseFilter):  # type: ignore[misc]
    """Keeps the first document of each group of near-duplicates.

    Documents are checked and stored under their ids in one step, in the order of the task. A task
    that is run again keeps what it kept before: the documents that are stored under their ids. All
    tasks share the service, so of near-duplicates in different tasks, the one that comes first is
    kept. A document without a letter is kept.

    :param url: The service, as for :class:`nearprint.client.Client`.
    :param token: Its token, if it requires one.
    :param timeout: The seconds after which a batch without a reply fails the task.
    :param exclusion_writer: Saves the dropped documents.
    :param batch_size: The documents of a batch.
    :param options: Options of each document, such as ``namespace`` or ``distance``.
    """

    name = "nearprint"

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float = 60.0,
        exclusion_writer: DiskWriter | None = None,
        batch_size: int = 1000,
        **options: Unpack[CheckOptions],
    ) -> None:
        super().__init__(exclusion_writer, batch_size)
        self._url = url
        self._settings: dict[str, Any] = {"token": token, "timeout": timeout}
        self._options = options
        self._client: Client | None = None
        self._watch: TextWatch | None = None

    def run(
        self, data: DocumentsPipeline, rank: int = 0, world_size: int = 1
    ) -> Iterator[Document]:
        self._watch = TextWatch(logger.warning, "Let the reader's text_key name their field.")
        try:
            yield from super().run(data, rank, world_size)
            self._watch.end()
        finally:
            self._watch = None
            if self._client is not None:
                self._client.close()
                self._client = None

    def filter(self, doc: Document) -> bool | tuple[bool, str]:
        return self.filter_batch([doc])[0]

    def filter_batch(self, batch: list[Document]) -> list[bool | tuple[bool, str]]:
        if self._client is None:
            # Not before: the filter is copied to other processes.
            self._client = Client(self._url, **self._settings)
        documents: Iterator[CheckDocument] = (
            {"id": document.id, "text": document.text} for document in batch
        )
        # One request at a time, so that the first of two near-duplicates is kept.
        replies = self._client.check_and_insert_many(documents, in_flight=1, **self._options)
        return [self._result(doc, reply) for doc, reply in zip(batch, replies, strict=True)]

    def _result(self, document: Document, reply: Any) -> bool | tuple[bool, str]:
        if self._watch is not None:
            self._watch.item(not isinstance(reply, EmptyDocument))
        return is_kept(reply, document.id, self._options) or (False, "near_duplicate")
