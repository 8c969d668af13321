"""Find what many allocations have in common, so that a bundle says it once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST = 1 << 62
"""Codes that fit into 64 bits."""


def find_kinds(
    columns: Sequence[NDArray[Any]],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find rows that are alike in all columns.

    Args:
        columns: of integers, at least one, each of shape (n,).

    Returns:
        int64, shape (n_kinds,), ascending: the first row of each kind; and int64, shape (n,): the
        kind of each row.
    """
    codes, count = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        if not len(column):
            continue
        least = int(column.min())
        width = int(column.max()) - least + 1
        if width == 1:
            continue
        digits, width = _narrowed(column.astype(np.int64), least, width, _MOST)
        if count * width > _MOST:
            codes, count = _narrowed(codes, 0, count, 0)
        if count * width > _MOST:
            digits, width = _narrowed(digits, 0, width, 0)
        codes, count = codes * width + digits, count * width
    _, first, kind = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return first[order], place[kind.reshape(-1)]


def _narrowed(
    values: NDArray[np.int64], least: int, width: int, most: int
) -> tuple[NDArray[np.int64], int]:
    """Return values as numbers from 0 and below a width; that of distinct ones if over ``most``."""
    if width <= most:
        return values - least, width
    distinct, found = np.unique(values, return_inverse=True)
    return found.reshape(-1), len(distinct)
