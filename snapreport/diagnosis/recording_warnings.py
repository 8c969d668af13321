"""Warnings that a reader of a recording's figures needs, in plain words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any

import numpy as np

from snapreport.diagnosis.recording_mistakes import (
    baseline_faults,
    end_faults,
    history_faults,
    how_to_record,
    record_again,
    ring_faults,
    stack_faults,
)
from snapreport.figures.curves import Curves, reserved_at, reserved_from
from snapreport.ground.native.columns import median
from snapreport.ground.units import format_bytes, format_count, format_signed_bytes, list_of, plural
from snapreport.model.diagnoses import (
    Closing,
    CurvePeak,
    Figure,
    Finding,
    Loss,
    OomEvent,
    View,
    by_severity,
)
from snapreport.model.history import INTERNAL, START, DeviceHistory, History
from snapreport.model.roles import Roles
from snapreport.model.snapshot import MOVES, NO_TIME
from snapreport.roles.stack_kinds import HAS_FRAMES, find_stack_kind, missing_reason

# Find out whether the oldest events were lost: a recording is a ring of the newest ones.


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


_KNOWN_EVENTS = MOVES | {"oom", "snapshot", "annotate", "user_defined"}
_RECORDING = View(tab="recording")
_REJECTED = "num_oom_rejections"
_UNKNOWN = MappingProxyType(
    {
        "alloc": "no allocation is known",
        "free_requested": "allocated memory may have fallen earlier than shown",
        "free_completed": "active and requested memory may have fallen later than shown",
        "segment_alloc": "reserved memory is not known before the end",
        "segment_free": "reserved memory is not known before the end",
    }
)
"""What cannot be known without a kind of events."""
_MILD = (("free_requested",), ("free_completed",))
"""Left out alone, these change little: the two events of a free mostly come at once."""


def device_warnings(
    history: DeviceHistory,
    tables: History,
    curves: Curves,
    ooms: tuple[OomEvent, ...],
    closing: Closing | None,
    peak: CurvePeak,
    roles: Callable[[], Roles],
) -> tuple[Finding, ...]:
    """Return the warnings about one device, the worst first.

    Args:
        curves: its curves.
        ooms: its failed requests.
        closing: how the events compare with the final state.
        peak: of the allocated curve.
        roles: returns what its allocations are for; called only where that matters.
    """
    reason = missing_reason(history, tables.stacks)
    loss = find_loss(history, tables, reason, reserved_at(curves, START) or 0)
    found = [
        *history_faults(history, tables, reason),
        *_of_oom(ooms),
        *_of_rejected(history, tables),
        *baseline_faults(history, tables, curves, peak, reason, loss, roles),
        *ring_faults(history, loss),
        *stack_faults(history, find_stack_kind(tables), reason),
        *end_faults(history, tables, curves, ooms),
        *_of_allocator(history),
        *_of_sizes(history, peak),
        *_of_skipped(history),
        *_of_events(history),
        *_of_closing(closing),
        *_of_reserved(history, curves),
    ]
    return by_severity(found)


def _of_oom(ooms: tuple[OomEvent, ...]) -> Iterator[Finding]:
    for oom in ooms[:3]:
        yield Finding(
            "oom",
            "critical",
            f"Out of memory at event {format_count(oom.event)}: {format_bytes(oom.size)} asked for",
            f"The device had {format_bytes(oom.device_free)} free, and"
            f" {format_bytes(oom.allocated)} were allocated.",
        )
    if len(ooms) > 3:
        yield Finding(
            "oom",
            "critical",
            f"{format_count(len(ooms) - 3)} more requests failed",
            "The first three are listed one by one.",
        )


def _of_rejected(history: DeviceHistory, tables: History) -> Iterator[Finding]:
    noted = tables.noted(history.device)
    if noted is None:
        return
    count = (noted.stat(_REJECTED) or 0) - (noted.stat(_REJECTED, "before") or 0)
    if count <= 0:
        return
    yield Finding(
        "rejected-requests",
        "warning",
        f"PyTorch refused {plural(count, 'request')} because of throw_on_cudamalloc_oom",
        "With that setting, a request above the limit of the process (per_process_memory_fraction)"
        " fails before the driver is asked and before anything cached is given back. The trace may"
        " have no event of it: this is PyTorch's own count, taken while recording.",
        evidence=(Figure("requests refused", count, "count"),),
        view=_RECORDING,
    )


def _of_allocator(history: DeviceHistory) -> Iterator[Finding]:
    other = history.other_allocator
    if other is None:
        return
    name = other.kind.upper() if other.kind != "cuda" else "another device"
    yield Finding(
        "other-allocator",
        "note" if other.known else "warning",
        f"The memory is not from CUDA's allocator: {other.evidence}",
        "Its blocks are the requests and 32 bytes more, rounded up to 512, as on Ascend's NPUs."
        " Predictions for other settings of PyTorch's allocator are left out."
        if other.known
        else f"How the allocator of {name} rounds is not known, so a block counts as what was asked"
        " for: allocated and active memory were at least as much as shown. Predictions for other"
        " settings of PyTorch's allocator are left out.",
        view=_RECORDING,
    )


def _of_sizes(history: DeviceHistory, peak: CurvePeak) -> Iterator[Finding]:
    rows = history.allocations
    ranged = rows.block_size_max > rows.block_size
    if not ranged.any():
        return
    count, doubt = int(ranged.sum()), int((rows.block_size_max - rows.block_size).sum())
    effect = (
        f"the allocated peak may be up to {format_bytes(peak.width)} higher than shown"
        if peak.width
        else "the allocated peak is still exact"
    )
    yield Finding(
        "inferred-sizes",
        "note",
        f"{format_bytes(doubt)} in doubt: the exact size of {plural(count, 'block')} is not"
        " recorded",
        "For blocks from before the recording that were freed during it, the file has only the"
        f" requested bytes. Their smallest possible size is used; {effect}.",
        evidence=(
            Figure("blocks", count, "count"),
            Figure("allocated peak", peak.bytes, most=peak.bytes + peak.width),
        ),
        view=_RECORDING,
        bytes=peak.width,
    )


def unknown_actions(history: DeviceHistory) -> dict[str, int]:
    """Count the events of unknown kinds, by name."""
    unknown: dict[str, int] = {}
    if set(history.other.action) <= _KNOWN_EVENTS:
        return unknown
    for action in history.other.action:
        if action not in _KNOWN_EVENTS and not action.startswith(INTERNAL):
            unknown[action] = unknown.get(action, 0) + 1
    return unknown


def _of_skipped(history: DeviceHistory) -> Iterator[Finding]:
    if not history.skipped:
        return
    unknown = list_of([_UNKNOWN[each] for each in history.skipped])
    names = list_of(history.skipped)
    if not history.events:
        unknown = "nothing between the first event and the last can be told: only the final state"
    yield Finding(
        "skipped-actions",
        "note" if history.skipped in _MILD else "warning",
        f"The recording left out every {names} event: {unknown}",
        "The other events show it; skip_actions of _record_memory_history() leaves no mark in the"
        " file. Figures that would be guesses are left out.",
        evidence=(Figure("kinds of events left out", len(history.skipped), "count"),),
        suggestions=(record_again("Record every kind of event: leave skip_actions out."),),
        view=_RECORDING,
    )


def _of_events(history: DeviceHistory) -> Iterator[Finding]:
    internal = [name.startswith(f"{INTERNAL}alloc") for name in history.other.action]
    if any(internal):
        sizes = history.other.size[np.array(internal)]
        yield Finding(
            "allocator-internal",
            "note",
            f"{plural(len(sizes), 'allocation')} of the allocator's own, left out of every figure",
            "To hand out memory at an address that was asked for, the allocator takes the memory"
            " before it for an instant; no tensor ever uses that. It took at most"
            f" {format_bytes(int(sizes.max()))}, which PyTorch's own counters include.",
            evidence=(
                Figure("allocations", len(sizes), "count"),
                Figure("largest", int(sizes.max())),
            ),
            view=View(tab="events"),
            bytes=int(sizes.max()),
        )
    unknown = unknown_actions(history)
    if unknown:
        names = ", ".join(
            f"{_quoted(name)} ({format_count(n)})" for name, n in sorted(unknown.items())[:5]
        )
        count = sum(unknown.values())
        yield Finding(
            "unknown-actions",
            "note",
            f"{plural(count, 'event')} of unknown kinds",
            f"They are listed, but count as 0 bytes: {names}. This snapshot may be from a newer"
            " PyTorch.",
            evidence=(Figure("events", count, "count"),),
            view=View(tab="events"),
        )
    if history.anomalies:
        what = "; ".join(
            f"{name}: {format_count(n)}" for name, n in sorted(history.anomalies.items())
        )
        count = sum(history.anomalies.values())
        yield Finding(
            "odd-events",
            "warning",
            f"{plural(count, 'event contradicts', 'events contradict')} the rest of the recording",
            f"They cannot have happened as recorded ({what}). Part of the recording may be missing,"
            " for instance because of skip_actions; figures near those events may be wrong.",
            evidence=tuple(
                Figure(name, n, "count") for name, n in sorted(history.anomalies.items())
            ),
            suggestions=(record_again("Record every kind of event: leave skip_actions out."),),
            view=_RECORDING,
        )
    times = (history.allocations.alloc_time_us, history.other.time_us)
    untimed = all((each == NO_TIME).all() for each in times)
    if history.events > 1 and history.device.on_card and untimed:
        yield Finding(
            "no-times",
            "note",
            f"None of the {format_count(history.events)} events has a time",
            "PyTorch 2.1 and older record no times, so the page counts in events, and stages cannot"
            " be placed.",
            view=_RECORDING,
        )


def _of_closing(closing: Closing | None) -> Iterator[Finding]:
    if closing is None or closing.closes:
        return
    differences = (
        ("requested", closing.requested),
        ("allocated", closing.allocated),
        ("active", closing.active),
    )
    parts = [f"{name} by {format_signed_bytes(by)}" for name, by in differences if by]
    worst = max((by for _, by in differences), key=abs)
    yield Finding(
        "does-not-close",
        "warning",
        f"The events miss the final state by {format_bytes(abs(worst))}",
        f"The events do not add up to the final state: {', '.join(parts)}. Events are missing from"
        " the recording, or the state changed while it was written.",
        evidence=tuple(Figure(f"{name}: events minus final state", by) for name, by in differences),
        view=_RECORDING,
        bytes=abs(worst),
    )


def _of_reserved(history: DeviceHistory, curves: Curves) -> Iterator[Finding]:
    if "reserved" not in curves:
        if history.events and not history.skipped:
            yield Finding(
                "no-allocator",
                "note",
                "Made from a profile: 0 blocks, only tensor sizes",
                "This snapshot was made from a profile. It has tensor sizes, but no blocks, so"
                " reserved memory, slack and fragmentation are not known.",
            )
        return
    missing = int((curves["active"] - curves["reserved"]).max())
    missing = max(missing, -int(curves["reserved"].min()))
    if missing > 0:
        yield Finding(
            "reserved-too-low",
            "warning",
            f"Segment events are missing: at least {format_bytes(missing)} of reserved memory",
            "At some events more is active than reserved, which is impossible: segment events are"
            " missing from the recording. How much was reserved is not known"
            f"{_until(history, curves)}.",
            evidence=(Figure("active above reserved, at most", missing),),
            suggestions=(record_again("Record every kind of event: leave skip_actions out."),),
            view=View(tab="allocator", curve="reserved"),
            bytes=missing,
        )


def _until(history: DeviceHistory, curves: Curves) -> str:
    known = reserved_from(curves) or 0
    return "" if known >= history.events else f" before event {format_count(known)}"


def file_warnings(history: History) -> tuple[Finding, ...]:
    """Return the warnings about the file as a whole."""
    found = []
    if not any(device.events or len(device.segments) for device in history.devices):
        found.append(
            Finding(
                "nothing-allocated",
                "note",
                "Nothing was allocated: 0 segments and 0 events in the file",
                "The snapshot is empty: nothing was allocated when it was written, and no history"
                " was recorded.",
                suggestions=(how_to_record(history),),
            )
        )
    if history.oddities:
        names = ", ".join(
            f"{name} ({format_count(n)})" for name, n in sorted(history.oddities.items())[:8]
        )
        found.append(
            Finding(
                "unknown-keys",
                "note",
                f"{plural(sum(history.oddities.values()), 'part')} of the file not read",
                f"This version does not know them, and they count nowhere: {names}.",
            )
        )
    return tuple(found)


def _quoted(name: str) -> str:
    return f"'{name[:40]}'"
