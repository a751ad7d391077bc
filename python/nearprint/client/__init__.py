"""Clients of a nearprint service: :class:`Client` for threads, :class:`AsyncClient` for asyncio.

:class:`AsyncClient` needs aiohttp: ``pip install 'nearprint[async]'``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nearprint.client.blocking import Client

if TYPE_CHECKING:
    from nearprint.client.asynchronous import AsyncClient

__all__ = ["AsyncClient", "Client"]


def __getattr__(name: str) -> Any:
    # Imported when it is first used, because aiohttp may not be there.
    if name == "AsyncClient":
        try:
            from nearprint.client.asynchronous import AsyncClient
        except ModuleNotFoundError as error:
            if error.name != "aiohttp":
                raise
            hint = "AsyncClient needs aiohttp, an extra: pip install 'nearprint[async]' (./python[async] in a clone)"
            raise ModuleNotFoundError(hint, name="aiohttp") from None

        return AsyncClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
