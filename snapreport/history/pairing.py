"""Pair allocations with their frees, address by address, and count what does not fit.

Source: snapshot-format notes 5.2, steps 2 to 5; PyTorch's own viewer pairs by address too.

A recording may leave out kinds of events, by ``_record_memory_history(skip_actions=...)``. PyTorch
leaves no mark of it, so it shows only in what the other events and the final state would
contradict. What shows nothing is taken as complete. Mapping and unmapping is never left out.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.native.columns import begins_run, is_among, stable_order, unique
from snapreport.model.snapshot import ACTIVE, NO_ID, NO_STACK, Segments, Trace

ALLOC, REQUESTED, COMPLETED = "alloc", "free_requested", "free_completed"
MADE, RETURNED = "segment_alloc", "segment_free"
_MANY = 20
"""Of fewer allocations, a few that the final state lacks are no sign of frees left out."""
_ALLOC, _REQUESTED, _COMPLETED = 0, 1, 2
_CODES = {ALLOC: _ALLOC, REQUESTED: _REQUESTED, COMPLETED: _COMPLETED}

ABSENT = -1
"""No such event in the trace."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Allocations as the trace alone shows them; arrays of shape (n,), in events or ABSENT."""

    addr: NDArray[np.int64]
    alloc: NDArray[np.int64]
    requested: NDArray[np.int64]
    """The event of ``free_requested``; equals ``completed`` where only one kind is recorded."""
    completed: NDArray[np.int64]
    leftover: NDArray[np.int64]
    """Events of frees that fit no allocation."""
    anomalies: dict[str, int]

    @property
    def first(self) -> NDArray[np.int64]:
        """The first event of each allocation: its alloc, or a free if it is baseline."""
        requested = np.where(self.requested == ABSENT, self.completed, self.requested)
        return np.where(self.alloc == ABSENT, requested, self.alloc)


def pair_events(trace: Trace, pending: NDArray[np.int64] | None = None) -> Pairs:
    """Pair the allocation events of one device.

    Events at one address must alternate alloc, free_requested, free_completed; where they do,
    NumPy pairs them all at once. Only addresses with another order are walked one by one.

    Args:
        trace: the events.
        pending: int64, addresses of the blocks that await their free at the end.
    """
    codes = np.array([_CODES.get(name, -1) for name in trace.actions], np.int8)
    code = codes[trace.action] if len(trace) else np.empty(0, np.int8)
    event = np.flatnonzero(code >= 0)
    event = event[stable_order(trace.addr[event])]
    code, addr = code[event], trace.addr[event]
    kinds = frozenset(kind for kind in _CODES.values() if (code == kind).any())

    first = begins_run(addr)
    group = np.cumsum(first) - 1
    regular = _regular_groups(code, first, group, kinds)
    in_order = regular[group] if len(group) else np.empty(0, np.bool_)

    fast = _pair_regular(event[in_order], code[in_order], addr[in_order], first[in_order])
    slow, leftover, anomalies = _pair_irregular(
        event[~in_order], code[~in_order], addr[~in_order], kinds
    )
    rows = np.concatenate([fast, slow], axis=1)
    _fill_single_marker(rows, kinds, np.empty(0, np.int64) if pending is None else pending)
    pairs = Pairs(rows[0], rows[1], rows[2], rows[3], leftover, anomalies)
    _count_sizes(pairs, trace, codes)
    return pairs


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
    columns = ("addr", "alloc", "requested", "completed")
    kept = {name: getattr(pairs, name)[~internal] for name in columns}
    events = np.unique([getattr(pairs, name)[internal] for name in columns[1:]])
    return replace(pairs, **kept), events[events != ABSENT].astype(np.int64)


def _regular_groups(
    code: NDArray[np.int8],
    first: NDArray[np.bool_],
    group: NDArray[np.int64],
    kinds: frozenset[int],
) -> NDArray[np.bool_]:
    """Say for each address whether its events alternate as the allocator makes them."""
    cycle = sorted(kinds | {_ALLOC})
    follows = np.full(3, -1, np.int8)
    for here, after in zip(cycle, cycle[1:] + cycle[:1], strict=True):
        follows[here] = after
    fits = np.ones(len(code), np.bool_)
    # A trace without frees has no cycle: a second alloc at an address is always odd.
    fits[1:] = first[1:] | ((code[1:] == follows[code[:-1]]) & (len(cycle) > 1))
    regular = np.ones(int(group[-1]) + 1 if len(group) else 0, np.bool_)
    regular[group[~fits]] = False
    return regular


def _pair_regular(
    event: NDArray[np.int64],
    code: NDArray[np.int8],
    addr: NDArray[np.int64],
    first: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """Pair events that alternate; returns int64, (4, n): addr, alloc, requested, completed."""
    begins = first | (code == _ALLOC)
    row = np.cumsum(begins) - 1
    rows = np.full((4, int(begins.sum())), ABSENT, np.int64)
    rows[0] = addr[begins]
    for kind in (_ALLOC, _REQUESTED, _COMPLETED):
        of_kind = code == kind
        rows[1 + kind, row[of_kind]] = event[of_kind]
    return rows


def _pair_irregular(
    event: NDArray[np.int64], code: NDArray[np.int8], addr: NDArray[np.int64], kinds: frozenset[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64], dict[str, int]]:
    """Pair events in any order, closing and counting what does not fit."""
    rows: list[list[int]] = []
    leftover: list[int] = []
    anomalies: Counter[str] = Counter()
    live: list[int] | None = None
    last_addr = None
    for s, kind, a in zip(event.tolist(), code.tolist(), addr.tolist(), strict=True):
        if a != last_addr:
            last_addr, live, seen = a, None, False
        if kind == _ALLOC:
            if live is not None:
                anomalies["alloc on a live address"] += 1
                live[3] = s
                if live[2] == ABSENT:
                    live[2] = s
            live = [a, s, ABSENT, ABSENT]
            rows.append(live)
        elif live is None and seen:
            anomalies["free of an address that is not live"] += 1
            leftover.append(s)
        else:
            if live is None:  # the address's first event: live from before event 0
                live = [a, ABSENT, ABSENT, ABSENT]
                rows.append(live)
            elif kind == _REQUESTED and live[2] != ABSENT:
                anomalies["free requested twice"] += 1
                leftover.append(s)
                continue
            elif kind == _COMPLETED and live[2] == ABSENT and _REQUESTED in kinds:
                anomalies["free completed without a request"] += 1
                live[2] = s
            live[1 + kind] = s
            if kind == _COMPLETED or _COMPLETED not in kinds:
                live = None
        seen = True
    table = np.array(rows, np.int64).reshape(-1, 4).T
    return table, np.array(sorted(leftover), np.int64), anomalies


def _fill_single_marker(
    rows: NDArray[np.int64], kinds: frozenset[int], pending: NDArray[np.int64]
) -> None:
    """Let the one kind of free that a trace has serve as both (skip_actions, old layouts)."""
    addr, alloc, requested, completed = rows
    if _REQUESTED not in kinds:
        # Where no alloc of the trace is freed in it, the requests may just be older than the
        # trace: a ring often ends between the two events of a free.
        if ((alloc != ABSENT) & (completed != ABSENT)).any():
            requested[:] = completed
    elif _COMPLETED not in kinds:
        still = is_among(addr, pending)
        for row in np.flatnonzero(still).tolist():
            still[row] = requested[row] == requested[addr == addr[row]].max()
        completed[~still] = requested[~still]


def _count_sizes(pairs: Pairs, trace: Trace, codes: NDArray[np.int8]) -> None:
    """Count frees whose size is not the alloc's; the alloc is trusted."""
    differs = np.zeros(len(pairs.addr), np.bool_)
    for free in (pairs.requested, pairs.completed):
        both = np.flatnonzero((free != ABSENT) & (pairs.alloc != ABSENT))
        both = both[trace.size[free[both]] != trace.size[pairs.alloc[both]]]
        end = free[both]  # another alloc at the address may have closed it
        is_free = codes[trace.action[end]] != _ALLOC
        differs[both] |= is_free & (trace.addr[end] == pairs.addr[both])
    if differs.any():
        pairs.anomalies["free of another size than its alloc"] = int(differs.sum())


def skipped_of_allocations(trace: Trace, pairs: Pairs, lost: int) -> tuple[str, ...]:
    """Return which of the kinds of events that make allocations a trace left out.

    Args:
        trace: the events.
        pairs: made of them.
        lost: allocations that were never freed, and are no blocks at the end.
    """
    there, odd = _actions_in(trace), pairs.anomalies
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
    trace: Trace, pairs: Pairs, segments: Segments, misfits: int
) -> tuple[str, ...]:
    """Return which of the kinds of events that make plain segments a trace left out.

    A segment at the end with a call stack was made while history was on. If nothing was allocated
    before the first event, no older event is lost, and that of the segment would be there.
    """
    there = _actions_in(trace)
    found = []
    before = bool((pairs.alloc == ABSENT).any()) if len(pairs.alloc) else True
    touched = np.isin(segments.block_address[segments.block_state == ACTIVE], pairs.addr)
    made = (segments.stack != NO_STACK) & ~segments.expandable
    if MADE not in there and made.any() and not before and touched.all():
        found.append(MADE)
    if RETURNED not in there and MADE in there and misfits:
        found.append(RETURNED)
    return tuple(found)


def _actions_in(trace: Trace) -> set[str]:
    """Return the actions that events of a trace have; its table of names may have others."""
    return {trace.actions[code] for code in unique(trace.action).tolist()}


def without_events(trace: Trace) -> Trace:
    """Return a trace of no events: without one side of its pairs it shows no curve at all."""
    columns = {
        each.name: getattr(trace, each.name)[:0]
        for each in fields(trace)
        if isinstance(getattr(trace, each.name), np.ndarray)
    }
    return replace(trace, **columns)
