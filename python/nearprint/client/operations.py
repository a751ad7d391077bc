"""Each operation of the service as a :class:`Call`, for both clients."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlencode

from nearprint.client import messages
from nearprint.client.encoding import CHUNK_BYTES_MAX, Chunks, Line, encode, line_of
from nearprint.client.batching import Call, Request
from nearprint.errors import NearprintError

if TYPE_CHECKING:
    import numpy

JSON = "application/json"
PACKED = "application/octet-stream"


def _only(replies: list[Any]) -> Any:
    """The reply of a call that has one, or its error."""
    reply = replies[0]
    if isinstance(reply, NearprintError):
        raise reply
    return reply


def document(route: str, text: str | None, options: Mapping[str, Any]) -> Call[Any]:
    """One document for a route of the service."""
    fields = options if text is None else {"text": text, **options}
    line = line_of(route, fields)
    alone = Request("POST", f"/v1/{route}", line.data, JSON)
    return Call(_only, alone=alone, route=route, lines=(line,))


def documents(
    route: str, given: Iterable[Any], defaults: Mapping[str, Any], alone: str = "text"
) -> Iterator[Call[list[Any]]]:
    """Any number of documents, in chunks."""
    if isinstance(given, (str, bytes, Mapping)):
        raise TypeError(f"give an iterable of documents, not one {type(given).__name__}")
    return _chunks(route, given, Chunks(route, defaults, alone))


def _chunks(route: str, given: Iterable[Any], chunks: Chunks) -> Iterator[Call[list[Any]]]:
    for document in given:
        if chunk := chunks.add(document):
            yield Call(list, route=route, lines=chunk)
    if chunk := chunks.rest():
        yield Call(list, route=route, lines=chunk)


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
    chunks = Chunks(route, defaults, alone)
    async for document in given:
        if chunk := chunks.add(document):
            yield Call(list, route=route, lines=chunk)
    if chunk := chunks.rest():
        yield Call(list, route=route, lines=chunk)


def delete(id: str | int, namespace: str | None) -> Call[Any]:
    name = _name(id, namespace)
    alone = Request("DELETE", path("/v1/documents", name))
    return Call(_only, alone=alone, route="delete", lines=(Line(encode(name)),))


def get(id: str | int, namespace: str | None) -> Call[Any]:
    return read("/v1/documents", _name(id, namespace))


def _name(id: str | int, namespace: str | None) -> dict[str, str]:
    if isinstance(id, bool) or not isinstance(id, (str, int)):
        raise TypeError(f"id must be a str or an int, not {type(id).__name__}")
    if id == "":
        raise ValueError("id must not be empty")
    name = {"id": str(id)}
    if namespace is not None:
        name["namespace"] = namespace
    return name


def read(path_: str, parameters: Mapping[str, Any] | None = None) -> Call[Any]:
    return Call(_only, alone=Request("GET", path(path_, parameters or {})))


def remove(path_: str, parameters: Mapping[str, Any] | None = None) -> Call[Any]:
    return Call(_only, alone=Request("DELETE", path(path_, parameters or {})))


def send(path_: str, fields: Mapping[str, Any]) -> Call[Any]:
    return Call(_only, alone=Request("POST", path_, encode(fields), JSON))


def take_snapshot() -> Call[Any]:
    return Call(_only, alone=Request("POST", "/v1/snapshots", b""))


def compare(
    a: str | messages.FingerprintDocument,
    b: str | messages.FingerprintDocument,
    options: Mapping[str, Any],
) -> Call[Any]:
    sides = {
        name: {"text": side} if isinstance(side, str) else side
        for name, side in (("a", a), ("b", b))
    }
    for name, side in sides.items():
        if not isinstance(side, Mapping):
            raise TypeError(f"{name} must be a str or a mapping, not {type(side).__name__}")
    return send("/v1/compare", {**sides, **options})


def delete_fingerprint(fingerprint: messages.Fingerprint, namespace: str | None) -> Call[Any]:
    return remove(f"/v1/fingerprints/{fingerprint_segment(fingerprint)}", {"namespace": namespace})


def delete_namespace(namespace: str) -> Call[Any]:
    return remove(f"/v1/namespaces/{segment(namespace, 'namespace')}")


def job_path(kind: str, job: str) -> str:
    """The path of a job, or of its groups."""
    return f"/v1/{kind}/{segment(job, 'job')}"


def pauses(job: str, deadline: float | None) -> Iterator[float]:
    """The seconds between looks at a job, until the deadline."""
    pause = 0.05
    while deadline is None or time.monotonic() < deadline:
        yield pause
        pause = min(pause * 1.5, 2.0)
    raise TimeoutError(f"job {job} has not ended yet")


def documents_in(result: Any) -> int:
    """How many documents the reply to a chunk answers."""
    return int(result["received"]) if isinstance(result, dict) else len(result)


def segment(value: str | int, name: str) -> str:
    """A value as one segment of a path."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise TypeError(f"{name} must be a str or an int, not {type(value).__name__}")
    if value == "":
        raise ValueError(f"{name} must not be empty")
    return quote(_utf8(str(value), name), safe="")


def fingerprint_segment(fingerprint: messages.Fingerprint) -> str:
    if isinstance(fingerprint, str):
        return segment(fingerprint, "fingerprint")
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
        yield Call(
            _only,
            alone=Request("POST", target, chunk, PACKED, PACKED if route != "insert" else None),
            read=json.loads if route == "insert" else _distances(len(chunk) // 8),
            repeatable=route == "query",
        )


def _distances(count: int) -> Any:
    import numpy

    def read(body: bytes) -> Any:
        if len(body) != count:
            raise ValueError(f"{len(body)} distances for {count} fingerprints")
        return numpy.frombuffer(body, dtype=numpy.uint8)

    return read


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
