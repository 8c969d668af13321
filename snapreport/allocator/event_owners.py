"""Find the cause of each segment event: a request, or a call of ``empty_cache()``."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from snapreport.allocator.replay_tape import RETURNED, UNMAPPED
from snapreport.history.allocator_settings import SMALL_SEGMENT
from snapreport.history.segment_replay import reserved_changes
from snapreport.model.history import START, DeviceHistory
from snapreport.model.snapshot import NO_ID
from snapreport.model.stacks import NO_STACK
from snapreport.native.sorting import is_among

_NOTHING, _REQUEST, _FAILED, _RELEASE, _GROW, _LATE, _DONE = range(7)


@dataclass
class Owners:
    """The operation that caused each event that the program did not ask for itself."""

    owner: NDArray[np.int64]
    """By row of the other events: the event of the operation; the last event + 1 for none."""
    after: dict[int, int] = field(default_factory=dict)
    """Events of frees that a request completed while it waited, and that request's event."""
    doubtful: set[int] = field(default_factory=set)
    """Those of these events that may also have been completed before."""
    emptied: list[int] = field(default_factory=list)
    retried: set[int] = field(default_factory=set)
    collected: set[int] = field(default_factory=set)
    undecided: int = 0


def find_owners(
    history: DeviceHistory,
    code: NDArray[np.int64],
    *,
    oversize: bool,
    collects: bool,
    spares: bool,
    by_stack: bool,
) -> Owners:
    """Assign each segment event to the request that follows it, or to a call of ``empty_cache()``.

    Segments that a request gave back carry its stack; those of ``empty_cache()`` have a stack of
    their own, if stacks were recorded deep enough.

    Args:
        history: of one device.
        code: kinds of its other events.
        oversize: whether some blocks are never split.
        collects: whether a request may give back, without need, whole large segments.
        spares: whether memory freed only just before cannot be garbage: its free may have been
            waited for.
        by_stack: whether an equal stack is enough; else what a request lacked has to have lain
            above all that was ever reserved, too. That misses an expandable segment that grew
            elsewhere in the end, where less was lacking.
    """
    rows, other, n = history.allocations, history.other, history.events
    what = np.zeros(n + 1, np.int8)
    stack = np.full(n + 1, NO_STACK, np.int64)
    born = rows.alloc_event >= 0
    what[rows.alloc_event[born]] = _REQUEST
    stack[rows.alloc_event[born]] = rows.stack[born]
    done = rows.free_event < n
    what[rows.free_event[done]] = _DONE
    what[rows.free_event[is_late(history) & done]] = _LATE
    kinds = np.array([_GROW, _RELEASE, _GROW, _RELEASE, _FAILED, _NOTHING], np.int8)
    what[other.event] = kinds[code]
    stack[other.event] = other.stack
    place = np.full(n + 1, NO_ID, np.int64)
    place[other.event] = np.arange(len(other))
    some_wait = bool((what == _LATE).any())
    found = Owners(np.full(len(other), n, np.int64))
    after = reserved_after(history)
    most = int(after.max(initial=0))

    freed_at = np.full(n + 1, NO_ID, np.int64)
    freed_at[rows.free_event[done]] = rows.addr[done]

    def holds(release: int, free: int) -> bool:
        start = other.addr[place[release]]
        return bool(start <= freed_at[free] < start + other.size[place[release]])

    moved = np.isin(what, (_GROW, _RELEASE))
    between = moved | (what == _LATE)
    settled = np.flatnonzero(~between)  # the last one is behind the last event

    def followed_by(events: NDArray[np.int64]) -> NDArray[np.int64]:
        return settled[np.searchsorted(settled, events)]

    before = np.flatnonzero(between[:-1]) + 1
    failed = np.flatnonzero(what == _FAILED)
    requests = np.union1d(failed, before[what[before] == _REQUEST])
    # Most that grew gave nothing back before, so that nothing else is to be found out.
    unsure = np.union1d(failed, followed_by(np.flatnonzero(what == _RELEASE)))
    grown = np.flatnonzero(what == _GROW)
    for_whom = followed_by(grown)
    plain = (what[for_whom] == _REQUEST) & ~is_among(for_whom, unsure)
    found.owner[place[grown[plain]]] = for_whom[plain]
    requests = requests[is_among(requests, unsure)]
    for request in requests.tolist():
        first = request
        has_stack = stack[request] != NO_STACK
        while first > 0 and (kind := what[first - 1]) in (_RELEASE, _GROW, _LATE):
            if kind == _RELEASE and has_stack and stack[first - 1] != stack[request]:
                break
            first -= 1
        inside = np.arange(first, request)
        released = inside[what[first:request] == _RELEASE]
        if len(released):
            grown = inside[(what[first:request] == _GROW) & (inside > released[-1])]
            row = place[released[0]]
            lacked = after[row] + other.size[row] + other.size[place[grown]].sum() > most
            lacked |= by_stack
            returned = place[released]
            waiting = inside[what[inside] == _LATE]
            if (
                collects
                and has_stack
                and what[request] == _REQUEST
                and (code[returned] == RETURNED).all()
                and (other.size[returned] > SMALL_SEGMENT).all()
                and not (spares and any(holds(a, b) for a in released for b in waiting))
            ):
                found.collected.add(request)
                found.owner[place[inside[moved[inside]]]] = request
                continue
            if not (what[request] == _FAILED or (has_stack and lacked)):
                found.undecided += not has_stack
                inside, released = inside[inside > released[-1]], released[:0]
            else:
                found.retried.add(request)
        found.owner[place[inside[moved[inside]]]] = request
        if len(released) or what[request] == _FAILED:
            waited = inside[what[inside] == _LATE].tolist()
            # A free right before it may have waited, too, in a program where some do. If it did
            # not, it was of no use either. But oversize blocks, where there are any, are given
            # back first.
            if (
                some_wait
                and first > 0
                and what[first - 1] == _DONE
                and not (oversize and len(released) and holds(released[0], first - 1))
            ):
                waited.append(first - 1)
                found.doubtful.add(first - 1)
            found.after.update(dict.fromkeys(waited, request))
    releases = np.flatnonzero(np.isin(code, (RETURNED, UNMAPPED)) & (found.owner == n))
    at = other.event[releases]
    # Frees that are completed meanwhile part no run.
    parting = np.concatenate([[0], np.cumsum(what[:-1] != _LATE)])
    first_of = np.ones(len(at), np.bool_)
    first_of[1:] = parting[at[1:]] > parting[at[:-1] + 1]
    found.emptied += at[first_of].tolist()
    found.owner[releases] = at[first_of][np.cumsum(first_of) - 1]
    return found


def reserved_after(history: DeviceHistory) -> NDArray[np.int64]:
    """Return the bytes reserved after each of the other events; int64, shape (len(other),)."""
    events, values = reserved_changes(history)
    return values[np.searchsorted(events, history.other.event, side="right") - 1]


def is_late(history: DeviceHistory) -> NDArray[np.bool_]:
    """Say of which allocations the free was not completed as soon as it was requested."""
    rows = history.allocations
    asked, done = rows.free_requested_event, rows.free_event
    apart = (asked < history.events) & (asked != done) & (asked != done - 1)
    late: NDArray[np.bool_] = apart | (asked == START)
    return late
