"""Turns one field of many dicts into a typed column, and names the first value that misfits."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.errors import NotASnapshotError
from snapreport.ground.safe_text import shortened
from snapreport.model.snapshot import MOST_ADDRESS, MOST_BYTES, MOST_TOTAL
from snapreport.read.parsed import Allowance

_INT_TYPES = {int, bool}
_LOW, _HIGH = -(2**63), 2**63 - 1


def integers(
    rows: Sequence[dict[str, Any]], key: str, where: str, default: int | None = None
) -> NDArray[np.int64]:
    """Return an integer field of each row, shape (len(rows),).

    Args:
        rows: dicts of the file.
        key: the field.
        where: what the rows are, for messages: ``device 0: event``.
        default: for rows without the field; None if every row must have it.

    Raises:
        NotASnapshotError: a value is missing, not an integer, or does not fit in 64 bits.
    """
    try:
        values = take(rows, key, default)
        if set(map(type, values)) <= _INT_TYPES:
            return np.array(values, np.int64)
    except (TypeError, AttributeError, IndexError, OverflowError):
        pass
    raise _first_misfit(rows, key, where, default)


def take(rows: Sequence[dict[str, Any]], key: str, default: Any = None) -> list[Any]:
    """Return a field of each row as it is, or the default where a row has none."""
    try:
        return list(map(itemgetter(key), rows))
    except KeyError:
        return [row.get(key, default) for row in rows]


def _first_misfit(
    rows: Sequence[Any], key: str, where: str, default: int | None
) -> NotASnapshotError:
    """Find the value that ``integers`` could not take."""
    for index, row in enumerate(rows):
        if not isinstance(row, dict):
            return NotASnapshotError(
                f"is not a memory snapshot: {where} {index} is of type"
                f" {type(row).__name__}, not a dict."
            )
        value = row.get(key, default)
        if value is None:
            return NotASnapshotError(f"is damaged: {where} {index} has no {key!r}.")
        if type(value) not in _INT_TYPES:
            return NotASnapshotError(
                f"is damaged: {where} {index} has {key!r} of type {type(value).__name__}, not int."
            )
        if not _LOW <= value <= _HIGH:
            return NotASnapshotError(
                f"is damaged: {where} {index} has a {key!r} that does not fit in 64 bits."
            )
    raise AssertionError("every value fits")


def check_bytes(
    address: NDArray[np.int64], size: NDArray[np.int64], where: str, rows: NDArray[Any] | slice
) -> None:
    """Check that ranges of memory are possible.

    Args:
        address, size: int64, shape (n,).
        where: what the rows are, for messages.
        rows: which of them to check, as an index.

    Raises:
        NotASnapshotError: a size or an address is negative or larger than any memory has, or so is
            the sum of all sizes.
    """
    for key, column, most in (("size", size, MOST_BYTES), ("address", address, MOST_ADDRESS)):
        chosen = column[rows]
        if chosen.min(initial=0) < 0 or chosen.max(initial=0) > most:
            wrong = (chosen < 0) | (chosen > most)
            index = int(np.arange(len(column))[rows][wrong][0])
            raise NotASnapshotError(
                f"is damaged: {where} {index} has the {key} {int(column[index]):,}."
            )
    if size[rows].sum(dtype=np.float64) > MOST_TOTAL:
        raise NotASnapshotError(
            f"is damaged: {where}s have sizes that add up to an impossible number of bytes."
        )


def count_unknown_keys(
    rows: Sequence[dict[str, Any]],
    known: frozenset[str],
    what: str,
    oddities: Counter[str],
    fields: Allowance,
) -> set[Any]:
    """Count keys outside ``known`` into ``oddities``, under ``what`` and the key's name.

    Args:
        rows: dicts.
        known: names of known keys.
        what: what the rows are, for messages.
        oddities: changed in place.
        fields: how many fields the rows may have together.

    Returns:
        every key that some row has.

    Raises:
        NotASnapshotError: there are more fields, or a key is not text.
    """
    fields.take(sum(map(len, rows)), f"fields of {what}s")
    shapes = _shapes(rows)
    for shape, count in shapes.items():
        for key in shape:
            if key not in known:
                count_unknown_key(key, count, what, oddities)
    return {key for shape in shapes for key in shape}


def count_unknown_key(key: Any, count: int, what: str, oddities: Counter[str]) -> None:
    """Count an unknown key into ``oddities``, under ``what`` and its name."""
    check_key(key, what)
    oddities[f"{what} key {shortened(key)!r}"] += count


def check_key(key: Any, what: str) -> None:
    """Check that a key is text, as in JSON: no snapshot has other keys.

    Raises:
        NotASnapshotError: it is something else.
    """
    if not isinstance(key, str):
        raise NotASnapshotError(
            f"is damaged: a {what} has a key of type {type(key).__name__}, not text."
        )


def _shapes(rows: Sequence[dict[str, Any]]) -> dict[tuple[Any, ...], int]:
    """Count the rows by their keys; a shape may stand for rows that have them in another order."""
    first = tuple(rows[0]) if rows else ()
    # Nearly always all rows are alike, and checking that is faster than counting.
    if first and set(map(len, rows)) == {len(first)}:
        try:
            deque(map(itemgetter(*first), rows), maxlen=0)
            return {first: len(rows)}
        except KeyError:
            pass
    return Counter(map(tuple, rows))
