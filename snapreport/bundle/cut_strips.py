"""Lays out the rows of ``allocations.json`` for allocations that are not drawn one by one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from snapreport.model.cut import Drawn
from snapreport.model.history import DeviceHistory
from snapreport.native.sweeps import sum_live

Strip = tuple[int, "NDArray[np.int64]", "NDArray[np.int64]"]
"""Size, timesteps and offsets of a strip."""

CUT_RULE = (
    "Allocations that were cut keep their rows, with a size of 0. Rows after the last allocation"
    " are the sum of those, drawn on top of the others; it is exact at the sampled events."
)


def lay_rest(history: DeviceHistory, drawn: Drawn, events: NDArray[np.int64]) -> Iterator[Strip]:
    """Lay out the sum of the allocations that are not drawn, on top of those that are.

    A strip lasts as long as the sum is the same at the sampled events.
    """
    if not len(events):
        return
    end, rows = max(history.events, 1), history.allocations
    rest = drawn.rest
    height = rest.requested[np.searchsorted(rest.event, events, side="right") - 1]
    size, born, freed = (
        column[drawn.rows] for column in (rows.size, rows.alloc_event, rows.free_event)
    )
    below = sum_live(size, born, freed, history.events)[events + 1]
    until = np.append(events[1:], end)
    begin = np.concatenate(([0], events[1:]))  # the first strip begins at the left edge
    runs = np.flatnonzero(np.diff(height, prepend=-1))
    for low, high in zip(runs.tolist(), np.append(runs[1:], len(events)).tolist(), strict=True):
        stop = int(until[high - 1])
        if height[low] and stop > begin[low]:
            # It lasts from its first sample on, and keeps the offset of its last one to the end.
            at = np.append(begin[low:high], stop)
            offsets = np.append(below[low:high], below[high - 1])
            turns = np.diff(offsets) != 0
            point = np.concatenate(([True], turns)) | np.concatenate((turns, [True]))
            yield int(height[low]), at[point], offsets[point]
