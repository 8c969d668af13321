"""The four curves of one device: bytes after every event, the start included."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from snapreport.history.segment_replay import reserved_changes
from snapreport.model.history import START, DeviceHistory
from snapreport.model.recording_facts import CurvePeak
from snapreport.model.snapshot import NO_TIME
from snapreport.native.sweeps import sum_live

Curves = dict[str, "NDArray[np.int64]"]
"""Bytes after each event, by name; (n_events + 1,), index 0 is the start. ``reserved`` is missing
where no allocator reserves memory (profiler files); figures of it begin at ``reserved_from()``,
which is the end where events of segments are left out."""
SEGMENT_ACTIONS = frozenset(("segment_alloc", "segment_free"))
_NOT_KNOWN = -1
_BOUNDS = {"allocated": ("free_requested", "most")} | dict.fromkeys(
    ("requested", "active"), ("free_completed", "least")
)
"""What is known of a curve's peak where the events at which it falls are left out."""


def find_curves(history: DeviceHistory, reserves: bool = True) -> Curves:
    """Add up one device's curves.

    Args:
        history: the device.
        reserves: whether its segments are memory that an allocator holds.
    """
    rows = history.allocations
    curves = {
        name: sum_live(rows.weights(name), rows.alloc_event, rows.ends(name), history.events)
        for name in ("requested", "allocated", "active")
    }
    if reserves:
        events, values = reserved_changes(history)
        curve = np.repeat(values, np.diff(np.append(events, history.events)))
        if SEGMENT_ACTIONS & set(history.skipped):
            curve[:-1] = _NOT_KNOWN
        curves["reserved"] = curve
    return curves


def reserved_from(curves: Curves) -> int | None:
    """Return the first event from which reserved memory is known; None without an allocator.

    Reserved memory is replayed backwards from the final state. Where less is reserved than active,
    which is impossible, segment events are missing after that event, and the curve is wrong at all
    events before them.
    """
    if "reserved" not in curves:
        return None
    wrong = np.flatnonzero(curves["reserved"] < curves["active"])
    return int(wrong[-1]) if len(wrong) else START


def reserved_at(curves: Curves, event: int) -> int | None:
    """Return the reserved bytes after an event; None where they are not known."""
    known = reserved_from(curves)
    return int(curves["reserved"][event + 1]) if known is not None and event >= known else None


def known_curves(curves: Curves) -> Curves:
    """Return the curves that are known at every event: others have no peak and no average."""
    whole = reserved_from(curves) == START
    return {name: curve for name, curve in curves.items() if whole or name != "reserved"}


def peak_without(
    curve: NDArray[np.int64],
    weight: NDArray[np.int64],
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
) -> tuple[int, int]:
    """Return the peak of a curve minus some weights, and the first event that has it.

    Args:
        curve: int64, shape (n_events + 1,), index 0 is the start.
        weight, begin, end: int64, shape (n,): bytes taken away while ``begin <= event < end``.
    """
    rest = sum_live(weight, begin, end, len(curve) - 1)
    np.subtract(curve, rest, out=rest)
    place = int(rest.argmax())
    return int(rest[place]), place - 1


def find_peaks(
    history: DeviceHistory, curves: Curves, times: NDArray[np.int64]
) -> dict[str, CurvePeak]:
    """Return the peak of every known curve, at the first event that attains it, by name.

    Where block sizes are ranges, the upper bound of a curve is added up at every event: its peak
    may be at another event than that of the lower bound.
    """
    rows = history.allocations
    most = {}
    wide = np.flatnonzero(rows.block_size_max > rows.block_size)
    if len(wide):
        less = rows.block_size[wide] - rows.block_size_max[wide]
        for name in ("allocated", "active"):
            span = rows.alloc_event[wide], rows.ends(name)[wide]
            most[name] = peak_without(curves[name], less, *span)[0]
    peaks = {}
    for name, curve in known_curves(curves).items():
        event = int(curve.argmax()) - 1
        peak = int(curve[event + 1])
        width = most.get(name, peak) - peak
        peaks[name] = CurvePeak(peak, event, time_at(times, event), width, _bound(history, name))
    return peaks


def _bound(history: DeviceHistory, name: str) -> str:
    """Return whether a curve's peak is the ``least`` or ``most`` it can be, ``""`` if neither."""
    if name in ("allocated", "active") and not history.blocks_known:
        return "least"
    action, bound = _BOUNDS.get(name, ("", ""))
    return bound if action in history.skipped else ""


def event_times(history: DeviceHistory) -> NDArray[np.int64]:
    """Return each event's time; int64 microseconds, shape (n_events,), NO_TIME where unknown."""
    # Two places more than events: NEVER writes to the first of them, START (-1) to the last.
    times = np.full(history.events + 2, NO_TIME, np.int64)
    rows = history.allocations
    times[rows.alloc_event] = rows.alloc_time_us
    times[rows.free_requested_event] = rows.free_requested_time_us
    times[rows.free_event] = rows.free_time_us
    times[history.other.event] = history.other.time_us
    return times[: history.events]


def time_at(times: NDArray[np.int64], event: int) -> int | None:
    """Return the time of an event, None for the start and where the file has no times."""
    if event == START or not len(times) or times[event] == NO_TIME:
        return None
    return int(times[event])
