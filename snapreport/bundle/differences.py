"""Turns events and times of allocations into the differences of ``allocation_rows``, and back.

Most allocations are freed soon after they are made, so the differences are small numbers, which
SQLite stores in one or two bytes and which deflate well. The view ``allocations``
of ``schema.sql`` adds them up in the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from snapreport.model.history import START, Allocations
from snapreport.model.snapshot import NO_TIME

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Columns = dict[str, NDArray[np.int64]]

NOT_THERE = np.iinfo(np.int64).min
"""NULL, in columns that may be negative."""


SPAN = 32
"""Rows of ``allocation_rows`` that count from one row of ``allocation_spans``: few enough for small
differences, and enough for the spans to take little space."""


def span_bases(
    column: NDArray[np.int64], first_id: int, base: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the base of each span: the value of its first row, or 0 if that is unknown.

    Args:
        column: int64, shape (n,), events or times; negative where not known.
        first_id: id of the first row.
        base: of the span that the first row is in, if rows of another device began it.

    Returns:
        int64, of each span that begins here; and int64, shape (n,), of each row's span.
    """
    before = min(-first_id % SPAN, len(column))
    begun: NDArray[np.int64] = np.maximum(column[before::SPAN], 0)
    rows = np.concatenate((np.full(before, base), np.repeat(begun, SPAN)))
    return begun, rows[: len(column)]


def event_differences(rows: Allocations, never: int) -> Columns:
    """Return these columns of ``allocation_rows``; int64, shape (n,), NOT_THERE where NULL.

    Args:
        rows: the allocations.
        never: the event that stands for never.
    """
    asked = (rows.free_requested_event != START) & (rows.free_requested_event != never)
    freed = rows.free_event != never
    since, then = np.maximum(rows.alloc_event, 0), np.where(asked, rows.free_requested_event, 0)
    return {
        "requested_after": np.where(asked, rows.free_requested_event - since, NOT_THERE),
        "free_after": np.where(freed, rows.free_event - then, NOT_THERE),
    }


def time_differences(rows: Allocations) -> Columns:
    """Return the same columns of times, as ``event_differences`` does of events."""
    asked, freed = rows.free_requested_time_us != NO_TIME, rows.free_time_us != NO_TIME
    # The reader accepts only times from 1970 to 9999, so no difference overflows.
    since, then = np.maximum(rows.alloc_time_us, 0), np.maximum(rows.free_requested_time_us, 0)
    return {
        "requested_after_us": np.where(asked, rows.free_requested_time_us - since, NOT_THERE),
        "free_after_us": np.where(freed, rows.free_time_us - then, NOT_THERE),
    }


def add_up(
    begin: NDArray[np.int64], after: NDArray[np.int64], unknown: NDArray[np.bool_], never: int
) -> NDArray[np.int64]:
    """Return events or times that lie ``after`` others, which count as 0 where not known.

    Args:
        begin: int64, shape (n,), negative where not known.
        after: int64, shape (n,).
        unknown: bool, shape (n,): there is no difference.
        never: the result where there is no difference.
    """
    found: NDArray[np.int64] = np.maximum(begin, 0)
    found += after
    found[unknown] = never
    return found
