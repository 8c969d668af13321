"""The entries of a trace by event: what happened there, and to which allocation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.memoize import once_for_each, shared
from snapreport.model.answer_tables import TraceEntry
from snapreport.model.history import START, DeviceHistory
from snapreport.model.snapshot import NO_ID
from snapreport.model.stacks import NO_STACK

UNKNOWN, ALLOC, FREE_REQUESTED, FREE_COMPLETED, OTHER = range(5)
ACTIONS = ("unknown", "alloc", "free_requested", "free_completed")
"""The names of the first kinds of entries; entries of kind OTHER have names of their own."""


@dataclass(frozen=True, eq=False)
class TraceKinds:
    """What each event is; arrays of shape (events,)."""

    kind: NDArray[np.int8]
    """UNKNOWN to OTHER. A free that was requested and completed at once is FREE_REQUESTED."""
    row: NDArray[np.int32]
    """Row of the device's ``Allocations``, for OTHER of its ``other`` events; NO_ID if UNKNOWN."""


@once_for_each
def trace_kinds(history: DeviceHistory) -> TraceKinds:
    """Return the kind and the row of every event."""
    rows = history.allocations
    kind = np.full(history.events + 2, UNKNOWN, np.int8)  # START and "never" write to the ends
    row = np.full(history.events + 2, NO_ID, np.int32)
    for what, events in (
        (OTHER, history.other.event),
        (FREE_COMPLETED, rows.free_event),
        (FREE_REQUESTED, rows.free_requested_event),
        (ALLOC, rows.alloc_event),
    ):
        # Of several entries at one event the first row counts, and the later kind of these.
        kind[events[::-1]] = what
        row[events[::-1]] = np.arange(len(events) - 1, -1, -1, dtype=np.int32)
    return TraceKinds(shared(kind[: history.events]), shared(row[: history.events]))


def entry_at(history: DeviceHistory, event: int) -> TraceEntry | None:
    """Return the trace's entry for an event, None for the start."""
    if event == START:
        return None
    found = trace_kinds(history)
    kind, i = int(found.kind[event]), int(found.row[event])
    rows, other = history.allocations, history.other
    if kind == UNKNOWN:
        return TraceEntry(event, ACTIONS[UNKNOWN], 0, 0, NO_ID, NO_STACK)
    if kind == OTHER:
        address, size, stack = int(other.addr[i]), int(other.size[i]), int(other.stack[i])
        return TraceEntry(event, other.action[i], address, size, NO_ID, stack)
    stack = int((rows.stack if kind == ALLOC else rows.free_stack)[i])
    return TraceEntry(event, ACTIONS[kind], int(rows.addr[i]), int(rows.size[i]), i, stack)
