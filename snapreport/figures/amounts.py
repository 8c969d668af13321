"""The curves at one step and what follows from them: slack, inactive bytes, fragmentation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from snapreport.figures.curves import Curves, live_at, time_at
from snapreport.figures.reserved_parts import fill_segments
from snapreport.model.findings import Amounts
from snapreport.model.history import DeviceHistory
from snapreport.model.segment_lives import SegmentLives

if TYPE_CHECKING:
    from numpy.typing import NDArray


def find_amounts(
    history: DeviceHistory,
    lives: SegmentLives,
    curves: Curves,
    times: NDArray[np.int64],
    step: int,
) -> Amounts:
    """Return every amount of one device after a step.

    Args:
        history: the device.
        lives: its segments.
        curves: its curves.
        times: int64, shape (n_events,), as from ``step_times``.
        step: -1 for the start.
    """
    rows = history.allocations
    live = live_at(history, step, "allocated")
    active = int(curves.active[step + 1])
    reserved = None if curves.reserved is None else int(curves.reserved[step + 1])
    # With segment events missing, reserved is too low (a warning says so): then nothing follows.
    known = reserved is not None and reserved >= active
    width = int((rows.block_size_max[live] - rows.block_size[live]).sum())
    return Amounts(
        step=step,
        time_us=time_at(times, step),
        requested=int(curves.requested[step + 1]),
        allocated=int(curves.allocated[step + 1]),
        active=active,
        reserved=reserved,
        slack=active - int(curves.requested[step + 1]),
        inactive=reserved - active if known and reserved is not None else None,
        fragmentation=find_fragmentation(history, lives, step) if known else None,
        live=int(live.sum()),
        allocated_width=width,
    )


def find_fragmentation(history: DeviceHistory, lives: SegmentLives, step: int) -> int:
    """Return the inactive bytes in segments that hold a live block, after a step.

    ``empty_cache()`` can give back segments without one; of these only whole free pages of
    expandable ones.
    """
    size, used = fill_segments(history, lives, step)
    return int((size - used)[used > 0].sum())
