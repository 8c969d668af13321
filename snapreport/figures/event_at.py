"""The trace event of one step: what happened there, and to which allocation."""

from __future__ import annotations

import numpy as np

from snapreport.model.answer_tables import EventAt
from snapreport.model.history import START, DeviceHistory
from snapreport.model.snapshot import NO_ID
from snapreport.model.stacks import NO_STACK


def event_at(history: DeviceHistory, step: int) -> EventAt | None:
    """Return the event of a step, None for the start."""
    if step == START:
        return None
    rows, other = history.allocations, history.other
    for action, steps, stack in (
        ("alloc", rows.alloc_step, rows.stack),
        ("free_requested", rows.free_requested_step, rows.free_stack),
        ("free_completed", rows.free_step, rows.free_stack),
    ):
        found = np.flatnonzero(steps == step)
        if len(found):
            i = int(found[0])
            return EventAt(step, action, int(rows.addr[i]), int(rows.size[i]), i, int(stack[i]))
    found = np.flatnonzero(other.step == step)
    if not len(found):
        return EventAt(step, "unknown", 0, 0, NO_ID, NO_STACK)
    i = int(found[0])
    return EventAt(
        step, other.action[i], int(other.addr[i]), int(other.size[i]), NO_ID, int(other.stack[i])
    )
