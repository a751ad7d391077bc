"""What the hooks for Scrapy, datatrove and Spark share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nearprint.errors import EmptyDocument, NearprintError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

WARN_AFTER_ITEMS = 100
"""The items after which a hook that has not met a text says so."""


def is_kept(reply: Any, id: Any, options: Mapping[str, Any]) -> bool:
    """Whether the hook keeps the document; an error other than :class:`EmptyDocument` is raised.

    A document that is stored under its own id was kept when it was stored. A repeated run keeps it
    again, although its reply says ``already_present`` and ``"duplicate": True``. This does not hold
    for an id that is made of the text, which copies share, nor with ``on_duplicate="insert"``,
    which also stores what is not kept.

    :param reply: The reply to the check, or its error.
    :param id: The id of the document; ``None`` or a mapping if the service makes it.
    :param options: The options of the check.
    """
    if isinstance(reply, EmptyDocument):
        return True
    if isinstance(reply, NearprintError):
        raise reply
    is_stored = reply["outcome"] in ("already_present", "refreshed")
    if is_stored and isinstance(id, (str, int)) and options.get("on_duplicate") != "insert":
        return True
    return not reply["duplicate"]


class TextWatch:
    """Warns once if no item has a text: most likely the hook reads a field of another name.

    It warns after the first hundred items, or at the end of a run that has fewer.

    :param warn: Takes the warning.
    :param remedy: What to do about it.
    """

    def __init__(self, warn: Callable[[str], None], remedy: str) -> None:
        self._warn = warn
        self._remedy = remedy
        self._without_text = 0
        self._is_over = False

    def item(self, has_text: bool) -> None:
        """Count an item."""
        if has_text:
            self._is_over = True
            return
        self._without_text += 1
        if self._without_text == WARN_AFTER_ITEMS:
            self.end()

    def end(self) -> None:
        """Warn if there were items, and none had a text."""
        if self._without_text > 0 and not self._is_over:
            self._warn(
                f"None of {self._without_text} items had a text, so none was checked "
                f"for near-duplicates. {self._remedy}"
            )
        self._is_over = True
