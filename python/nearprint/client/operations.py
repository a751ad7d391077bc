"""Each operation of the service as a :class:`Call`, for both clients."""

from __future__ import annotations

import time
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import quote, urlencode

from nearprint.client import messages as m
from nearprint.client.batching import Call, Request
from nearprint.client.encoding import CHUNK_BYTES_MAX, Chunks, Line, decoded, encode, line_of
from nearprint.client.replies import JSON, PACKED, Distances, Form, Page, object_of
from nearprint.errors import GroupsNotReady, NearprintError

if TYPE_CHECKING:
    import numpy

FORMS: Mapping[str, Form] = {
    "fingerprint": object_of(m.FingerprintReply),
    "query": object_of(m.QueryReply),
    "insert": object_of(m.InsertReply),
    "check-and-insert": object_of(m.CheckReply),
    "delete": object_of(m.DeleteReply),
}
"""The reply to a document, by the route that takes it alone or in a batch."""

JOB = object_of(m.Job)


def _only(replies: list[Any]) -> Any:
    """The reply of a call that has one, or its error."""
    reply = replies[0]
    if isinstance(reply, NearprintError):
        raise reply
    return reply


READ_OPTIONS = frozenset(m.ReadOptions.__annotations__)
"""Options of a request, not of its documents."""


def _divided(options: Mapping[str, Any]) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """The options of a request, and those of its documents."""
    if READ_OPTIONS.isdisjoint(options):
        return {}, options
    request = {name: options[name] for name in READ_OPTIONS & options.keys()}
    return request, {name: options[name] for name in options.keys() - READ_OPTIONS}


def document(route: str, text: str | None, options: Mapping[str, Any]) -> Call[Any]:
    """One document for a route of the service."""
    parameters, options = _divided(options) if route == "query" else ({}, options)
    fields = options if text is None else {"text": text, **options}
    line = line_of(route, fields)
    alone = Request("POST", path(f"/v1/{route}", parameters), line.data, JSON)
    batch = path(f"/v1/{route}/batch", parameters)
    return Call(_only, alone=alone, batch=batch, lines=(line,), form=FORMS[route])


def documents(
    route: str, given: Iterable[Any], defaults: Mapping[str, Any], alone: str = "text"
) -> Iterator[Call[list[Any]]]:
    """Any number of documents, in chunks."""
    if isinstance(given, (str, bytes, Mapping)):
        raise TypeError(f"give an iterable of documents, not one {type(given).__name__}")
    chunks, batch = _chunks(route, defaults, alone)
    return _calls(given, chunks, batch, FORMS[route])


def _chunks(route: str, defaults: Mapping[str, Any], alone: str) -> tuple[Chunks, str]:
    """What cuts documents into chunks, and where the chunks are sent."""
    parameters, defaults = _divided(defaults) if route == "query" else ({}, defaults)
    return Chunks(route, defaults, alone), path(f"/v1/{route}/batch", parameters)


def _calls(
    given: Iterable[Any], chunks: Chunks, batch: str, form: Form
) -> Iterator[Call[list[Any]]]:
    for document in given:
        if chunk := chunks.add(document):
            yield Call(list, batch=batch, lines=chunk, form=form)
    if chunk := chunks.rest():
        yield Call(list, batch=batch, lines=chunk, form=form)


async def documents_async(
    route: str,
    given: Iterable[Any] | AsyncIterable[Any],
    defaults: Mapping[str, Any],
    alone: str = "text",
) -> AsyncIterator[Call[list[Any]]]:
    """The same, of an iterable of either kind."""
    if not isinstance(given, AsyncIterable):
        for call in documents(route, given, defaults, alone):
            yield call
        return
    chunks, batch = _chunks(route, defaults, alone)
    async for document in given:
        if chunk := chunks.add(document):
            yield Call(list, batch=batch, lines=chunk, form=FORMS[route])
    if chunk := chunks.rest():
        yield Call(list, batch=batch, lines=chunk, form=FORMS[route])


def delete(id: str | int, namespace: str | None) -> Call[Any]:
    name = _name(id, namespace)
    alone = Request("DELETE", _document_path(name))
    lines = (Line(encode(name)),)
    batch = "/v1/delete/batch"
    return Call(_only, alone=alone, batch=batch, lines=lines, form=FORMS["delete"])


def get(id: str | int, namespace: str | None, options: Mapping[str, Any]) -> Call[Any]:
    return _read(_document_path(_name(id, namespace), options), m.StoredDocument)


def _name(id: str | int, namespace: str | None) -> dict[str, str]:
    if isinstance(id, bool) or not isinstance(id, (str, int)):
        raise TypeError(f"id must be a str or an int, not {type(id).__name__}")
    if id == "":
        raise ValueError("id must not be empty")
    name = {"id": str(id)}
    if namespace is not None:
        name["namespace"] = namespace
    return name


def _document_path(name: Mapping[str, str], options: Mapping[str, Any] | None = None) -> str:
    target = f"/v1/documents/{_segment(name['id'], 'id')}"
    return path(target, {"namespace": name.get("namespace"), **(options or {})})


def _read(path_: str, reply: Any, parameters: Mapping[str, Any] | None = None) -> Call[Any]:
    alone = Request("GET", path(path_, parameters or {}))
    return Call(_only, alone=alone, form=object_of(reply))


def _remove(path_: str, form: Form, parameters: Mapping[str, Any] | None = None) -> Call[Any]:
    return Call(_only, alone=Request("DELETE", path(path_, parameters or {})), form=form)


def _send(path_: str, fields: Mapping[str, Any], reply: Any) -> Call[Any]:
    return Call(_only, alone=Request("POST", path_, encode(fields), JSON), form=object_of(reply))


def ready() -> Call[Any]:
    return _read("/readyz", m.Health)


def stats(namespace: str | None, options: Mapping[str, Any]) -> Call[Any]:
    return _read("/v1/stats", m.Count, {"namespace": namespace, **options})


def take_snapshot() -> Call[Any]:
    form = object_of(m.Snapshot)
    return Call(_only, alone=Request("POST", "/v1/snapshots", b""), form=form)


def snapshots() -> Call[Any]:
    return _read("/v1/snapshots", m.Snapshots)


def compare(
    a: str | m.ComparedDocument,
    b: str | m.ComparedDocument,
    options: Mapping[str, Any],
) -> Call[Any]:
    sides = {
        name: {"text": side} if isinstance(side, str) else side
        for name, side in (("a", a), ("b", b))
    }
    for name, side in sides.items():
        if not isinstance(side, Mapping):
            raise TypeError(f"{name} must be a str or a mapping, not {type(side).__name__}")
    contents = {name: decoded(side) for name, side in sides.items()}
    return _send("/v1/compare", {**contents, **options}, m.CompareReply)


def delete_fingerprint(fingerprint: m.Fingerprint, namespace: str | None) -> Call[Any]:
    target = f"/v1/fingerprints/{_fingerprint_segment(fingerprint)}"
    return _remove(target, FORMS["delete"], {"namespace": namespace})


# Jobs.


def purge(conditions: Mapping[str, Any]) -> Call[Any]:
    return _send("/v1/purge", conditions, m.Job)


def find_groups(options: Mapping[str, Any]) -> Call[Any]:
    return _send("/v1/groups", options, m.Job)


def job(job: str, options: Mapping[str, Any]) -> Call[Any]:
    return _read(_job_path("jobs", job), m.Job, options)


def cancel_job(job: str) -> Call[Any]:
    return _remove(_job_path("jobs", job), JOB)


def _job_path(kind: str, job: str) -> str:
    return f"/v1/{kind}/{_segment(job, 'job')}"


# Lists.


class List(NamedTuple):
    """A list that the service shows by pages."""

    path: str
    form: Page
    options: Mapping[str, Any]


class _Found(Page):
    """The groups that a job found; the reply lacks them until it is done."""

    def read(self, body: bytes) -> Any:
        page = JOB.read(body)
        if self.field not in page:
            detail = (
                f"job {page['job']} is {page['state']}; wait_for_job() waits until it has ended"
            )
            raise GroupsNotReady(detail)
        return super().read(body)


def documents_stored(options: Mapping[str, Any]) -> List:
    return List("/v1/documents", Page("documents", m.StoredDocument), options)


def documents_of(fingerprint: m.Fingerprint, options: Mapping[str, Any]) -> List:
    target = f"/v1/fingerprints/{_fingerprint_segment(fingerprint)}"
    return List(target, Page("documents", m.StoredDocument), options)


def namespaces(options: Mapping[str, Any]) -> List:
    return List("/v1/namespaces", Page("namespaces", m.Namespace), options)


def originals(options: Mapping[str, Any]) -> List:
    return List("/v1/originals", Page("originals", m.StoredDocument), options)


def groups(job: str) -> List:
    return List(_job_path("groups", job), _Found("found", m.Group), {})


def group(job: str, group: int, include: m.Include | None) -> List:
    target = f"{_job_path('groups', job)}/{int(group)}"
    return List(target, Page("documents", m.Member), {"include": include})


def jobs(options: Mapping[str, Any]) -> List:
    return List("/v1/jobs", Page("jobs", m.Job), options)


def page(list_: List, after: str | None) -> Call[Any]:
    """The page of a list that begins after another."""
    target = path(list_.path, {**list_.options, "limit": 1000, "after": after})
    return Call(_only, alone=Request("GET", target), form=list_.form)


def pauses(job: str, deadline: float) -> Iterator[float]:
    """The seconds between looks at a job, until the deadline."""
    pause = 0.05
    while (left := deadline - time.monotonic()) > 0:
        yield min(pause, left)
        pause = min(pause * 1.5, 2.0)
    raise TimeoutError(f"job {job} has not ended yet")


def documents_in(result: Any) -> int:
    """How many documents the reply to a chunk answers."""
    return int(result["received"]) if isinstance(result, dict) else len(result)


def _segment(value: str | int, name: str) -> str:
    """A value as one segment of a path."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise TypeError(f"{name} must be a str or an int, not {type(value).__name__}")
    if value == "":
        raise ValueError(f"{name} must not be empty")
    if value in (".", ".."):
        # Otherwise the segment would be part of the way to the resource.
        return value.replace(".", "%2E")
    return quote(_utf8(str(value), name), safe="")


def _fingerprint_segment(fingerprint: m.Fingerprint) -> str:
    if isinstance(fingerprint, str):
        return _segment(fingerprint, "fingerprint")
    return f"{int(fingerprint) & (1 << 64) - 1:016x}"


def path(path_: str, parameters: Mapping[str, Any]) -> str:
    """A path with query parameters."""
    given = {
        name: _parameter(name, value) for name, value in parameters.items() if value is not None
    }
    return f"{path_}?{urlencode(given)}" if given else path_


def _parameter(name: str, value: Any) -> bytes:
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value)).encode()
    return _utf8(str(value), name)


def _utf8(text: str, name: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} has half of a surrogate pair, which has no UTF-8") from None


# Packed fingerprints.


def packed(route: str, fingerprints: Any, parameters: Mapping[str, Any]) -> Iterator[Call[Any]]:
    """An array of 64-bit fingerprints, in chunks. Those that are stored get no ids."""
    target = path(f"/v1/{route}/batch", parameters)
    for chunk in _pieces(_array(fingerprints)):
        inserts = route == "insert"
        yield Call(
            _only,
            alone=Request("POST", target, chunk, PACKED, None if inserts else PACKED),
            form=object_of(m.PackedInsertReply) if inserts else Distances(len(chunk) // 8),
            repeatable=route == "query",
        )


def _array(fingerprints: Any) -> numpy.typing.NDArray[numpy.uint64]:
    import numpy

    array = numpy.asarray(fingerprints)
    if array.dtype not in (numpy.uint64, numpy.int64) and array.size:
        raise TypeError(f"fingerprints must be an array of uint64 or int64, not of {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"fingerprints must have one dimension, not {array.ndim}")
    return cast("numpy.typing.NDArray[numpy.uint64]", numpy.ascontiguousarray(array.astype("<u8")))


def _pieces(array: numpy.typing.NDArray[numpy.uint64]) -> Iterator[bytes]:
    step = CHUNK_BYTES_MAX // 8
    for start in range(0, len(array), step):
        yield array[start : start + step].tobytes()


def joined(pieces: list[Any]) -> numpy.typing.NDArray[numpy.uint8]:
    """The distances of all chunks."""
    import numpy

    return numpy.concatenate(pieces) if pieces else numpy.empty(0, dtype=numpy.uint8)
