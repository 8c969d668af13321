"""Pair allocations with their frees, address by address, and count what does not fit.

Source: snapshot-format notes 5.2, steps 2 to 5; PyTorch's own viewer pairs by address too.

A recording may leave out kinds of events, by ``_record_memory_history(skip_actions=...)``. PyTorch
leaves no mark of it, so it shows only in what the other events and the final state would
contradict. What shows nothing is taken as complete. Mapping and unmapping is never left out.
"""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.native.columns import distinct, is_among, pair, unique
from snapreport.ground.records import dataclass
from snapreport.history.segments import actions_of
from snapreport.model.history import Events
from snapreport.model.snapshot import ACTIVE, NO_ID, NO_STACK, Segments, Trace

ALLOC, REQUESTED, COMPLETED = "alloc", "free_requested", "free_completed"
MADE, RETURNED = "segment_alloc", "segment_free"
_MANY = 20
"""Of fewer allocations, a few that the final state lacks are no sign of frees left out."""
_CODES = {ALLOC: 0, REQUESTED: 1, COMPLETED: 2}
_ODD = (
    "alloc on a live address",
    "free of an address that is not live",
    "free requested twice",
    "free completed without a request",
)
"""What the native library counts, in its order."""

ABSENT = -1
"""No such event in the trace."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Allocations as the trace alone shows them; arrays of shape (n,), in events or ABSENT.

    Those from before the first event come first, the last freed ones before others; then come all
    others in the order of their allocs.
    """

    addr: NDArray[np.int64]
    place: NDArray[np.int64]
    """The place of ``addr`` in ``addresses``."""
    alloc: NDArray[np.int64]
    requested: NDArray[np.int64]
    """The event of ``free_requested``; equals ``completed`` where only one kind is recorded."""
    completed: NDArray[np.int64]
    leftover: NDArray[np.int64]
    """Events of frees that fit no allocation."""
    anomalies: dict[str, int]
    addresses: NDArray[np.int64]
    """The distinct addresses that events of the trace have, ascending."""
    kinds: frozenset[str]
    """Which of ALLOC, REQUESTED and COMPLETED events of the trace have."""

    @property
    def first(self) -> NDArray[np.int64]:
        """The first event of each allocation: its alloc, or a free if it is baseline."""
        first: NDArray[np.int64] = self.alloc.copy()
        lost = np.flatnonzero(first == ABSENT)
        requested, completed = self.requested[lost], self.completed[lost]
        first[lost] = np.where(requested == ABSENT, completed, requested)
        return first

    @property
    def taken(self) -> NDArray[np.int64]:
        """The distinct addresses of the allocations, ascending."""
        taken: NDArray[np.int64] = self.addresses[unique(self.place)]
        return taken


def pair_events(trace: Trace, pending: NDArray[np.int64] | None = None) -> Pairs:
    """Pair the allocation events of one device.

    Events at one address should alternate alloc, free_requested, free_completed; what does not is
    closed and counted.

    Args:
        trace: the events.
        pending: int64, addresses of the blocks that await their free at the end.
    """
    codes = np.array([_CODES.get(name, -1) for name in trace.actions], np.int8)
    addresses, place = distinct(trace.addr)
    rows, leftover, found = pair(trace.action, place, trace.size, codes, len(addresses))
    resized, *found_of_kind = found[: 1 + len(_CODES)].tolist()
    kinds = frozenset(kind for kind, code in _CODES.items() if found_of_kind[code])
    # As if walked address by address.
    odd = zip(_ODD, found[1 + len(_CODES) :].reshape(len(_ODD), 3).tolist(), strict=True)
    met = sorted((odd for odd in odd if odd[1][0]), key=lambda odd: odd[1][1:])
    anomalies = {what: count for what, (count, *_) in met}
    addr = addresses[rows[0]]
    none = np.empty(0, np.int64)
    _fill_single_marker(addr, rows[1:], kinds, none if pending is None else pending)
    before = int(np.count_nonzero(rows[1] == ABSENT))
    free = np.where(rows[3, :before] == ABSENT, len(trace), rows[3, :before])
    order = np.lexsort((addr[:before], -free))
    addr[:before], rows[:, :before] = addr[order], rows[:, order]
    if resized:
        anomalies["free of another size than its alloc"] = resized
    columns = (addr, rows[0], rows[1], rows[2], rows[3])
    return Pairs(*columns, leftover, anomalies, addresses, kinds)


def without_internal(pairs: Pairs, trace: Trace) -> tuple[Pairs, NDArray[np.int64]]:
    """Leave out what the allocator itself took and gave back within one call.

    ``mallocWithAddress`` takes the memory before the wanted address for an instant, so that the
    next request gets that address. No tensor is ever in it, and it can be far larger than one.

    Returns:
        the other pairs; and int64, the events of those left out, ascending.

    Source: PyTorch pull request 193432, "Separate allocator-internal trace tags".
    """
    if not (trace.internal != NO_ID).any():
        return pairs, np.empty(0, np.int64)
    # Its alloc may be lost where the ring was full.
    first = np.where(pairs.alloc != ABSENT, pairs.alloc, pairs.completed)
    internal = (pairs.completed != ABSENT) & (trace.internal[first] != NO_ID)
    columns = ("addr", "place", "alloc", "requested", "completed")
    kept = {name: getattr(pairs, name)[~internal] for name in columns}
    events = unique(np.concatenate([getattr(pairs, name)[internal] for name in columns[2:]]))
    return replace(pairs, **kept), events[events != ABSENT].astype(np.int64)


def _fill_single_marker(
    addr: NDArray[np.int64],
    events: NDArray[np.int64],
    kinds: frozenset[str],
    pending: NDArray[np.int64],
) -> None:
    """Let the one kind of free that a trace has serve as both (skip_actions, old layouts)."""
    alloc, requested, completed = events
    if REQUESTED not in kinds:
        # Where no alloc of the trace is freed in it, the requests may just be older than the
        # trace: a ring often ends between the two events of a free.
        if ((alloc != ABSENT) & (completed != ABSENT)).any():
            requested[:] = completed
    elif COMPLETED not in kinds:
        still = is_among(addr, pending)
        for row in np.flatnonzero(still).tolist():
            still[row] = requested[row] == requested[addr == addr[row]].max()
        completed[~still] = requested[~still]


def skipped_of_allocations(pairs: Pairs, lost: int) -> tuple[str, ...]:
    """Return which of the kinds of events that make allocations a trace left out.

    Args:
        pairs: made of its events.
        lost: allocations that were never freed, and are no blocks at the end.
    """
    there, odd = pairs.kinds, pairs.anomalies
    freed_here = (pairs.alloc != ABSENT) & (pairs.completed != ABSENT)
    if ALLOC not in there:
        return (ALLOC,) if odd.get("free of an address that is not live") else ()
    if not there & {REQUESTED, COMPLETED}:
        reused = odd.get("alloc on a live address") or 2 * lost > max(len(pairs.alloc), _MANY)
        return (REQUESTED, COMPLETED) if reused else ()
    # A ring may end between the two events of a free, so one of either kind says nothing.
    if REQUESTED not in there:
        return (REQUESTED,) if freed_here.any() else ()
    if COMPLETED not in there:
        return (COMPLETED,) if freed_here.any() else ()
    return ()


def skipped_of_segments(
    other: Events, pairs: Pairs, segments: Segments, misfits: int
) -> tuple[str, ...]:
    """Return which of the kinds of events that make plain segments a trace left out.

    A segment at the end with a call stack was made while history was on. If nothing was allocated
    before the first event, no older event is lost, and that of the segment would be there.
    """
    there = actions_of(other)
    found = []
    before = bool((pairs.alloc == ABSENT).any()) if len(pairs.alloc) else True
    touched = is_among(segments.block_address[segments.block_state == ACTIVE], pairs.taken)
    made = (segments.stack != NO_STACK) & ~segments.expandable
    if MADE not in there and made.any() and not before and touched.all():
        found.append(MADE)
    if RETURNED not in there and MADE in there and misfits:
        found.append(RETURNED)
    return tuple(found)


def without_events(trace: Trace) -> Trace:
    """Return a trace of no events: without one side of its pairs it shows no curve at all."""
    columns = {
        each.name: getattr(trace, each.name)[:0]
        for each in fields(trace)
        if isinstance(getattr(trace, each.name), np.ndarray)
    }
    return replace(trace, **columns)
