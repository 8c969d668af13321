"""A rank's curves in a few hundred cells, so that ranks can be laid side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from snapreport.model.run.rank_facts import Cells
from snapreport.model.snapshot import NO_TIME

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_CELLS = 512


def event_cells(
    allocated: NDArray[np.int64], reserved: NDArray[np.int64] | None, most: int = MOST_CELLS
) -> Cells:
    """Return two curves in the fewest cells of events that are needed; the first has the start.

    Args:
        allocated: int64, shape (n_events + 1,), in bytes after each event; index 0 is the start.
        reserved: likewise; None where no allocator reserves memory.
        most: how many cells there may be.
    """
    events = max(len(allocated) - 1, 1)
    shift = _smallest_shift(0, events - 1, most)
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
        allocated, reserved, most: as above.
        times: int64, shape (n_events,), in microseconds; NO_TIME where unknown.
    """
    known = times[times != NO_TIME]
    if not len(known):
        return None
    at = np.maximum.accumulate(np.maximum(times, known[0]))
    shift = _smallest_shift(int(at[0]), int(at[-1]), most)
    first = int(at[0]) >> shift
    edges = np.arange(first, (int(at[-1]) >> shift) + 2, dtype=np.int64) << shift
    begin = np.searchsorted(at, edges)
    low, high = begin[:-1], begin[1:] + 1
    # Index s + 1 holds event s, so index s is what the curve had before the cell's first event.
    low = low + (at[np.minimum(low, len(at) - 1)] == edges[:-1])
    low[0] = 0
    return _cells(first, shift, allocated, reserved, low, high)


def coarser(cells: Cells, shift: int) -> Cells:
    """Return the same in wider cells, exactly.

    Raises:
        ValueError: those would be narrower.
    """
    more = shift - cells.shift
    if more < 0:
        raise ValueError(f"cells {1 << cells.shift} wide cannot become {1 << shift} wide")
    if not more:
        return cells
    first, n = cells.first >> more, len(cells.allocated)
    count = ((cells.first + n - 1) >> more) - first + 1
    edges = np.maximum((np.arange(first, first + count, dtype=np.int64) << more) - cells.first, 0)
    return Cells(
        first,
        shift,
        np.maximum.reduceat(cells.allocated, edges),
        None if cells.reserved is None else np.maximum.reduceat(cells.reserved, edges),
    )


def to_one_width(all_cells: Sequence[Cells], most: int = MOST_CELLS) -> tuple[Cells, ...]:
    """Return the cells of several ranks in the width of the widest, or wider.

    Args:
        all_cells: of one axis; none empty.
        most: how many cells may lie between the first of all and the last.
    """
    if not all_cells:
        return ()
    shift = max(each.shift for each in all_cells)
    first = min(each.first << each.shift for each in all_cells)
    last = max(((each.first + len(each.allocated)) << each.shift) - 1 for each in all_cells)
    shift = max(shift, _smallest_shift(first, last, most))
    return tuple(coarser(each, shift) for each in all_cells)


def _smallest_shift(first: int, last: int, most: int) -> int:
    """Return how wide cells must be for no more than ``most`` to cover places, both in."""
    shift = 0
    while (last >> shift) - (first >> shift) >= most:
        shift += 1
    return shift


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
