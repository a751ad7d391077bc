# Made from asynchronous.py by tools/unasync; change that file, and run it again.
"""The client for threads."""

from __future__ import annotations

import math
import os
import ssl
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from nearprint.client import messages as m
from nearprint.client import operations
from nearprint.client.address import Address
from nearprint.client.batching import REPLY_BYTES_MAX, Call, check_settings
from nearprint.client.transport import Transport
from nearprint.errors import DocumentNotFound, NearprintError, Unreachable

if TYPE_CHECKING:
    import numpy
    from typing_extensions import Self, Unpack


class Client:
    """A client of a nearprint service, for any number of threads.

    Calls of several threads that wait at the same time are sent as one request. What was
    refused for the moment, or lost with its connection, is sent again until ``timeout``; a document
    without an id is stored under an id that is made of its text, so that this stores it once.

    A forked process makes connections of its own, and so does a copy of a client. A pickle of one
    has its token in it; a client with an ``ssl_context`` cannot be pickled.

    >>> with Client("http://127.0.0.1:7878") as client:  # doctest: +SKIP
    ...     reply = client.check_and_insert("The lamp flickers.", id="https://a.example/lamp")
    ...     reply["duplicate"]
    False

    :param url: ``http://`` or ``https://``, a host, and perhaps a port and a path.
    :param token: The token of a service that requires one.
    :param timeout: The seconds that one call may take, with the look-up of the host's name, all
        waiting and all attempts. Each method takes another one; those that return an iterator, for
        each of its requests.
    :param connections: At most this many requests are under way at one time; more calls wait, and
        are sent together.
    :param reply_bytes_max: A longer reply is not taken, by default one of more than 256 MiB. A
        server other than nearprint may send without end.
    :param ca_file: The certificates that sign that of the service, if the system lacks them.
    :param ssl_context: All of TLS, instead of ``ca_file``.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float = 30.0,
        connections: int = 4,
        reply_bytes_max: int = REPLY_BYTES_MAX,
        ca_file: str | os.PathLike[str] | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        check_settings(timeout, connections, reply_bytes_max)
        self._address = Address(url, token, ca_file, ssl_context)
        self._transport = Transport(self._address, timeout, connections, reply_bytes_max)
        self._made = partial(
            type(self),
            url,
            token=token,
            timeout=timeout,
            connections=connections,
            reply_bytes_max=reply_bytes_max,
            ca_file=ca_file,
            ssl_context=ssl_context,
        )

    def __reduce__(self) -> tuple[partial[Client], tuple[()]]:
        # A copy has the settings, the token too, and connections of its own.
        return self._made, ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._address.name!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; calls after this raise :class:`RuntimeError`."""
        self._transport.close()

    # One document.

    def fingerprint(
        self,
        text: str | None = None,
        *,
        timeout: float | None = None,
        **options: Unpack[m.FingerprintOptions],
    ) -> m.FingerprintReply:
        """Make a fingerprint; stores nothing."""
        return self._transport.run(operations.document("fingerprint", text, options), timeout)

    def query(
        self,
        text: str | None = None,
        *,
        timeout: float | None = None,
        **options: Unpack[m.QueryOptions],
    ) -> m.QueryReply:
        """Look up a document; stores nothing."""
        return self._transport.run(operations.document("query", text, options), timeout)

    def insert(
        self,
        text: str | None = None,
        *,
        timeout: float | None = None,
        **options: Unpack[m.InsertOptions],
    ) -> m.InsertReply:
        """Store a document, whether or not it has near-duplicates."""
        return self._transport.run(operations.document("insert", text, options), timeout)

    def check_and_insert(
        self,
        text: str | None = None,
        *,
        timeout: float | None = None,
        **options: Unpack[m.CheckOptions],
    ) -> m.CheckReply:
        """Look up a document, and store it if nothing counts as its duplicate.

        A document without an id gets one of its text. If a copy of it is stored already, the reply
        has ``"outcome": "already_present"`` and ``"duplicate": True``, but no hits.
        """
        return self._transport.run(operations.document("check-and-insert", text, options), timeout)

    def compare(
        self,
        a: str | m.ComparedDocument,
        b: str | m.ComparedDocument,
        *,
        timeout: float | None = None,
        **options: Unpack[m.CompareOptions],
    ) -> m.CompareReply:
        """Compare two documents; stores nothing."""
        return self._transport.run(operations.compare(a, b, options), timeout)

    def get(
        self,
        id: str | int,
        *,
        namespace: str | None = None,
        min_sequence: int | None = None,
        fresh: bool | None = None,
        timeout: float | None = None,
    ) -> m.StoredDocument | None:
        """The stored document with an id; None if there is none."""
        try:
            new = m.ReadOptions(min_sequence=min_sequence, fresh=fresh)
            return self._transport.run(operations.get(id, namespace, new), timeout)
        except DocumentNotFound:
            return None

    def delete(
        self, id: str | int, *, namespace: str | None = None, timeout: float | None = None
    ) -> bool:
        """Remove the document with an id; whether there was one."""
        reply = self._transport.run(operations.delete(id, namespace), timeout)
        return reply["removed"] > 0

    def delete_fingerprint(
        self,
        fingerprint: m.Fingerprint,
        *,
        namespace: str | None = None,
        timeout: float | None = None,
    ) -> int:
        """Remove a fingerprint with all its documents; how many there were."""
        reply = self._transport.run(operations.delete_fingerprint(fingerprint, namespace), timeout)
        return reply["removed"]

    # Any number of documents.

    def fingerprint_many(
        self,
        documents: Iterable[str | m.FingerprintDocument],
        *,
        in_flight: int = 4,
        timeout: float | None = None,
        **defaults: Unpack[m.FingerprintOptions],
    ) -> Iterator[m.FingerprintReply | NearprintError]:
        """Make fingerprints of any number of documents; see :meth:`check_and_insert_many`."""
        return self._flow(
            operations.documents("fingerprint", documents, defaults), in_flight, timeout
        )

    def query_many(
        self,
        documents: Iterable[str | m.QueryDocument],
        *,
        in_flight: int = 4,
        timeout: float | None = None,
        **defaults: Unpack[m.QueryOptions],
    ) -> Iterator[m.QueryReply | NearprintError]:
        """Look up any number of documents; see :meth:`check_and_insert_many`."""
        return self._flow(operations.documents("query", documents, defaults), in_flight, timeout)

    def insert_many(
        self,
        documents: Iterable[str | m.InsertDocument],
        *,
        in_flight: int = 4,
        timeout: float | None = None,
        **defaults: Unpack[m.InsertOptions],
    ) -> Iterator[m.InsertReply | NearprintError]:
        """Store any number of documents; see :meth:`check_and_insert_many`."""
        return self._flow(operations.documents("insert", documents, defaults), in_flight, timeout)

    def check_and_insert_many(
        self,
        documents: Iterable[str | m.CheckDocument],
        *,
        in_flight: int = 4,
        timeout: float | None = None,
        **defaults: Unpack[m.CheckOptions],
    ) -> Iterator[m.CheckReply | NearprintError]:
        """Look up and store any number of documents, as they are taken from an iterable.

        Yields for each document, in their order, its reply or the exception of what is wrong with
        it; the others are not affected. Reads ahead a few thousand documents.

        :param documents: Texts, or mappings with the fields and options of a document.
        :param in_flight: At most this many requests of 1,000 documents are under way. The service
            takes them in any order; with 1, documents are checked strictly in their order.
        :param defaults: Options for the documents that do not have them.
        """
        return self._flow(
            operations.documents("check-and-insert", documents, defaults), in_flight, timeout
        )

    def delete_many(
        self,
        ids: Iterable[str | int | m.DocumentName],
        *,
        in_flight: int = 4,
        namespace: str | None = None,
        timeout: float | None = None,
    ) -> Iterator[m.DeleteReply | NearprintError]:
        """Remove the documents with any number of ids."""
        defaults = {} if namespace is None else {"namespace": namespace}
        return self._flow(operations.documents("delete", ids, defaults, "id"), in_flight, timeout)

    # Arrays of fingerprints.

    def query_packed(
        self,
        fingerprints: Any,
        *,
        in_flight: int = 4,
        timeout: float | None = None,
        **options: Unpack[m.PackedQueryOptions],
    ) -> numpy.typing.NDArray[numpy.uint8]:
        """Look up an array of 64-bit fingerprints.

        Returns the distance of the nearest hit of each, or 255 for none.
        """
        calls = operations.packed("query", fingerprints, options)
        results = self._transport.run_many(calls, in_flight, timeout)
        return operations.joined(list(results))

    def insert_packed(
        self,
        fingerprints: Any,
        *,
        in_flight: int = 4,
        timeout: float | None = None,
        **options: Unpack[m.PackedInsertOptions],
    ) -> int:
        """Store an array of 64-bit fingerprints without ids; how many were stored.

        A request that may have been carried out is not repeated.
        """
        calls = operations.packed("insert", fingerprints, options)
        results = self._transport.run_many(calls, in_flight, timeout)
        return sum([reply["inserted"] for reply in results])

    def check_and_insert_packed(
        self,
        fingerprints: Any,
        *,
        in_flight: int = 4,
        timeout: float | None = None,
        **options: Unpack[m.PackedCheckOptions],
    ) -> numpy.typing.NDArray[numpy.uint8]:
        """Look up an array of 64-bit fingerprints, and store those without a hit, without ids.

        Returns the distance of the nearest hit of each, or 255 for those that were stored. A
        request that may have been carried out is not repeated.
        """
        calls = operations.packed("check-and-insert", fingerprints, options)
        results = self._transport.run_many(calls, in_flight, timeout)
        return operations.joined(list(results))

    # What is stored.

    def documents(
        self, *, timeout: float | None = None, **options: Unpack[m.ListOptions]
    ) -> Iterator[m.StoredDocument]:
        """The stored documents, oldest first."""
        return self._pages(operations.documents_stored(options), timeout)

    def documents_of(
        self,
        fingerprint: m.Fingerprint,
        *,
        timeout: float | None = None,
        **options: Unpack[m.FingerprintListOptions],
    ) -> Iterator[m.StoredDocument]:
        """The stored documents of a fingerprint, oldest first."""
        return self._pages(operations.documents_of(fingerprint, options), timeout)

    def namespaces(
        self,
        *,
        min_sequence: int | None = None,
        fresh: bool | None = None,
        timeout: float | None = None,
    ) -> Iterator[m.Namespace]:
        """The namespaces that have documents, in the order in which they began."""
        return self._pages(
            operations.namespaces(m.ReadOptions(min_sequence=min_sequence, fresh=fresh)), timeout
        )

    def originals(
        self, *, timeout: float | None = None, **options: Unpack[m.OriginalsOptions]
    ) -> Iterator[m.StoredDocument]:
        """The documents with the most duplicates."""
        return self._pages(operations.originals(options), timeout)

    # Work that goes on after the reply.

    def purge(self, *, timeout: float | None = None, **conditions: Unpack[m.PurgeOptions]) -> m.Job:
        """Begin to remove the documents that meet all conditions."""
        return self._transport.run(operations.purge(conditions), timeout)

    def find_groups(
        self, *, timeout: float | None = None, **options: Unpack[m.GroupsOptions]
    ) -> m.Job:
        """Begin to find the groups of near-duplicates."""
        return self._transport.run(operations.find_groups(options), timeout)

    def groups(self, job: str, *, timeout: float | None = None) -> Iterator[m.Group]:
        """The groups that a job found, the largest first."""
        return self._pages(operations.groups(job), timeout)

    def group(
        self,
        job: str,
        group: int,
        *,
        include: m.Include | None = None,
        timeout: float | None = None,
    ) -> Iterator[m.Member]:
        """The documents of a group, oldest first."""
        return self._pages(operations.group(job, group, include), timeout)

    def jobs(
        self,
        *,
        min_sequence: int | None = None,
        fresh: bool | None = None,
        timeout: float | None = None,
    ) -> Iterator[m.Job]:
        """The jobs that run or wait, and those that ended last."""
        return self._pages(
            operations.jobs(m.ReadOptions(min_sequence=min_sequence, fresh=fresh)), timeout
        )

    def job(
        self,
        job: str,
        *,
        min_sequence: int | None = None,
        fresh: bool | None = None,
        timeout: float | None = None,
    ) -> m.Job:
        """How far a job is."""
        new = m.ReadOptions(min_sequence=min_sequence, fresh=fresh)
        return self._transport.run(operations.job(job, new), timeout)

    def wait_for_job(self, job: str, *, timeout: float | None = None) -> m.Job:
        """Wait until a job has ended; :class:`TimeoutError` if it has not after so many seconds."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        for pause in operations.pauses(job, deadline):
            left = max(deadline - time.monotonic(), 0.001)
            try:
                state = self.job(job, timeout=min(left, self._transport.timeout))
            except Unreachable:
                if time.monotonic() < deadline:
                    raise
                continue
            if state["ended_at_ms"] is not None:
                return state
            time.sleep(pause)
        raise AssertionError("pauses end with an exception")

    def cancel_job(self, job: str, *, timeout: float | None = None) -> m.Job:
        """Cancel a job, or remove a search for groups that has ended.

        What a purge has removed stays removed.
        """
        return self._transport.run(operations.cancel_job(job), timeout)

    # The service.

    def wait_until_ready(self, *, timeout: float | None = None) -> None:
        """Wait until the service has recovered, and takes writes or is a copy fit for look-ups."""
        self._transport.run(operations.ready(), timeout)

    def stats(
        self,
        *,
        min_sequence: int | None = None,
        fresh: bool | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """The state of the service in numbers."""
        new = m.ReadOptions(min_sequence=min_sequence, fresh=fresh)
        return self._transport.run(operations.stats(None, new), timeout)

    def count(
        self,
        namespace: str,
        *,
        min_sequence: int | None = None,
        fresh: bool | None = None,
        timeout: float | None = None,
    ) -> int:
        """The number of documents of a namespace."""
        new = m.ReadOptions(min_sequence=min_sequence, fresh=fresh)
        reply = self._transport.run(operations.stats(namespace, new), timeout)
        return reply["documents"]

    def take_snapshot(self, *, timeout: float | None = None) -> m.Snapshot:
        """Take a snapshot, and return once it is on disk."""
        return self._transport.run(operations.take_snapshot(), timeout)

    def snapshots(self, *, timeout: float | None = None) -> list[m.Snapshot]:
        """The snapshots on disk, newest first."""
        reply = self._transport.run(operations.snapshots(), timeout)
        return reply["snapshots"]

    # How calls are made.

    def _pages(self, listed: operations.List, timeout: float | None) -> Iterator[Any]:
        after = listed.options.get("after")
        while True:
            page = self._transport.run(operations.page(listed, after), timeout)
            yield from page[listed.form.field]
            after = page["next"]
            if after is None:
                return

    def _flow(
        self, calls: Iterator[Call[list[Any]]], in_flight: int, timeout: float | None
    ) -> Iterator[Any]:
        with closing(self._transport.run_many(calls, in_flight, timeout)) as results:
            for replies in results:
                yield from replies
