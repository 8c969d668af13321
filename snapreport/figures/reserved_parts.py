"""What reserved memory consists of at one event, every part counted by itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from snapreport.history.segment_replay import lives_of, segments_at
from snapreport.model.history import DeviceHistory
from snapreport.model.trust import ReservedParts
from snapreport.native.sorting import sum_groups


def find_reserved_parts(history: DeviceHistory, reserved: int, event: int) -> ReservedParts:
    """Return the parts after an event; where all is well they add up to ``reserved``.

    Args:
        history: the device.
        reserved: bytes reserved after that event, as the curve has it.
        event: -1 for the start.
    """
    rows = history.allocations
    held, active = rows.live_at(event), rows.live_at(event, "active")
    requested = int(rows.size[held].sum())
    size, used = fill_segments(history, event)
    return ReservedParts(
        event=event,
        requested=requested,
        slack=int(rows.block_size[held].sum()) - requested,
        awaiting_free=int(rows.block_size[active & ~held].sum()),
        fragmented=int((size - used)[used > 0].sum()),
        returnable=int(size[used == 0].sum()),
        reserved=reserved,
    )


def fill_segments(
    history: DeviceHistory, event: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the bytes of each segment after an event, and of the live blocks in it; shape (n,)."""
    lives = lives_of(history)
    rows = segments_at(lives, event)
    address, size = lives.address[rows], lives.size[rows]
    if not len(rows):
        return size, np.zeros(0, np.int64)
    live = history.allocations.live_at(event, "active")
    blocks = history.allocations.addr[live]
    row = np.searchsorted(address, blocks, side="right") - 1
    inside = (row >= 0) & (blocks < address[row] + size[row])
    weight = history.allocations.block_size[live][inside]
    return size, sum_groups(row[inside], weight, len(rows))
