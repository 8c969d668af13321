"""What reserved memory consists of at one event, every part counted by itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from snapreport.history.segment_replay import lives_of, segments_at
from snapreport.model.history import Allocations, DeviceHistory
from snapreport.model.segment_lives import SegmentLives
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
    lives, rows = lives_of(history), history.allocations
    there, live, segment = place_blocks(lives, rows, event)
    return lives.size[there], sum_groups(segment, rows.block_size[live], len(there))


def place_blocks(
    lives: SegmentLives, rows: Allocations, event: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the segments after an event, the active blocks in them, and which each block is in.

    Returns:
        rows of ``lives``, by address; rows of the allocations, leaving out blocks outside of every
        segment; and for each of these the place of its segment among the former.
    """
    there = segments_at(lives, event)
    live = np.flatnonzero(rows.live_at(event, "active"))
    segment = np.searchsorted(lives.address[there], rows.addr[live], side="right") - 1
    ends = np.append((lives.address + lives.size)[there], 0)  # -1 is the last, which holds nothing
    inside = rows.addr[live] < ends[segment]
    return there, live[inside], segment[inside].astype(np.int64)
