"""What no setting of the allocator gets below: the live requests themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from snapreport.allocator.replay_tape import ALLOCATE, AWAIT, FAIL, FREE, ReplayTape
from snapreport.history.block_sizes import SplitRules, round_sizes
from snapreport.model.history import START

if TYPE_CHECKING:
    from numpy.typing import NDArray


def request_floor(tape: ReplayTape, divisions: tuple[int, ...] = ()) -> tuple[int, int]:
    """Return the most bytes that live requests have together, and at which event first.

    Each counts with its rounding to 512 bytes, which every setting has, until its free is
    requested. A request that failed counts while it was asked for.

    Args:
        tape: of a device.
        divisions: ``roundup_power2_divisions`` that the size of a failed request was rounded with.
    """
    rounded = round_sizes(tape.size, SplitRules())
    changes = np.zeros(len(tape), np.int64)
    made = tape.op == ALLOCATE
    changes[made] = rounded[tape.row[made]]
    ends = _first_ends(tape)
    changes[ends] = -rounded[tape.row[ends]]
    live = int(rounded[tape.block > 0].sum()) + np.cumsum(changes)
    failed = tape.op == FAIL
    # Its size is recorded rounded; with divisions it may have asked for little above half of that.
    live[failed] += tape.failed_size[failed] // (2 if divisions else 1)
    start = int(rounded[tape.block > 0].sum())
    if not len(live) or start >= live.max():
        return start, START
    most = int(live.argmax())
    return int(live[most]), int(tape.event[most])


def _first_ends(tape: ReplayTape) -> NDArray[np.int64]:
    """Return the operation that ends each allocation: the first one, where a free awaits."""
    ends = np.flatnonzero((tape.op == FREE) | (tape.op == AWAIT))
    _, first = np.unique(tape.row[ends], return_index=True)
    return ends[np.sort(first)]
