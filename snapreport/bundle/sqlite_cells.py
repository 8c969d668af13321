"""Turns columns into SQLite cells and back; a sentinel in an array is NULL in a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Cells = list[int | None]


def to_cells(column: NDArray[Any], none: int) -> Cells:
    """Return a column as Python integers, with NULL for the value ``none``."""
    unknown = column == none
    if unknown.all():
        return [None] * len(column)
    values: Cells = column.tolist()
    for index in np.flatnonzero(unknown).tolist():
        values[index] = None
    return values


def from_cells(cells: Sequence[Any], none: int | None) -> NDArray[np.int64]:
    """Return cells as an array, with a sentinel for NULL; None where there may be no NULL.

    Raises:
        TypeError, ValueError, OverflowError: a cell is not an integer of 64 bits.
    """
    kinds = set(map(type, cells))
    if none is not None and type(None) in kinds:
        cells = [none if cell is None else cell for cell in cells]
        kinds.discard(type(None))
    if kinds - {int}:
        raise TypeError("a cell is not an integer")
    return np.array(cells, np.int64)
