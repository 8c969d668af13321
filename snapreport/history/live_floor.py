"""The memory that is needed under any allocator setting: the most live requests at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from snapreport.history.action_codes import code_actions
from snapreport.history.block_sizes import SplitRules, round_sizes
from snapreport.model.history import DeviceHistory
from snapreport.native.sweeps import sum_live


@dataclass(frozen=True)
class LiveFloor:
    """The most live requests at any moment, each rounded up to 512 bytes."""

    bytes: int
    event: int
    """The first event with that much; -1 is the start."""
    failed: bool
    """Whether a request that failed there is included."""


def live_floor(history: DeviceHistory, divided: bool) -> LiveFloor:
    """Add up live requests, and each that failed to those live then.

    A request counts until its free is asked for, so what waits for another stream does not, nor
    does what a block holds beyond the request.

    Args:
        history: the device.
        divided: whether ``roundup_power2_divisions`` was set. A failed request is recorded as it
            was rounded: by at most as much again then.
    """
    rows = history.allocations
    sizes = round_sizes(rows.size, SplitRules())
    curve = sum_live(sizes, rows.alloc_event, rows.free_requested_event, history.events)
    place = int(curve.argmax())
    floor = LiveFloor(int(curve[place]), place - 1, failed=False)
    other = history.other
    failed = np.flatnonzero(code_actions(other, {"oom": 1}, 0))
    if not len(failed):
        return floor
    wanted = curve[other.event[failed] + 1] + other.size[failed] // (2 if divided else 1)
    most = int(wanted.argmax())
    if wanted[most] <= floor.bytes:
        return floor
    return LiveFloor(int(wanted[most]), int(other.event[failed[most]]), failed=True)


def live_at(history: DeviceHistory, event: int) -> int:
    """Return the bytes of the requests that are live after an event, each rounded up to 512."""
    rows = history.allocations
    live = rows.live_at(event)
    return int(round_sizes(rows.size[live], SplitRules()).sum())
