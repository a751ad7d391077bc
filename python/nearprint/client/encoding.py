"""Documents as lines of JSON, and long inputs as chunks of lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, time
from typing import Any
from uuid import UUID

from nearprint._native import _decode
from nearprint.errors import InvalidValue, NearprintError

CHUNK_LINES_MAX = 1_000
"""At most this many documents in one request."""

CHUNK_BYTES_MAX = 1 << 20
"""At most this many bytes in one request, unless a single document has more."""

_TEXT_HASH = {"from": "text-hash"}
_OF_FINGERPRINT = {"from": "fingerprint"}


def _plain(value: object) -> object:
    """Arrays and numbers of numpy and the like, as JSON has them; dates and UUIDs as texts."""
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    text = "NaT"
    if isinstance(value, (date, time)):
        text = value.isoformat()
    elif isinstance(value, UUID) or (kind == "M" and getattr(value, "ndim", 1) == 0):
        text = str(value)
    elif kind not in ("M", "m") and (tolist := getattr(value, "tolist", None)) is not None:
        return tolist()
    # So pandas and numpy write a time that is missing.
    if text == "NaT":
        raise TypeError(f"{type(value).__name__} has no form in JSON")
    return text


_encode = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain
).encode


def encode(fields: Mapping[str, Any]) -> bytes:
    """Write an object as JSON; errors name the field that has no form there.

    >>> encode({"text": "caf\\u00e9", "distance": 2})
    b'{"text":"caf\\xc3\\xa9","distance":2}'
    """
    for name, takes in (("text", "a str"), ("html", "a str or bytes")):
        value = fields.get(name)
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{name} must be {takes}, not {type(value).__name__}")
    try:
        return _encode(fields).encode()
    except (TypeError, ValueError):
        for name, value in fields.items():
            _check(name, value)
        raise


def _check(name: str, value: object) -> None:
    """Raise the error of a field alone, with its name."""
    try:
        _encode(value).encode()
    except UnicodeEncodeError as error:
        surrogate = error.object[error.start]
        raise ValueError(
            f"{name} has half of a surrogate pair (U+{ord(surrogate):04X}), which has no UTF-8; "
            "replace it, as with text.encode('utf-8', 'replace').decode()"
        ) from None
    except TypeError as error:
        raise TypeError(f"{name} cannot be sent: {error}") from None
    except ValueError as error:
        raise ValueError(f"{name} cannot be sent: {error}") from None


def decoded(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """A document whose page, if it is bytes, is decoded as the service does with a page in a body.

    >>> decoded({"html": b"<p>caf\\xe9", "charset": "latin1"})
    {'html': '<p>caf\xe9'}
    """
    html, charset = fields.get("html"), fields.get("charset")
    if charset is not None and not isinstance(charset, str):
        raise TypeError(f"charset must be a str, not {type(charset).__name__}")
    if "charset" in fields:
        fields = {name: value for name, value in fields.items() if name != "charset"}
    if isinstance(html, (bytes, bytearray)):
        return {**fields, "html": _decode(html, charset, html=True)}
    if charset is not None:
        raise ValueError("charset: only html as bytes has one; leave it out")
    return fields


def with_id(fields: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """A document to store with an id, so that a retry is one write; whether it had none."""
    if fields.get("id") is not None:
        return fields, False
    hashed = fields.get("text") is not None or fields.get("html") is not None
    return {**fields, "id": _TEXT_HASH if hashed else _OF_FINGERPRINT}, True


class Line:
    """A document in a batch."""

    __slots__ = ("data", "unnamed")

    def __init__(self, data: bytes, unnamed: bool = False) -> None:
        self.data = data
        # Its id was added here: that it is present already means that a copy is.
        self.unnamed = unnamed


def line_of(route: str, fields: Mapping[str, Any]) -> Line:
    """The line of a document for a route of the service."""
    fields = decoded(fields)
    if route == "check-and-insert":
        fields, unnamed = with_id(fields)
        return Line(encode(fields), unnamed)
    if route == "insert":
        fields, _ = with_id(fields)
    return Line(encode(fields))


class Chunks:
    """Cuts documents for a route into what one request may carry.

    A document is a mapping, or only the value of the field ``alone``. Of one that cannot be sent,
    the chunk has the error in the place of the line.
    """

    def __init__(self, route: str, defaults: Mapping[str, Any], alone: str = "text") -> None:
        self._route = route
        self._defaults = defaults
        self._alone = alone
        self._chunk: list[Line | NearprintError] = []
        self._size = 0

    def add(self, document: Any) -> list[Line | NearprintError]:
        """Add a document; the chunk that is full without it, or an empty one."""
        line = self._line(document)
        length = len(line.data) + 1 if isinstance(line, Line) else 0
        full: list[Line | NearprintError] = []
        if self._chunk and (
            len(self._chunk) == CHUNK_LINES_MAX or self._size + length > CHUNK_BYTES_MAX
        ):
            full = self.rest()
        self._chunk.append(line)
        self._size += length
        return full

    def rest(self) -> list[Line | NearprintError]:
        """What has not been given back yet."""
        chunk, self._chunk, self._size = self._chunk, [], 0
        return chunk

    def _line(self, document: Any) -> Line | NearprintError:
        fields = document if isinstance(document, Mapping) else {self._alone: document}
        try:
            return line_of(self._route, {**self._defaults, **fields} if self._defaults else fields)
        except (TypeError, ValueError) as error:
            return InvalidValue(str(error))
