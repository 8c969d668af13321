"""Moments of a recording: what happened at an event, and the ways in which people name one.

People name a time, a stage, a span or an allocation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.errors import MomentError
from snapreport.ground.memoize import once_for_each, shared
from snapreport.ground.records import dataclass
from snapreport.ground.units import format_duration
from snapreport.model.answers import TraceEntry
from snapreport.model.findings import StageUse
from snapreport.model.history import START, DeviceHistory
from snapreport.model.snapshot import NO_ID, NO_STACK, NO_TIME

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


def check_event(event: int, events: int) -> int:
    """Return the event if the recording has it; -1 is the start.

    Raises:
        MomentError: there is no such event.
    """
    if START <= event < events:
        return event
    last = f"{START} (the start) to {events - 1:,}" if events else f"{START} (the start) alone"
    raise MomentError(f"there is no event {event:,}; this device has {last}.")


def event_at_time(times: NDArray[np.int64], time_us: int) -> int:
    """Return the last event at or before a time, -1 when all are later.

    Args:
        times: int64, shape (n_events,), as from ``event_times``.
        time_us: microseconds since 1970, or since the first event if smaller than the first time.

    Raises:
        MomentError: the recording has no times, or ends before this one.
    """
    first = first_time(times)
    if first is None:
        raise MomentError("this recording has no times; name an event instead.")
    wanted = time_us if time_us >= first else first + time_us
    length = int(times.max()) - first
    if wanted - first > length:
        exact = f" ({length:,} µs)" if length >= 1000 else ""  # what is shown may be rounded up
        raise MomentError(
            f"{format_duration(wanted - first)} is past the end; this recording is"
            f" {format_duration(length)}{exact} long."
        )
    return START if wanted < first else event_from(times, wanted + 1) - 1


def first_time(times: NDArray[np.int64]) -> int | None:
    """Return the first known time, None if no time is known."""
    if not len(times):
        return None
    first = int((times != NO_TIME).argmax())
    return None if times[first] == NO_TIME else int(times[first])


def event_from(times: NDArray[np.int64], time_us: int) -> int:
    """Return the first event at or after a time; the number of events if all are earlier."""
    known = np.flatnonzero(times != NO_TIME)
    # Clocks may step back; an event counts as no earlier than those before it.
    place = int(np.searchsorted(np.maximum.accumulate(times[known]), time_us))
    return int(known[place]) if place < len(known) else len(times)


def peak_between(curve: NDArray[np.int64], first: int, last: int) -> int:
    """Return the first event at which a curve is highest from event ``first`` to ``last``, both in.

    Args:
        curve: int64, shape (n_events + 1,); index 0 is the start.
        first: -1 for the start.
        last: not before ``first``.

    Raises:
        MomentError: one of the events does not exist, or they are in the wrong order.
    """
    events = len(curve) - 1
    check_event(first, events)
    check_event(last, events)
    if last < first:
        raise MomentError(f"the span ends at event {last:,}, before it begins at {first:,}.")
    return first + int(curve[first + 1 : last + 2].argmax())


def find_stage(stages: Sequence[StageUse], name: str) -> int:
    """Return the place of a stage: by its name, its name and number ``forward[2]``, or a part.

    Raises:
        MomentError: no stage matches, or several different ones do.
    """
    if not stages:
        raise MomentError("this recording has no stages; nothing was annotated in it.")
    wanted, number = _numbered(name)
    exact = [i for i, stage in enumerate(stages) if stage.name == name]
    if not exact and number is not None:
        exact = [i for i, stage in enumerate(stages) if stage.name == wanted]
        if 1 <= number <= len(exact):
            return exact[number - 1]
        if exact:
            raise MomentError(f"stage {wanted!r} occurs {len(exact)} times, so {name!r} is none.")
    if exact:
        return max(exact, key=lambda i: (stages[i].peak_bytes or 0, -i))
    parts = [i for i, stage in enumerate(stages) if name.lower() in stage.name.lower()]
    names = sorted({stages[i].name for i in parts})
    if len(names) == 1:
        return max(parts, key=lambda i: (stages[i].peak_bytes or 0, -i))
    every = sorted({stage.name for stage in stages})
    import difflib  # only for this message

    near = names or difflib.get_close_matches(name, every, n=5, cutoff=0.4) or every
    some = ", ".join(map(repr, near[:5])) + (f" and {len(near) - 5} more" if near[5:] else "")
    fits = "several stages fit" if names else "no stage is named"
    raise MomentError(f"{fits} {name!r}; this recording has {some}.")


def _numbered(name: str) -> tuple[str, int | None]:
    """Split ``forward[2]`` into its name and number."""
    if name.endswith("]") and "[" in name:
        base, _, number = name[:-1].rpartition("[")
        if number.isdecimal():
            return base, int(number)
    return name, None


def find_allocation(history: DeviceHistory, address: int, version: int | None = None) -> int:
    """Return the row of an allocation, by its address and its version there.

    Args:
        history: the device.
        address: of the block.
        version: 0 for the first allocation at that address; None if there was only one.

    Raises:
        MomentError: there was none, there were too few, or there were several and no version.
    """
    rows = np.flatnonzero(history.allocations.addr == address)
    if not len(rows):
        raise MomentError(f"no allocation was ever at {address:#x} on {history.device}.")
    if version is None:
        if len(rows) == 1:
            return int(rows[0])
        last = len(rows) - 1
        raise MomentError(
            f"{len(rows)} allocations were at {address:#x}; name one of them, from"
            f" {address:#x}_0 to {address:#x}_{last}."
        )
    found = rows[history.allocations.version[rows] == version]
    if not len(found):
        raise MomentError(f"{address:#x} has versions 0 to {len(rows) - 1}, not {version}.")
    return int(found[0])


def event_of_allocation(history: DeviceHistory, row: int, which: str) -> int:
    """Return the event at which an allocation was made (``alloc``) or freed (``free``).

    A free is at its request: that is when ``memory_allocated()`` falls.

    Raises:
        MomentError: the event is not in the recording.
    """
    rows = history.allocations
    address = f"{int(rows.addr[row]):#x}_{int(rows.version[row])}"
    if which == "alloc":
        event = int(rows.alloc_event[row])
        if event == START:
            raise MomentError(f"{address} was allocated before the recording began.")
        return event
    event = int(rows.free_requested_event[row])
    if event == history.events:
        raise MomentError(f"{address} was never freed in this recording.")
    if event == START:
        raise MomentError(f"the free of {address} was requested before the recording began.")
    return event
