"""The curves at one event and what follows from them: slack, inactive bytes, fragmentation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from snapreport.figures.curves import Curves, reserved_at, time_at
from snapreport.figures.reserved_parts import fill_segments
from snapreport.model.findings import Amounts
from snapreport.model.history import DeviceHistory


def find_amounts(
    history: DeviceHistory,
    curves: Curves,
    times: NDArray[np.int64],
    event: int,
) -> Amounts:
    """Return every amount of one device after an event.

    Args:
        history: the device.
        curves: its curves.
        times: int64, shape (n_events,), as from ``event_times``.
        event: -1 for the start.
    """
    rows = history.allocations
    live = rows.live_at(event)
    active = int(curves["active"][event + 1])
    reserved = reserved_at(curves, event)
    width = int((rows.block_size_max[live] - rows.block_size[live]).sum())
    return Amounts(
        event=event,
        time_us=time_at(times, event),
        requested=int(curves["requested"][event + 1]),
        allocated=int(curves["allocated"][event + 1]),
        active=active,
        reserved=reserved,
        slack=active - int(curves["requested"][event + 1]),
        inactive=None if reserved is None else reserved - active,
        fragmentation=None if reserved is None else find_fragmentation(history, event),
        live=int(live.sum()),
        allocated_width=width,
    )


def find_fragmentation(history: DeviceHistory, event: int) -> int:
    """Return the inactive bytes in segments that hold a live block, after an event.

    ``empty_cache()`` can give back only segments without a live block, and whole free pages of
    expandable ones.
    """
    size, used = fill_segments(history, event)
    return int((size - used)[used > 0].sum())
