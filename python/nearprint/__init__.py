"""Near-duplicates of texts: fingerprints, an index in memory, and clients of the service.

>>> import nearprint
>>> a = "The lamp on the second floor flickers when the lift starts, and nobody has found the wire."
>>> b = "The lamp on the second floor flickers when the lift starts, and nobody has found the cable."
>>> index = nearprint.Index()
>>> index.insert("a", a)
'inserted'
>>> index.query(b)[0].id
'a'

Functions take documents and give numbers: :func:`fingerprint`, :func:`fingerprint_many`,
:func:`sketch`, :func:`similarity`, :func:`distance`, :func:`explain`; :func:`dedup` finds the
groups of near-duplicates in a column. An :class:`Index` finds
near-duplicates in memory, a :class:`Client` or :class:`AsyncClient` in a running service.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nearprint import errors
from nearprint._deduplicated import Deduplicated
from nearprint._native import (
    Checked,
    FingerprintArray,
    Hit,
    Index,
    Sketch,
    SpectralModel,
    dedup,
    distance,
    explain,
    fingerprint,
    fingerprint_many,
    similarity,
    sketch,
)
from nearprint.errors import EmptyDocument, NearprintError

if TYPE_CHECKING:
    from nearprint.client import AsyncClient, Client

# Imported when they are first used, so that fingerprints alone load no HTTP.
_LATER = {"Client": "nearprint.client", "AsyncClient": "nearprint.client"}

__all__ = [
    "AsyncClient",
    "Checked",
    "Client",
    "Deduplicated",
    "EmptyDocument",
    "FingerprintArray",
    "Hit",
    "Index",
    "NearprintError",
    "Sketch",
    "SpectralModel",
    "dedup",
    "distance",
    "errors",
    "explain",
    "fingerprint",
    "fingerprint_many",
    "similarity",
    "sketch",
]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        from importlib import import_module

        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
