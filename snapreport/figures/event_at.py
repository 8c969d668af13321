"""The entry of a trace at one event: what happened there, and to which allocation."""

from __future__ import annotations

import numpy as np

from snapreport.model.answer_tables import TraceEntry
from snapreport.model.history import START, DeviceHistory
from snapreport.model.snapshot import NO_ID
from snapreport.model.stacks import NO_STACK


def entry_at(history: DeviceHistory, event: int) -> TraceEntry | None:
    """Return the trace's entry for an event, None for the start."""
    if event == START:
        return None
    rows, other = history.allocations, history.other
    for action, column, stack in (
        ("alloc", rows.alloc_event, rows.stack),
        ("free_requested", rows.free_requested_event, rows.free_stack),
        ("free_completed", rows.free_event, rows.free_stack),
    ):
        found = np.flatnonzero(column == event)
        if len(found):
            i = int(found[0])
            return TraceEntry(event, action, int(rows.addr[i]), int(rows.size[i]), i, int(stack[i]))
    found = np.flatnonzero(other.event == event)
    if not len(found):
        return TraceEntry(event, "unknown", 0, 0, NO_ID, NO_STACK)
    i = int(found[0])
    return TraceEntry(
        event, other.action[i], int(other.addr[i]), int(other.size[i]), NO_ID, int(other.stack[i])
    )
