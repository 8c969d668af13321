"""The four curves of one device (bytes after every event), and what they say of a single event."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.native.columns import Outline, sum_groups, sum_live, unique
from snapreport.history.segments import lives_of, reserved_changes, segments_at
from snapreport.model.answers import GroupCurve, Profile
from snapreport.model.diagnoses import CurvePeak, ReservedParts
from snapreport.model.findings import Amounts, Curves
from snapreport.model.history import START, Allocations, DeviceHistory
from snapreport.model.replays import SegmentLives
from snapreport.model.snapshot import NO_TIME
from snapreport.roles.steps import allocated_curve

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

    def added_up(name: str) -> NDArray[np.int64]:
        return sum_live(rows.weights(name), rows.alloc_event, rows.ends(name), history.events)

    curves = Curves(
        requested=added_up("requested"),
        allocated=allocated_curve(history),
        active=added_up("active"),
    )
    if reserves:
        events, values = reserved_changes(history)
        curve = np.repeat(values, np.diff(np.append(events, history.events)))
        if SEGMENT_ACTIONS & set(history.skipped):
            curve[:-1] = _NOT_KNOWN
        curves["reserved"] = curve
    return curves


def find_peaks(
    history: DeviceHistory, curves: Curves, times: NDArray[np.int64]
) -> dict[str, CurvePeak]:
    """Return the peak of every known curve, at the first event that attains it, by name.

    Where block sizes are ranges, the upper bound of a curve is added up at every event: its peak
    may be at another event than that of the lower bound.
    """
    return {name: find_peak(history, name, curve, times) for name, curve in curves.known().items()}


def find_peak(
    history: DeviceHistory, name: str, curve: NDArray[np.int64], times: NDArray[np.int64]
) -> CurvePeak:
    """Return the peak of one curve, as ``find_peaks()`` does of all."""
    rows = history.allocations
    event = int(curve.argmax()) - 1
    peak = most = int(curve[event + 1])
    if name in ("allocated", "active"):
        wide = np.flatnonzero(rows.block_size_max > rows.block_size)
        if len(wide):
            less = rows.block_size[wide] - rows.block_size_max[wide]
            span = rows.alloc_event[wide], rows.ends(name)[wide]
            most, _ = Outline(curve).peak_without((less, *span))
    return CurvePeak(peak, event, time_at(times, event), most - peak, _bound(history, name))


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


def find_reserved_parts(history: DeviceHistory, reserved: int, event: int) -> ReservedParts:
    """Return the parts after an event, each counted by itself.

    Where all is well they add up to ``reserved``.

    Args:
        history: the device.
        reserved: bytes reserved after that event, as the curve has it.
        event: -1 for the start.
    """
    rows = history.allocations
    held, active = rows.live_at(event), rows.live_at(event, "active")
    requested = int(rows.size[held].sum())
    size, used = fill_segments(history, event)
    return ReservedParts(
        event=event,
        requested=requested,
        slack=int(rows.block_size[held].sum()) - requested,
        awaiting_free=int(rows.block_size[active & ~held].sum()),
        fragmented=int((size - used)[used > 0].sum()),
        returnable=int(size[used == 0].sum()),
        reserved=reserved,
    )


def fill_segments(
    history: DeviceHistory, event: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the bytes of each segment after an event, and of the live blocks in it; shape (n,)."""
    lives, rows = lives_of(history), history.allocations
    there, live, segment = place_blocks(lives, rows, event)
    return lives.size[there], sum_groups(segment, rows.block_size[live], len(there))


def place_blocks(
    lives: SegmentLives, rows: Allocations, event: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the segments after an event, the active blocks in them, and which each block is in.

    Returns:
        rows of ``lives``, by address; rows of the allocations, leaving out blocks outside of every
        segment; and for each of these the place of its segment among the former.
    """
    there = segments_at(lives, event)
    live = np.flatnonzero(rows.live_at(event, "active"))
    segment = np.searchsorted(lives.address[there], rows.addr[live], side="right") - 1
    ends = np.append((lives.address + lives.size)[there], 0)  # -1 is the last, which holds nothing
    inside = rows.addr[live] < ends[segment]
    return there, live[inside], segment[inside].astype(np.int64)


def find_amounts(
    history: DeviceHistory,
    curves: Curves,
    times: NDArray[np.int64],
    event: int,
) -> Amounts:
    """Return every amount of one device after an event.

    Args:
        history: the device.
        curves: its curves.
        times: int64, shape (n_events,), as from ``event_times``.
        event: -1 for the start.
    """
    rows = history.allocations
    live = rows.live_at(event)
    active = int(curves["active"][event + 1])
    reserved = curves.reserved_at(event)
    width = int((rows.block_size_max[live] - rows.block_size[live]).sum())
    return Amounts(
        event=event,
        time_us=time_at(times, event),
        requested=int(curves["requested"][event + 1]),
        allocated=int(curves["allocated"][event + 1]),
        active=active,
        reserved=reserved,
        slack=active - int(curves["requested"][event + 1]),
        inactive=None if reserved is None else reserved - active,
        fragmentation=None if reserved is None else find_fragmentation(history, event),
        live=int(live.sum()),
        allocated_width=width,
    )


def find_fragmentation(history: DeviceHistory, event: int) -> int:
    """Return the inactive bytes in segments that hold a live block, after an event.

    ``empty_cache()`` can give back only segments without a live block, and whole free pages of
    expandable ones.
    """
    size, used = fill_segments(history, event)
    return int((size - used)[used > 0].sum())


def find_profile(
    history: DeviceHistory,
    number: NDArray[np.int64],
    names: list[str],
    rules: list[str],
    curve: str = "allocated",
    points: int = 0,
) -> Profile:
    """Add up each group's live bytes after some events; together the groups are the total.

    Args:
        history: the device.
        number: int64, shape (n_allocations,): each allocation's group.
        names: of the groups.
        rules: the rule of each group.
        curve: ``allocated``, ``requested`` or ``active``.
        points: about how many events to return. Each stands for a run of events, and is the one
            with the highest total, so that no maximum is lost. 0 for every event.

    Returns:
        Groups with the highest peak first; those that hold nothing in this curve are left out.
    """
    rows = history.allocations
    weight, end = rows.weights(curve), rows.ends(curve)
    whole = sum_live(weight, rows.alloc_event, end, history.events)
    events = _pick(whole, points)
    top = int(whole.argmax())
    groups = []
    for k, name in enumerate(names):
        of = number == k
        series = sum_live(weight[of], rows.alloc_event[of], end[of], history.events)
        peak = int(series.argmax())
        if not series[peak]:
            continue
        groups.append(
            GroupCurve(
                name=name,
                rule=rules[k],
                peak_bytes=int(series[peak]),
                peak_event=peak - 1,
                at_peak=int(series[top]),
                count=int(of.sum()),
                bytes=series[events + 1],
            )
        )
    groups.sort(key=lambda group: (-group.at_peak, -group.peak_bytes, group.name))
    return Profile(curve, top - 1, int(whole[top]), events, whole[events + 1], tuple(groups))


def _pick(whole: NDArray[np.int64], points: int) -> NDArray[np.int64]:
    """The events to show; the first and the last are among them."""
    count = len(whole)
    if points <= 0 or count <= points:
        return np.arange(-1, count - 1, dtype=np.int64)
    edges = np.linspace(0, count, points + 1).astype(np.int64)
    picked = [
        int(low + whole[low:high].argmax())
        for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        if high > low
    ]
    return unique(np.array([0, *picked, count - 1], np.int64)) - 1
