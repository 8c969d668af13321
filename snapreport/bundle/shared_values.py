"""Finds allocations that are alike, so that a bundle stores what they share once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_FACTOR = 0x9E37_79B9_7F4A_7C15
"""2^64 over the golden ratio: multiplying by it moves neighbours far apart (Knuth, 6.4)."""


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
    n = len(columns[0])
    columns = [column for column in columns if n and (column != column[0]).any()]
    first = _first_in_bucket(columns, n)
    unlike = np.zeros(n, np.bool_)
    for column in columns:
        unlike |= column[first] != column
    rest = np.flatnonzero(unlike)
    if len(rest):  # whole kinds, as equal rows share a bucket
        first[rest] = rest[_first_alike([column[rest] for column in columns])]
    begins = first == np.arange(n)
    number = np.cumsum(begins, dtype=np.int64)
    number -= 1
    return np.flatnonzero(begins), number[first]


def _first_in_bucket(columns: Sequence[NDArray[Any]], n: int) -> NDArray[np.int64]:
    """Return for each row the first one with the same hash, which is nearly always alike.

    Rows for which it is not are sorted later; with few kinds there are hardly any. Sorting all rows
    takes two to three times as long as this.
    """
    mixed = np.zeros(n, np.uint64)
    for column in columns:
        mixed += column.astype(np.int64).view(np.uint64)
        mixed *= np.uint64(_FACTOR)
        mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(_FACTOR)
    bits = max(n.bit_length(), 1)
    mixed >>= np.uint64(64 - bits)
    bucket = mixed.view(np.int64)
    table = np.empty(1 << bits, np.int64)
    table[bucket[::-1]] = np.arange(n)[::-1]  # of several rows the first one stays
    return table[bucket]


def _first_alike(columns: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    """Return for each row the first one that is alike in all columns, by sorting."""
    order = np.lexsort(columns)
    begins = np.zeros(len(order), np.bool_)
    begins[0] = True
    for column in columns:
        begins[1:] |= column[order[1:]] != column[order[:-1]]
    first = np.empty_like(order)
    first[order] = order[begins][np.cumsum(begins) - 1]  # equal rows keep their order
    return first
