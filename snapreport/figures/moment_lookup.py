"""From the ways people name a moment to an event: a time, a stage, a span, an allocation."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.errors import MomentError
from snapreport.model.findings import StageUse
from snapreport.model.history import START, DeviceHistory
from snapreport.model.snapshot import NO_TIME


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
        MomentError: the recording has no times.
    """
    first = first_time(times)
    if first is None:
        raise MomentError("this recording has no times; name an event instead.")
    wanted = time_us if time_us >= first else first + time_us
    return START if wanted < first else event_from(times, wanted + 1) - 1


def first_time(times: NDArray[np.int64]) -> int | None:
    """Return the first known time, None if no time is known."""
    known = times[times != NO_TIME]
    return int(known[0]) if len(known) else None


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
    near = names or difflib.get_close_matches(name, every, n=5, cutoff=0.4) or every
    some = ", ".join(repr(near_name) for near_name in near[:5]) + (", ..." if near[5:] else "")
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
