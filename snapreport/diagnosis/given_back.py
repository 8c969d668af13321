"""Segments given back to the driver: for a retry, before a capture, or only to be fetched again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.finding_tables import top_table
from snapreport.diagnosis.oom.settings import EXPANDABLE, WORTH, expandable_may_help
from snapreport.figures.callsites import name_stacks
from snapreport.figures.segments import (
    allocator_of,
)
from snapreport.ground.later import expression
from snapreport.ground.native.columns import distinct, is_among, unique
from snapreport.ground.records import dataclass
from snapreport.ground.units import format_bytes, plural, times
from snapreport.history.segments import code_actions
from snapreport.model.diagnoses import Figure, Finding, Frees, Suggestion, Table, View
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import History
from snapreport.model.snapshot import NO_STACK

_CYCLES = 3
"""Segments given back and fetched again this often are thrash. Once or twice is a program that
cleans up between its parts."""
_COMES_BACK = 0.25
"""A burst counts if at least this part of it was fetched again before the next."""


def find_given_back(tables: History, device: DeviceFigures) -> Iterator[Finding]:
    """Yield the findings about segments that a device's allocator gave back."""
    bursts = find_bursts(tables, device)
    yield from _retries(tables, device, [each for each in bursts if each.kind == "retry"])
    yield from _thrash(
        tables, device, [each for each in bursts if each.kind in ("emptied", "other")]
    )


def _retries(tables: History, device: DeviceFigures, bursts: Sequence[Burst]) -> Iterator[Finding]:
    if not bursts:
        return
    given = sum(burst.bytes for burst in bursts)
    curve = allocator_of(device).fragmentation
    # Memory that was free, but could not be given back when the allocator was short of it.
    pieces = max(int(curve[burst.last_event + 1]) for burst in bursts)
    suggestions: tuple[Suggestion, ...] = ()
    if pieces >= WORTH and expandable_may_help(tables, device):
        suggestions = (
            Suggestion(
                "allocator-setting",
                "Switch on expandable segments: what is free in them can be given back even while"
                f" other parts are in use. Up to {format_bytes(pieces)} were free in segments"
                " partly in use when this happened.",
                EXPANDABLE,
            ),
        )
    yield Finding(
        "allocator-retries",
        "warning",
        f"The device was full: unused memory had to be given back {times(len(bursts))} to"
        f" serve {'a request' if len(bursts) == 1 else 'requests'}",
        "The driver had no memory left for a request. So the allocator gave back the segments that"
        " nothing used, and asked again. That worked, but it is slow, as it waits for the GPU. The"
        " recording does not mark such retries; they show in the order and the call stacks of its"
        " events.",
        evidence=(
            Figure("retries", len(bursts), "count"),
            Figure("segments given back", sum(burst.count for burst in bursts), "count"),
            Figure("bytes given back", given),
            Figure("first at event", bursts[0].first_event, "event"),
            Figure("last at event", bursts[-1].last_event, "event"),
        ),
        tables=(_burst_table(tables, bursts, "Which requests this was for"),),
        suggestions=suggestions,
        view=View("events", event=bursts[0].last_event),
        bytes=max(burst.bytes for burst in bursts),
    )


def _thrash(tables: History, device: DeviceFigures, bursts: Sequence[Burst]) -> Iterator[Finding]:
    back = [burst for burst in bursts if burst.got_again >= max(_COMES_BACK * burst.bytes, 1)]
    if len(back) < _CYCLES:
        return
    again = sum(burst.got_again for burst in back)
    most = max(burst.got_again for burst in back)
    emptied = sum(burst.kind == "emptied" for burst in back)
    suggestions: tuple[Suggestion, ...] = ()
    if emptied:
        suggestions = (
            Suggestion(
                "keep-cache",
                "Leave out torch.cuda.empty_cache() in the loop: PyTorch had to fetch"
                f" {format_bytes(again)} again afterwards. A call waits for the GPU, and"
                f" {plural(sum(burst.count for burst in back), 'segment was', 'segments were')}"
                " given back in all. Without these calls the program is faster, but needs no less"
                " memory.",
                frees=Frees.exactly(0),
            ),
        )
    peak = device.peaks.get("reserved")
    large = peak is not None and most >= _COMES_BACK * peak.bytes
    yield Finding(
        "segment-thrash",
        "warning" if large else "note",
        f"PyTorch gave memory back to the driver {times(len(back))}, only to fetch"
        f" {format_bytes(again)} of it again",
        "Getting memory from the driver and giving it back is slow. PyTorch keeps unused memory to"
        " avoid just that."
        + (
            f" The program called torch.cuda.empty_cache() {times(emptied)}."
            if emptied
            else " The recording does not show what made it give memory back."
        ),
        evidence=(
            Figure("times given back and fetched again", len(back), "count"),
            Figure("bytes fetched again", again),
            Figure("most at once", most),
            Figure("segments given back", sum(burst.count for burst in back), "count"),
            Figure("by empty_cache()", emptied, "count"),
            Figure("first at event", back[0].first_event, "event"),
        ),
        tables=(_burst_table(tables, back, "Who gave memory back"),),
        suggestions=suggestions,
        view=View("events", event=back[0].last_event),
        bytes=most,
    )


def _burst_table(tables: History, bursts: Sequence[Burst], title: str) -> Table:
    """Add bursts up by their call site."""
    held: dict[str, list[int]] = {}
    names = name_stacks(tables.stacks, [burst.stack for burst in bursts])
    for burst, name in zip(bursts, names, strict=True):
        sums = held.setdefault(name, [0, 0, 0])
        sums[0] += burst.bytes
        sums[1] += burst.count
        sums[2] += 1
    order = sorted(held, key=lambda name: -held[name][0])
    return top_table(
        title,
        {"call site": "text", "given back": "bytes", "segments": "count", "times": "count"},
        [(name, *held[name]) for name in order],
    )


# The bursts, and why.


_GIVEN, _GOT, _FAILED = range(3)
_KIND = {
    "segment_free": _GIVEN,
    "segment_unmap": _GIVEN,
    "segment_alloc": _GOT,
    "segment_map": _GOT,
    "oom": _FAILED,
}
_EMPTY_CACHE = expression(r"empty_?cache", re.IGNORECASE)
_CAPTURE = expression(r"torch[/\\]cuda[/\\]graphs\.py$")
BurstKind = Literal["retry", "failed", "captured", "emptied", "other"]
"""Why: to serve a request, which then succeeded (``retry``) or still failed (``failed``); because
``torch.cuda.graph()`` empties the cache before it captures (``captured``); because of another
``empty_cache()`` (``emptied``); or for a reason the recording does not show (``other``)."""


@dataclass(frozen=True)
class Burst:
    """Segments given back to the driver in consecutive events."""

    kind: BurstKind
    first_event: int
    last_event: int
    count: int
    bytes: int
    stack: int
    """Of the first event; a stack id or NO_STACK."""
    got_again: int
    """Bytes got from the driver between this burst and the next, but at most ``bytes``."""


def find_bursts(tables: History, device: DeviceFigures) -> tuple[Burst, ...]:
    """Return the bursts of segments given back, in order, with the reason if it shows.

    When the driver refuses a request, the allocator gives back what it caches and asks again. The
    segments are then freed from the stack of that request, and the next event is the new segment
    (or the failure).
    """
    other = device.history.other
    kind = code_actions(other, _KIND, -1)
    moves = np.flatnonzero(kind >= 0)
    given = moves[kind[moves] == _GIVEN]
    if not len(given):
        return ()
    got = np.where(kind == _GOT, other.size, 0)
    got_before = np.concatenate([[0], np.cumsum(got)])
    starts = np.flatnonzero(np.append(True, np.diff(other.event[given]) != 1))
    ends = np.append(starts[1:], len(given))
    next_first = np.append(given[starts[1:]], len(other))
    bursts = []
    frames = tables.stacks.frames
    of_cache = _that_pass(tables, other.stack[given], frames.names, _EMPTY_CACHE)
    of_capture = _that_pass(tables, other.stack[given], frames.filenames, _CAPTURE)
    for begin, end, following in zip(
        starts.tolist(), ends.tolist(), next_first.tolist(), strict=True
    ):
        first, last = int(given[begin]), int(given[end - 1])
        size = int(other.size[given[begin:end]].sum())
        bursts.append(
            Burst(
                kind=_reason(device, kind, first, last, of_cache, of_capture),
                first_event=int(other.event[first]),
                last_event=int(other.event[last]),
                count=end - begin,
                bytes=size,
                stack=int(other.stack[first]),
                got_again=min(int(got_before[following] - got_before[last + 1]), size),
            )
        )
    return tuple(bursts)


def _that_pass(
    tables: History, stacks: NDArray[np.int64], texts: Sequence[str], pattern: re.Pattern[str]
) -> set[int]:
    """Return the stacks that pass through a frame whose text matches.

    Args:
        stacks: stack ids.
        texts: the name or the file of each frame.
    """
    frames = {frame for frame, text in enumerate(texts) if pattern.search(text)}
    if not frames:
        return set()
    return {
        stack
        for stack in unique(stacks).tolist()
        if stack != NO_STACK and not frames.isdisjoint(tables.stacks.path(stack))
    }


def _reason(
    device: DeviceFigures,
    kind: NDArray[np.int64],
    first: int,
    last: int,
    of_cache: set[int],
    of_capture: set[int],
) -> BurstKind:
    other = device.history.other
    if int(other.stack[first]) in of_cache:
        return "captured" if int(other.stack[first]) in of_capture else "emptied"
    after = last + 1
    if after >= len(other) or other.event[after] != other.event[last] + 1:
        return "other"
    if kind[after] == _GIVEN or kind[after] < 0 or other.stack[after] != other.stack[last]:
        return "other"
    return "failed" if kind[after] == _FAILED else "retry"


def find_captures(tables: History, device: DeviceFigures) -> NDArray[np.int64]:
    """Return the events that show that a CUDA graph is captured; int64, ascending.

    They are the first allocation in each private pool, and the cached segments that
    ``torch.cuda.graph()`` gives back before it captures.
    """
    rows = device.history.allocations
    private = np.flatnonzero(tables.private)
    if not len(private):
        return np.empty(0, np.int64)
    pools, place = distinct(rows.pool)
    first = np.full(len(pools), device.history.events, np.int64)
    np.minimum.at(first, place, rows.alloc_event)
    made = first[is_among(pools, private) & (first >= 0)]
    given = [each.first_event for each in find_bursts(tables, device) if each.kind == "captured"]
    return unique(np.concatenate([made, np.array(given, np.int64)]))
