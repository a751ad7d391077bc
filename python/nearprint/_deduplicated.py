"""What :func:`nearprint.dedup` returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Deduplicated(NamedTuple):
    """What becomes of each document of a column, in three arrays of numpy with a row for each."""

    keep: npt.NDArray[np.bool_]
    """Whether it stays: it is the first of its group, or in none."""

    group: npt.NDArray[np.int64]
    """The number of its group; the largest group has 0. -1 without near-duplicates."""

    original: npt.NDArray[np.int64]
    """The row of the first document of its group; its own row without near-duplicates."""
