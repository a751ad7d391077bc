"""Near-duplicates of texts: fingerprints, an index in memory, and clients of the service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nearprint import errors
from nearprint.errors import EmptyDocument, NearprintError

if TYPE_CHECKING:
    from nearprint.client import AsyncClient, Client

# Imported when they are first used, so that fingerprints alone load no HTTP.
_LATER = {"Client": "nearprint.client", "AsyncClient": "nearprint.client"}

__all__ = [
    "AsyncClient",
    "Client",
    "EmptyDocument",
    "NearprintError",
    "errors",
]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        from importlib import import_module

        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
