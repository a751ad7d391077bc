"""What the replies of a service look like, by operation.

The server at an address may not be nearprint: a proxy with its page, another service. A reply
without the form of its operation is :class:`Foreign`, whatever is wrong with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, Protocol, Union, get_args, get_origin, get_type_hints

from nearprint.client import messages as m

JSON = "application/json"
LINES = "application/x-ndjson"
PACKED = "application/octet-stream"

NO_HIT = 255
"""The distance of a fingerprint without a hit, in a packed reply."""

DISTANCE_MAX = 12
"""The largest distance that a service can be configured to search."""


class Foreign(ValueError):
    """A reply that no nearprint service gives."""


class Form(Protocol):
    """What the body of a reply looks like."""

    media_type: str

    def read(self, body: bytes) -> Any:
        """The value of a body; :class:`Foreign` if it has another form."""


def check_media_type(content_type: str | None, expected: str) -> None:
    """Refuse a reply of another media type."""
    given = (content_type or "").partition(";")[0].strip().lower()
    if given != expected:
        raise Foreign(f"its reply is {given or 'without a Content-Type'}, not {expected}")


def check_coding(coding: str | None) -> None:
    """Refuse a reply in a coding: no request offers to read one."""
    if coding is not None and coding.strip().lower() != "identity":
        raise Foreign(f"its reply is in {coding}")


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


_decode = json.JSONDecoder(parse_constant=_no_number).decode


def parse(body: bytes) -> Any:
    """The value of a JSON text in UTF-8, however deep it is."""
    try:
        return _decode(body.decode("utf-8-sig"))
    except RecursionError:
        raise Foreign("its reply is JSON of too many levels") from None
    except ValueError as error:
        raise Foreign(f"its reply is not JSON: {error}") from None


class Object:
    """A JSON object with the fields of a reply that are never missing."""

    media_type = JSON

    def __init__(self, reply: Any) -> None:
        hints = get_type_hints(reply)
        self._fields = [(name, _types(hints[name])) for name in sorted(reply.__required_keys__)]

    def read(self, body: bytes) -> Any:
        return self.check(parse(body))

    def check(self, value: Any) -> dict[str, Any]:
        """The value, if it has this form."""
        if type(value) is not dict:
            raise Foreign(f"its reply is {_shown(value)}, not an object")
        for name, types in self._fields:
            if type(value.get(name, self)) not in types:
                wrong = f"has {_shown(value[name])} as" if name in value else "lacks"
                raise Foreign(f"its reply {wrong} {name!r}")
        return value


class Page:
    """A page of a list, whose items are objects."""

    media_type = JSON

    def __init__(self, field: str, item: Any) -> None:
        self.field = field
        self._page = object_of(m.Page)
        self._item = object_of(item)

    def read(self, body: bytes) -> Any:
        page = self._page.check(parse(body))
        items = page.get(self.field)
        if type(items) is not list:
            raise Foreign(f"its reply lacks the list {self.field!r}")
        for item in items:
            self._item.check(item)
        return page


class Distances:
    """A byte for each of so many fingerprints: the distance of its nearest hit, or 255."""

    media_type = PACKED

    def __init__(self, count: int) -> None:
        self._count = count

    def read(self, body: bytes) -> Any:
        import numpy

        distances = numpy.frombuffer(body, dtype=numpy.uint8)
        if len(distances) != self._count:
            raise Foreign(f"its reply has {len(distances)} distances for {self._count}")
        if ((distances > DISTANCE_MAX) & (distances != NO_HIT)).any():
            raise Foreign(f"its reply has a distance above {DISTANCE_MAX}")
        return distances


@cache
def object_of(reply: Any) -> Object:
    """The form of a reply that is described by this class of dictionaries."""
    return Object(reply)


def problem_of(body: bytes) -> Mapping[str, Any] | None:
    """The problem document (RFC 9457) that a refusal consists of; None if it is something else."""
    try:
        problem: Mapping[str, Any] = object_of(m.Problem).read(body)
    except Foreign:
        return None
    return problem


def _types(hint: Any) -> frozenset[type]:
    """The types at run time of a field, as :mod:`nearprint.client.messages` describes it."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return frozenset().union(*map(_types, get_args(hint)))
    if origin is Literal:
        return frozenset(map(type, get_args(hint)))
    if hint is float:
        return frozenset((float, int))
    if hint is None or hint is NoneType:
        return frozenset((NoneType,))
    kind = origin or hint
    return frozenset((dict if issubclass(kind, dict) else kind,))


def _shown(value: Any) -> str:
    """A value of JSON in a few words."""
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
