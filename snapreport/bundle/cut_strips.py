"""The rows of ``allocations.json`` where not every allocation is drawn one by one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from snapreport.model.cut import Drawn
from snapreport.model.history import DeviceHistory
from snapreport.native.sweeps import sum_live

Strip = tuple[int, "NDArray[np.int64]", "NDArray[np.int64]"]
"""Its size, timesteps and offsets."""

CUT_RULE = (
    "Allocations that were cut keep their rows, with a size of 0. Rows behind the last allocation"
    " are the sum of those, which lies on top; it is exact at the events sampled."
)


def lay_rest(history: DeviceHistory, drawn: Drawn, events: NDArray[np.int64]) -> Iterator[Strip]:
    """Lay out the sum of what is not drawn, on top of the rest.

    It is a strip for as long as the sum is the same at the events sampled.
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
    begin = np.concatenate(([0], events[1:]))  # strips begin where the picture does
    runs = np.flatnonzero(np.diff(height, prepend=-1))
    for low, high in zip(runs.tolist(), np.append(runs[1:], len(events)).tolist(), strict=True):
        stop = int(until[high - 1])
        if height[low] and stop > begin[low]:
            # It is there from its first sample on, and stays as it is at the last one.
            at = np.append(begin[low:high], stop)
            offsets = np.append(below[low:high], below[high - 1])
            turns = np.diff(offsets) != 0
            point = np.concatenate(([True], turns)) | np.concatenate((turns, [True]))
            yield int(height[low]), at[point], offsets[point]
