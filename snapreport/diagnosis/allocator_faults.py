"""Measure what the allocator could not use, gave back, or handed out beyond the request."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from snapreport.figures.segments import Heap, heap_at
from snapreport.ground.native.columns import distinct, is_among, sum_groups, unique
from snapreport.history.allocator_settings import SMALL_SEGMENT, UNLIMITED, recorded_settings
from snapreport.history.block_sizes import round_sizes
from snapreport.history.segments import code_actions
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import History
from snapreport.model.snapshot import NO_ID, NO_STACK, pool_name

_GIVEN, _GOT, _FAILED = range(3)
_KIND = {
    "segment_free": _GIVEN,
    "segment_unmap": _GIVEN,
    "segment_alloc": _GOT,
    "segment_map": _GOT,
    "oom": _FAILED,
}
_EMPTY_CACHE = re.compile(r"empty_?cache", re.IGNORECASE)
_CAPTURE = re.compile(r"torch[/\\]cuda[/\\]graphs\.py$")


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


@dataclass(frozen=True)
class Tightest:
    """The state when reserved memory last rose to a new maximum.

    Nothing that was free then could serve the request.
    """

    event: int
    """The event of the allocation for which it rose; the allocated peak's if it never rose."""
    grew: bool
    """Whether it rose in the recording, for a request of the large pool."""
    reserved: int
    active: int
    pieces: int
    """Inactive bytes in segments partly in use, of the request's pool, stream and kind; of all
    pools, streams and kinds if reserved memory never rose."""
    whole: int
    """Bytes in wholly unused segments of the same pool, stream and kind."""
    elsewhere: int
    """Inactive bytes of other pools, streams and kinds."""
    beyond: int
    """The reserved peak minus the active peak: the most that better packing could save."""
    private: bool = False
    """Whether the request was for a private pool."""


@dataclass(frozen=True, eq=False)
class Slack:
    """Block bytes beyond what was asked for, over what is live at the allocated peak."""

    total: int
    unsplit: int
    """The part that is there because a larger free block was handed out whole."""
    divided: int
    """The part that ``roundup_power2_divisions`` added."""
    lower: NDArray[np.int64]
    """The least bytes of each class of requested sizes: a power of two; int64, shape (n,)."""
    count: NDArray[np.int64]
    """Allocations in each class; ``requested`` and ``slack`` are their bytes, per class."""
    requested: NDArray[np.int64]
    slack: NDArray[np.int64]


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


def find_tightest(tables: History, device: DeviceFigures) -> Tightest | None:
    """Return the state when reserved memory reached its maximum; None where it is not known.

    Reserved memory only grows when no cached block serves a request, so what is free just then is
    what the allocator could not use. Segments of the small pool are left out: they have 2 MiB, and
    free memory of other pools may not serve them.
    """
    if "reserved" not in device.peaks or device.peak.inactive is None:
        return None
    beyond = int(device.curves["reserved"].max()) - int(device.curves["active"].max())
    event = _raised_for(device)
    if event is None:
        pieces = device.peak.fragmentation or 0
        return Tightest(
            event=device.peak.event,
            grew=False,
            reserved=device.peak.reserved or 0,
            active=device.peak.active,
            pieces=pieces,
            whole=device.peak.inactive - pieces,
            elsewhere=0,
            beyond=max(beyond, 0),
        )
    heap = heap_at(tables, device, event)
    same = _served_like(device, heap, event)
    if not len(same):  # the new allocation lies in no segment: events are missing
        return None
    free = heap.size - heap.used
    return Tightest(
        event=event,
        grew=True,
        reserved=int(device.curves["reserved"][event + 1]),
        active=int(device.curves["active"][event + 1]),
        pieces=int(free[same & (heap.used > 0)].sum()),
        whole=int(free[same & (heap.used == 0)].sum()),
        elsewhere=int(free[~same].sum()),
        beyond=max(beyond, 0),
        private=bool(heap.private[same].any()),
    )


def served_like(device: DeviceFigures, heap: Heap, found: Tightest) -> NDArray[np.bool_] | None:
    """Say in which segments ``found.pieces`` are; bool, shape (n_segments,), None for all.

    Args:
        heap: at that event.
        found: from ``find_tightest``.
    """
    return _served_like(device, heap, found.event) if found.grew else None


def _served_like(device: DeviceFigures, heap: Heap, event: int) -> NDArray[np.bool_]:
    """Say which segments could serve the event's allocation; empty if no segment holds it."""
    mine = heap.segment[device.history.allocations.alloc_event[heap.row] == event]
    same = np.ones(len(heap.address) if len(mine) else 0, np.bool_)
    for column in (heap.pool, heap.stream, heap.kind) if len(mine) else ():
        same &= column == column[mine[0]]
    return same


def _raised_for(device: DeviceFigures) -> int | None:
    """Return the event of the allocation whose large segment last set a reserved maximum."""
    events, reserved = device.reserved_events, device.reserved_bytes
    if len(events) < 2:
        return None
    record = np.append(False, reserved[1:] > np.maximum.accumulate(reserved)[:-1])
    record &= np.diff(reserved, prepend=reserved[0]) > SMALL_SEGMENT
    if not record.any():
        return None
    made = device.history.allocations.alloc_event
    # The segment comes first, in several parts if expandable, then what it is for.
    after = made[made > int(events[record][-1])]
    return int(after.min()) if len(after) else None


def find_private_pools(
    tables: History, device: DeviceFigures, event: int
) -> list[tuple[str, int, int, int]]:
    """Return what private pools hold after an event, the one with most inactive bytes first.

    Args:
        event: -1 for the start.

    Returns:
        of each its name, as ``1,0 (CUDA graph)``, and its reserved, active and inactive bytes.
    """
    heap = heap_at(tables, device, event)
    pools = []
    for pool in unique(heap.pool[heap.private & (heap.pool != NO_ID)]).tolist():
        inside = heap.pool == pool
        reserved, active = int(heap.size[inside].sum()), int(heap.used[inside].sum())
        pools.append((pool_name(tables.pools[pool]), reserved, active, reserved - active))
    return sorted(pools, key=lambda each: -each[-1])


def find_slack(tables: History, device: DeviceFigures) -> Slack:
    """Split the slack at the allocated peak by the size that was asked for, and by its cause."""
    history, rows = device.history, device.history.allocations
    live = rows.live_at(device.peak.event)
    size, block = rows.size[live], rows.block_size[live]
    rules = recorded_settings(tables.settings, history.device.kind)
    rounded = np.minimum(round_sizes(size, rules), block)
    unset = replace(rules, roundup_power2_divisions=(), pinned_max_round_threshold=UNLIMITED)
    plain = np.minimum(round_sizes(size, replace(unset, pinned_max_cached_size=UNLIMITED)), block)
    power = np.frexp(np.maximum(size, 1).astype(np.float64))[1] - 1
    classes, place = distinct(power)
    requested = sum_groups(place, size, len(classes))
    slack = sum_groups(place, block - size, len(classes))
    return Slack(
        total=int((block - size).sum()),
        unsplit=int((block - rounded).sum()),
        divided=int((rounded - plain).sum()),
        lower=np.left_shift(np.int64(1), classes.astype(np.int64)),
        count=np.bincount(place, minlength=len(classes)).astype(np.int64),
        requested=requested,
        slack=slack,
    )


def find_captures(tables: History, device: DeviceFigures) -> NDArray[np.int64]:
    """Return the events that show that a CUDA graph is captured; int64, ascending.

    They are the first allocation in each private pool, and the cached segments that
    ``torch.cuda.graph()`` gives back before it captures.
    """
    rows = device.history.allocations
    private = [pool for pool, ids in enumerate(tables.pools) if ids != (0, 0)]
    if not private:
        return np.empty(0, np.int64)
    pools, place = distinct(rows.pool)
    first = np.full(len(pools), device.history.events, np.int64)
    np.minimum.at(first, place, rows.alloc_event)
    made = first[is_among(pools, private) & (first >= 0)]
    given = [each.first_event for each in find_bursts(tables, device) if each.kind == "captured"]
    return np.union1d(made, np.array(given, np.int64))
