"""A rank's curves in a few hundred cells, so that ranks can be laid side by side."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from snapreport.model.run.cell_widths import MOST_CELLS, smallest_shift
from snapreport.model.run.rank_facts import Cells
from snapreport.model.snapshot import NO_TIME


def event_cells(
    allocated: NDArray[np.int64], reserved: NDArray[np.int64] | None, most: int = MOST_CELLS
) -> Cells:
    """Return two curves in the fewest cells of events that are needed; the first has the start.

    Args:
        allocated: int64, shape (n_events + 1,), in bytes after each event; index 0 is the start.
        reserved: as ``allocated``; None if no allocator reserves memory.
        most: how many cells there may be.
    """
    events = max(len(allocated) - 1, 1)
    shift = smallest_shift(0, events - 1, most)
    edges = np.arange(0, events, 1 << shift, dtype=np.int64)
    low = edges + 1
    low[0] = 0
    high = np.minimum(edges + (1 << shift), len(allocated) - 1) + 1
    return _cells(0, shift, allocated, reserved, low, high)


def time_cells(
    allocated: NDArray[np.int64],
    reserved: NDArray[np.int64] | None,
    times: NDArray[np.int64],
    most: int = MOST_CELLS,
) -> Cells | None:
    """Return two curves in the fewest cells of time that are needed; None without times.

    A cell has every value that is attained in it, and what the curve had when it began, unless
    there was an event at that very microsecond. The first has the start. An event without a time,
    or with one from before that of the event before it, counts at the time of the latest.

    Args:
        allocated, reserved, most: as for ``event_cells``.
        times: int64, shape (n_events,), in microseconds; NO_TIME where unknown.
    """
    known = times[times != NO_TIME]
    if not len(known):
        return None
    at = np.maximum.accumulate(np.maximum(times, known[0]))
    shift = smallest_shift(int(at[0]), int(at[-1]), most)
    first = int(at[0]) >> shift
    edges = np.arange(first, (int(at[-1]) >> shift) + 2, dtype=np.int64) << shift
    begin = np.searchsorted(at, edges)
    low, high = begin[:-1], begin[1:] + 1
    # Index s + 1 holds event s, so index s is what the curve had before the cell's first event.
    low = low + (at[np.minimum(low, len(at) - 1)] == edges[:-1])
    low[0] = 0
    return _cells(first, shift, allocated, reserved, low, high)


def _cells(
    first: int,
    shift: int,
    allocated: NDArray[np.int64],
    reserved: NDArray[np.int64] | None,
    low: NDArray[np.int64],
    high: NDArray[np.int64],
) -> Cells:
    """Take the most of each span ``low <= place < high`` of the curves; the last one ends them."""
    # Spans may share a place, so every second part of reduceat is none of ours.
    edges = np.stack([low, high], axis=1).ravel()[:-1]
    return Cells(
        first,
        shift,
        np.maximum.reduceat(allocated, edges)[::2],
        None if reserved is None else np.maximum.reduceat(reserved, edges)[::2],
    )
