"""Drops near-duplicate rows of a Spark data frame, by a nearprint service. See docs/clients.md."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from nearprint._hooks import TextWatch, is_kept
from nearprint.client import Client
from nearprint.errors import EmptyDocument

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame
    from typing_extensions import Unpack

    from nearprint.client.messages import CheckDocument, CheckOptions


def drop_near_duplicates(
    frame: DataFrame,
    url: str,
    *,
    text_column: str = "text",
    id_column: str = "id",
    token: str | None = None,
    timeout: float = 60.0,
    **options: Unpack[CheckOptions],
) -> DataFrame:
    """The rows of a data frame without those that are near-duplicates of earlier ones.

    Each partition is checked and stored in its order, by Arrow batches. Of near-duplicates in
    different partitions, the row that comes first is kept. Spark may compute a partition again;
    then it keeps the same rows: those that are stored under their ids, which must be unique. Rows
    whose text is null or has no letter are kept.

    :param frame: A data frame with a column of texts and one of ids.
    :param url: The service, as executors reach it.
    :param text_column: The column of texts.
    :param id_column: The column of ids, strings or integers.
    :param token: The token of the service, if it requires one.
    :param timeout: The seconds after which a batch without a reply fails the task.
    :param options: Options of each document, such as ``namespace`` or ``distance``.
    """
    for column in (text_column, id_column):
        if column not in frame.columns:
            raise ValueError(f"the data frame has no column {column}; it has {frame.columns}")
    settings = {"token": token, "timeout": timeout}
    return frame.mapInArrow(
        _keep(url, settings, text_column, id_column, dict(options)), frame.schema
    )


Batches = Iterator["pyarrow.RecordBatch"]


def _keep(
    url: str, settings: dict[str, Any], text_column: str, id_column: str, options: dict[str, Any]
) -> Callable[[Batches], Batches]:
    """The function for the batches of a partition, which runs on executors."""

    def keep(batches: Batches) -> Batches:
        import pyarrow

        watch = TextWatch(warnings.warn, f"Is {text_column} the column of texts (text_column)?")
        with Client(url, **settings) as client:
            for batch in batches:
                texts, ids = (batch.column(name).to_pylist() for name in (text_column, id_column))
                if None in ids:
                    raise ValueError(f"the column {id_column} has a null; every row needs an id")
                documents: Iterator[CheckDocument] = (
                    {"id": name, "text": content}
                    for name, content in zip(ids, texts, strict=True)
                    if content is not None
                )
                replies = client.check_and_insert_many(documents, in_flight=1, **options)
                kept = []
                for name, content in zip(ids, texts, strict=True):
                    reply = EmptyDocument() if content is None else next(replies)
                    kept.append(is_kept(reply, name, options))
                    watch.item(not isinstance(reply, EmptyDocument))
                yield batch.filter(pyarrow.array(kept, pyarrow.bool_()))
        watch.end()

    return keep
