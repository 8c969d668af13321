"""Warnings that a reader of a recording's figures needs, in plain words.

A bundle's manifest has them. They take a few milliseconds, all findings several times that, so they
can be computed alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import numpy as np

from snapreport.diagnosis.recording_mistakes import (
    baseline_faults,
    end_faults,
    find_loss,
    history_faults,
    how_to_record,
    record_again,
    ring_faults,
    stack_faults,
)
from snapreport.figures.curves import find_curves, find_peak, time_at
from snapreport.ground.units import format_bytes, format_count, format_signed_bytes, list_of, plural
from snapreport.history.segments import actions_of, code_actions
from snapreport.model.diagnoses import (
    Closing,
    CurvePeak,
    Figure,
    Finding,
    OomEvent,
    View,
    by_severity,
)
from snapreport.model.findings import Curves
from snapreport.model.history import INTERNAL, START, DeviceHistory, History
from snapreport.model.roles import Roles
from snapreport.model.snapshot import ACTIVE, INACTIVE, MOVES, NO_TIME
from snapreport.roles.lifetimes import find_roles
from snapreport.roles.stack_kinds import find_stack_kind, missing_reason


def find_warnings(history: History) -> list[Finding]:
    """Return every warning of ``find()``, those about the file before those about a device.

    If several devices have events, a warning about one begins with its name.
    """
    found = list(file_warnings(history))
    several = sum(1 for device in history.devices if device.events) > 1
    for device in history.devices:
        curves = find_curves(device, history.layout != "profiler")
        timeless = np.empty(0, np.int64)  # no warning says when
        peak = find_peak(device, "allocated", curves["allocated"], timeless)
        closing = find_closing(device, curves, history.layout != "no-segments")
        ooms = find_ooms(device, curves)
        roles = partial(find_roles, device, history)
        for warning in device_warnings(device, history, curves, ooms, closing, peak, roles):
            if warning.code == "nothing-allocated" and len(history.devices) > 1:
                continue
            title = f"{device.device}: {warning.title}" if several else warning.title
            found.append(replace(warning, title=title))
    return [*by_severity(found)]


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
    forecast = tables.forecast is not None
    reason = missing_reason(history, tables.stacks)
    loss = find_loss(history, tables, reason, curves.reserved_at(START) or 0)
    found = [
        *history_faults(history, tables, reason),
        *_of_oom(ooms),
        *_of_rejected(history, tables),
        *baseline_faults(history, tables, curves, peak, reason, loss, roles),
        *ring_faults(history, loss),
        *(stack_faults(history, find_stack_kind(tables), reason) if not forecast else ()),
        *end_faults(history, tables, curves, ooms),
        *_of_allocator(history),
        *_of_sizes(history, peak),
        *_of_skipped(history),
        *_of_events(history, timeless=forecast),
        *_of_closing(closing),
        *_of_reserved(history, curves),
    ]
    return by_severity(found)


def find_ooms(history: DeviceHistory, curves: Curves) -> tuple[OomEvent, ...]:
    """Return the requests that failed, in order."""
    other = history.other
    return tuple(
        OomEvent(
            event=(event := int(other.event[i])),
            time_us=time_at(other.time_us, i),
            size=int(other.size[i]),
            device_free=int(other.addr[i]),
            allocated=int(curves["allocated"][event + 1]),
            reserved=curves.reserved_at(event),
            stack=int(other.stack[i]),
        )
        for i in np.flatnonzero(code_actions(other, {"oom": 1}, 0)).tolist()
    )


_RECORDING = View(tab="recording")


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


_REJECTED = "num_oom_rejections"


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


_UNKNOWN = MappingProxyType(
    {
        "alloc": "no allocation is known",
        "free_requested": "allocated memory may have fallen earlier than shown",
        "free_completed": "active and requested memory may have fallen later than shown",
        "segment_alloc": "reserved memory is not known before the end",
        "segment_free": "reserved memory is not known before the end",
    }
)
"""What is not known where a recording has no events of a kind."""
_MILD = (("free_requested",), ("free_completed",))
"""Left out alone, these change little: the two events of a free mostly come at once."""


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


_KNOWN_EVENTS = MOVES | {"oom", "snapshot", "annotate", "user_defined"}


def unknown_actions(history: DeviceHistory) -> dict[str, int]:
    """Count the events of unknown kinds, by name."""
    unknown: dict[str, int] = {}
    if set(actions_of(history.other)) <= _KNOWN_EVENTS:
        return unknown
    for action in history.other.action:
        if action not in _KNOWN_EVENTS and not action.startswith(INTERNAL):
            unknown[action] = unknown.get(action, 0) + 1
    return unknown


def _of_events(history: DeviceHistory, *, timeless: bool) -> Iterator[Finding]:
    own = {each for each in actions_of(history.other) if each.startswith(f"{INTERNAL}alloc")}
    if own:
        internal = code_actions(history.other, dict.fromkeys(own, 1), 0)
        sizes = history.other.size[internal == 1]
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
    if history.events > 1 and history.device.on_card and untimed and not timeless:
        yield Finding(
            "no-times",
            "note",
            f"None of the {format_count(history.events)} events has a time",
            "PyTorch 2.1 and older record no times, so the page counts in events, and stages cannot"
            " be placed.",
            view=_RECORDING,
        )


def _quoted(name: str) -> str:
    return f"'{name[:40]}'"


def find_closing(history: DeviceHistory, curves: Curves, stated: bool = True) -> Closing | None:
    """Compare the end of the curves with the final segments; no segments count as 0 bytes.

    Args:
        curves: the device's.
        stated: whether the file has a final state.

    Returns:
        The differences; None without a final state, or if the device did nothing.
    """
    segments = history.segments
    if not stated or not (len(segments) or history.events):
        return None
    in_use = segments.block_state != INACTIVE
    held = segments.block_state == ACTIVE
    return Closing(
        requested=int(curves["requested"][-1]) - int(segments.block_requested[in_use].sum()),
        allocated=int(curves["allocated"][-1]) - int(segments.block_size[held].sum()),
        active=int(curves["active"][-1]) - int(segments.block_size[in_use].sum()),
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
    known = curves.reserved_from or 0
    if known != START:
        missing = int((curves["active"] - curves["reserved"]).max())
        missing = max(missing, -int(curves["reserved"].min()))
        until = "" if known >= history.events else f" before event {format_count(known)}"
        yield Finding(
            "reserved-too-low",
            "warning",
            f"Segment events are missing: at least {format_bytes(missing)} of reserved memory",
            "At some events more is active than reserved, which is impossible: segment events are"
            " missing from the recording. How much was reserved is not known"
            f"{until}.",
            evidence=(Figure("active above reserved, at most", missing),),
            suggestions=(record_again("Record every kind of event: leave skip_actions out."),),
            view=View(tab="allocator", curve="reserved"),
            bytes=missing,
        )
