"""What the reader of a recording's figures has to know, in plain words."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from snapreport.analyse.curves import Curves
from snapreport.analyse.missing_stacks import NOT_RECORDED, missing_reason
from snapreport.model.diagnosis import Finding
from snapreport.model.history import START, DeviceHistory, History
from snapreport.model.recording import Closing, CurvePeak, OomEvent
from snapreport.model.snapshot import NO_TIME
from snapreport.units import format_bytes, format_count, format_signed_bytes

HOW_TO_RECORD = (
    "Call torch.cuda.memory._record_memory_history() before the model is built, and"
    " torch.cuda.memory._dump_snapshot('snap.pickle') after the work or in the except block of an"
    " out-of-memory error."
)
_KNOWN_EVENTS = frozenset(
    [
        "segment_alloc",
        "segment_free",
        "segment_map",
        "segment_unmap",
        "oom",
        "snapshot",
        "annotate",
        "user_defined",
        "alloc",
        "free_requested",
        "free_completed",
    ]
)
# From here on, what was there before recording is a visible part of the answer.
_LATE = 0.2
_MISSING = 0.05


def recorded(history: DeviceHistory) -> bool:
    """Say whether there is a history: ``enabled="state"`` leaves a ring of one event."""
    return history.events > 1


def device_warnings(
    history: DeviceHistory,
    tables: History,
    curves: Curves,
    ooms: tuple[OomEvent, ...],
    closing: Closing | None,
    peak: CurvePeak,
) -> tuple[Finding, ...]:
    """Return the warnings about one device.

    Args:
        history: the device.
        tables: the file that it is from.
        curves: its curves.
        ooms: its failed requests.
        closing: the closing law's outcome.
        peak: the allocated one.
    """
    found = [
        *_of_history(history),
        *_of_oom(ooms),
        *_of_baseline(history, curves, peak.step),
        *_of_stacks(history, tables),
        *_of_sizes(history, peak),
        *_of_events(history),
        *_of_closing(closing),
        *_of_reserved(history, curves),
    ]
    return tuple(found)


def _of_history(history: DeviceHistory) -> Iterator[Finding]:
    if not len(history.segments) and not history.events:
        yield Finding(
            "nothing-allocated",
            "note",
            "Nothing was allocated",
            "Nothing was allocated on this device.",
        )
    elif history.events == 0:
        yield Finding(
            "no-history",
            "warning",
            "No history was recorded",
            "No history was recorded: the file shows what was live when it was written, not how it"
            f" came to that, so the peak is not known. {HOW_TO_RECORD}",
        )
    elif not recorded(history):
        yield Finding(
            "no-history",
            "warning",
            "No history was recorded",
            "History was not really recorded: there is one event beside"
            f" {format_count(len(history.allocations))} allocations, as with enabled='state' or"
            " when recording is switched on at the very end. The file shows what was live when it"
            f" was written; the peak is not known. {HOW_TO_RECORD}",
        )


def _of_oom(ooms: tuple[OomEvent, ...]) -> Iterator[Finding]:
    for oom in ooms[:3]:
        yield Finding(
            "oom",
            "critical",
            "Out of memory",
            f"Out of memory at step {format_count(oom.step)}: {format_bytes(oom.size)} were asked"
            f" for, the device had {format_bytes(oom.device_free)} free, and"
            f" {format_bytes(oom.allocated)} were allocated.",
        )
    if len(ooms) > 3:
        yield Finding("oom", "critical", "Out of memory", f"{len(ooms) - 3} more requests failed.")


def _of_baseline(history: DeviceHistory, curves: Curves, step: int) -> Iterator[Finding]:
    if not recorded(history):
        return
    start, peak = int(curves.allocated[0]), int(curves.allocated[step + 1])
    if peak and start > _LATE * peak:
        yield Finding(
            "started-late",
            "warning",
            "Recording started late",
            f"Recording started late: {format_bytes(start)} were already allocated, "
            f"{start / peak:.0%} of the peak. What made them is known only where their stacks were"
            " recorded. Start recording before the model is built.",
        )
    rows = history.allocations
    unmatched = int(((rows.alloc_step == START) & (rows.free_step < history.events)).sum())
    if unmatched:
        yield Finding(
            "unmatched-frees",
            "note",
            "Memory from before the recording was freed in it",
            f"Frees without an alloc in the recording: {format_count(unmatched)}. Their memory is"
            " counted as live from the start; it was allocated before recording began, or its"
            " events were overwritten (a larger max_entries keeps more).",
        )


def _of_stacks(history: DeviceHistory, tables: History) -> Iterator[Finding]:
    reason = missing_reason(history, tables.stacks)
    weight = history.allocations.block_size
    total, missing = int(weight.sum()), int(weight[reason == NOT_RECORDED].sum())
    if total and missing > _MISSING * total:
        yield Finding(
            "missing-stacks",
            "warning",
            "Call stacks are missing",
            f"No call stacks were recorded for {missing / total:.0%} of all bytes ever"
            " allocated."
            " Record with context='all' and stacks='all' to see who allocates.",
        )


def _of_sizes(history: DeviceHistory, peak: CurvePeak) -> Iterator[Finding]:
    rows = history.allocations
    ranged = int((rows.block_size_max > rows.block_size).sum())
    if ranged:
        effect = f"may be up to {format_bytes(peak.width)} higher" if peak.width else "is exact"
        yield Finding(
            "inferred-sizes",
            "note",
            "Some block sizes are known only within a range",
            "Blocks from before the recording whose size is known only within a range:"
            f" {format_count(ranged)}. The lower bound is shown; the allocated peak {effect}.",
        )


def _of_events(history: DeviceHistory) -> Iterator[Finding]:
    unknown: dict[str, int] = {}
    for action in history.other.action:
        if action not in _KNOWN_EVENTS:
            unknown[action] = unknown.get(action, 0) + 1
    if unknown:
        names = ", ".join(
            f"{_quoted(name)} ({format_count(n)})" for name, n in sorted(unknown.items())[:5]
        )
        yield Finding(
            "unknown-actions",
            "note",
            "Events of unknown kinds",
            f"Events of unknown kinds were kept and count as no bytes: {names}. This snapshot may"
            " be from a newer PyTorch.",
        )
    if history.anomalies:
        what = "; ".join(
            f"{name}: {format_count(n)}" for name, n in sorted(history.anomalies.items())
        )
        yield Finding(
            "odd-events",
            "warning",
            "Some events do not fit together",
            f"Some events do not fit together ({what}). Part of the recording may be missing, for"
            " instance through skip_actions; figures near those events may be off.",
        )
    times = np.concatenate([history.allocations.alloc_time_us, history.other.time_us])
    if recorded(history) and history.device.kind == "cuda" and (times == NO_TIME).all():
        yield Finding(
            "no-times",
            "note",
            "The events carry no times",
            "The events carry no times (PyTorch 2.1 or older), so steps alone are shown.",
        )


def _of_closing(closing: Closing | None) -> Iterator[Finding]:
    if closing is None or closing.closes:
        return
    parts = [
        f"{name} by {format_signed_bytes(difference)}"
        for name, difference in (
            ("requested", closing.requested),
            ("allocated", closing.allocated),
            ("active", closing.active),
        )
        if difference
    ]
    yield Finding(
        "does-not-close",
        "warning",
        "The events do not add up to the final state",
        f"The events do not add up to the final state: {', '.join(parts)}. Events are missing from"
        " the recording, or the state changed while it was written.",
    )


def _of_reserved(history: DeviceHistory, curves: Curves) -> Iterator[Finding]:
    if curves.reserved is None:
        if history.events:
            yield Finding(
                "no-allocator",
                "note",
                "Made from a profile: tensor sizes, no blocks",
                "This snapshot was derived from a profile: it has tensor sizes, not blocks, so"
                " reserved memory, slack and fragmentation are not known.",
            )
    elif int(curves.reserved.min()) < 0 or bool((curves.reserved < curves.active).any()):
        yield Finding(
            "reserved-too-low",
            "warning",
            "Segment events are missing",
            "At some steps more is active than reserved: segment events are missing from the"
            " recording, so the reserved curve is too low there.",
        )


def file_warnings(history: History) -> tuple[Finding, ...]:
    """Return the warnings about the file as a whole."""
    found = []
    if not any(device.events or len(device.segments) for device in history.devices):
        found.append(
            Finding(
                "nothing-allocated",
                "note",
                "Nothing was allocated",
                "The snapshot is empty: nothing was allocated when it was written, and no history"
                f" was recorded. {HOW_TO_RECORD}",
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
                "Parts of the file were left out",
                f"Parts of the file that this version does not know were left out: {names}.",
            )
        )
    overflowed = history.settings.get("trace_alloc_overflowed")
    # One flag, or one for each device.
    if any(overflowed) if isinstance(overflowed, list) else overflowed:
        found.append(
            Finding(
                "ring-overflowed",
                "warning",
                "The oldest events were lost",
                "The recording's ring overflowed: the oldest events are lost. Record with a larger"
                " max_entries to keep them.",
            )
        )
    return tuple(found)


def _quoted(name: str) -> str:
    return f"'{name[:40]}'"
