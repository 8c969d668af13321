"""Find out whether the oldest events were lost: a recording is a ring of the newest ones."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from snapreport.frames.missing_stacks import HAS_FRAMES
from snapreport.ground.units import format_count, plural
from snapreport.model.history import START, DeviceHistory, History
from snapreport.model.snapshot import NO_TIME
from snapreport.model.trust import Loss
from snapreport.native.sorting import median

# A smaller round number of events is too likely by chance, and nobody asks for so small a ring.
_SMALLEST_RING = 500
# People type 100000 or 1 << 16; a recording rarely stops at such a number by chance.
_ROUND_TO = 50_000
# If at most this share of events leave nothing live that is freed later, a full ring would hardly
# begin just behind one of them.
_RARE = 0.1
# Annotations that mark a step of the program, the best first.
_STEP_NAMES = ("ProfilerStep", "Optimizer.step")
_NUMBER = re.compile(r"#\d+$")


def find_loss(
    history: DeviceHistory, tables: History, reason: np.ndarray[Any, Any], start_reserved: int
) -> Loss:
    """Judge whether events from before the first one are missing.

    ``lost`` means proven: the file says so, or the ring looks full and there are blocks allocated
    while recording was on whose events are not in the file. If the ring is not full, those events
    may have been dropped when recording was stopped (``missing``).

    Args:
        reason: int8, shape (n_allocations,), as from ``missing_reason``.
        start_reserved: bytes reserved before the first event.
    """
    rows, events = history.allocations, history.events
    baseline = rows.alloc_event == START
    made = int((baseline & (rows.free_event == events) & (reason == HAS_FRAMES)).sum())
    unmatched = int((baseline & (rows.free_event < events)).sum())
    entries = _of_device(history, tables.settings.get("trace_alloc_max_entries"))
    most = int(entries) if isinstance(entries, (int, float)) and 0 < entries < 2**62 else None
    said = _said(history, tables)
    if said is False:
        # Blocks from before with a call stack are then of an earlier recording that was dropped.
        return Loss("none", ("the file says that the ring did not overflow",), most, False)
    if said is None and start_reserved == 0 and not baseline.any():
        # Whatever the length: all that could be missing was freed and given back.
        nothing = "nothing was allocated or reserved before the first event"
        return Loss("none", (nothing,), most, False)
    proofs, signs = [], []
    if said:
        proofs.append("the file says that the ring overflowed")
    if made:
        proofs.append(
            f"{plural(made, 'block has', 'blocks have')} a call stack from an event that is not in"
            " the file"
        )
    if most is not None and events >= most:
        signs.append(f"there are {format_count(events)} events, as many as the ring holds")
    elif most is None and _is_round(events) and not _begins_at_rest(history):
        signs.append(
            f"there are {format_count(events)} events, a round number, as when the ring is full"
        )
    full = bool(said or signs)
    if unmatched and _is_shared(history, tables) and (made or events >= _SMALLEST_RING):
        signs.append(f"another device has exactly {format_count(events)} events too")
        full = full or bool(made)
    if not proofs and not signs:
        return Loss("not known", (), most, False)
    return Loss(
        ("lost" if full else "missing") if proofs else "suspected",
        (*proofs, *signs, *_supporting(history, unmatched)),
        most,
        full,
        *events_per_step(history),
    )


def events_per_step(history: DeviceHistory) -> tuple[int | None, str]:
    """Return the events per step of the program, and the name of the stage that marks steps.

    It is the median over complete steps, and None if no annotation marks steps.
    """
    starts: dict[str, list[int]] = {}
    for name, event in zip(history.stages.name, history.stages.start_event.tolist(), strict=True):
        if event >= 0 and name.startswith(_STEP_NAMES):
            starts.setdefault(_NUMBER.sub("", name), []).append(event)
    for wanted in _STEP_NAMES:
        for name, found in starts.items():
            lengths = np.diff(found)
            lengths = lengths[lengths > 0]
            if name.startswith(wanted) and len(lengths):
                return int(median(lengths)), name
    return None, ""


def _said(history: DeviceHistory, tables: History) -> bool | None:
    """Return whether the device's ring overflowed by the file; None if the file does not say."""
    value = tables.settings.get("trace_alloc_overflowed")
    if value is None or not history.device.on_card:
        return None
    if isinstance(value, list):
        found = _of_device(history, value)
        return None if found is None else bool(found)
    # One flag for all devices: rings have one size, so a ring with fewer events is not full.
    return bool(value) and history.events == max(each.events for each in tables.devices)


def _of_device(history: DeviceHistory, value: Any) -> Any:
    """Return a setting's value for the device: its own out of a list, or the one for all."""
    if not isinstance(value, list):
        return value
    ordinal = history.device.ordinal
    return value[ordinal] if history.device.on_card and ordinal < len(value) else None


def _is_round(events: int) -> bool:
    """Whether somebody might choose this number: 5000, 100000, 65536."""
    if events < _SMALLEST_RING:
        return False
    digits = str(events).rstrip("0")
    power_of_two = events >= 1024 and events & (events - 1) == 0
    return len(digits) == 1 or power_of_two or events % _ROUND_TO == 0


def _begins_at_rest(history: DeviceHistory) -> bool:
    """Whether nothing that lives briefly was live before the first event, where that is rare later.

    A ring that overflows begins at any event, in the middle of a step as a rule: then memory is
    freed that was allocated before it. So this tells more than a round number of events does.
    """
    rows, events = history.allocations, history.events
    brief = rows.free_event < events
    if (rows.alloc_event[brief] == START).any():
        return False
    born = np.bincount(rows.alloc_event[brief], minlength=events)
    freed = np.bincount(rows.free_event[brief], minlength=events)
    return int((np.cumsum(born - freed) == 0).sum()) <= _RARE * events


def _is_shared(history: DeviceHistory, tables: History) -> bool:
    return sum(each.events == history.events for each in tables.devices) > 1


def _supporting(history: DeviceHistory, unmatched: int) -> list[str]:
    """Return signs that fit lost events, but also a late start."""
    stages = history.stages
    ended = int(((stages.end_event == START) & (stages.start_time_us != NO_TIME)).sum())
    headless = int((stages.start_time_us == NO_TIME).sum())
    signs = []
    if unmatched:
        signs.append(
            f"{plural(unmatched, 'free is', 'frees are')} of memory that was not allocated in the"
            " recording"
        )
    if headless:
        signs.append(f"{plural(headless, 'stage has', 'stages have')} an end but no start")
    if ended:
        signs.append(f"{plural(ended, 'stage')} ended before the first event")
    return signs
