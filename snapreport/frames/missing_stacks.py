"""Say why an allocation has no frames; each reason is a node of its own in the call tree."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.memoize import once_for_both, shared
from snapreport.model.history import START, DeviceHistory
from snapreport.model.stacks import NO_STACK, StackTable

# Positions in MISSING_REASONS.
HAS_FRAMES, BEFORE, LOST, NOT_RECORDED, EMPTY = range(5)


@once_for_both
def missing_reason(history: DeviceHistory, stacks: StackTable) -> NDArray[np.int8]:
    """Say for each allocation why it has no frames, or HAS_FRAMES; int8, shape (n,)."""
    rows = history.allocations
    none = rows.stack == NO_STACK
    # One entry more than stacks, for NO_STACK: index -1 picks the last.
    empty = np.append(stacks.stack_node < 0, False)[rows.stack]
    baseline = rows.alloc_event == START
    to_the_end = rows.free_event == history.events
    reason = np.full(len(rows), HAS_FRAMES, np.int8)
    reason[none] = NOT_RECORDED
    reason[empty] = EMPTY
    # A block live at the end keeps its stack even if the ring lost its alloc event. A block freed
    # before has lost both, so it is unknown whether the event was lost or never recorded.
    unknown = (none | empty) & baseline
    reason[unknown] = LOST
    reason[unknown & to_the_end] = BEFORE
    lost_alloc = baseline & to_the_end & ~none & ~empty
    if not lost_alloc.any():  # no sign that the ring overflowed
        reason[reason == LOST] = BEFORE
    return shared(reason)
