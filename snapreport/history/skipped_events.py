"""Find which kinds of events a recording left out, as ``skip_actions`` lets a program do.

PyTorch leaves no mark of it, so it shows only in what the other events and the final state would
contradict. What shows nothing is taken as complete.

Source: PyTorch, ``_record_memory_history(skip_actions=...)``; mapping and unmapping is never left
out.
"""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from snapreport.history.pairing import ABSENT, Pairs
from snapreport.model.snapshot import Segments, Trace
from snapreport.model.stacks import NO_STACK

ALLOC, REQUESTED, COMPLETED = "alloc", "free_requested", "free_completed"
MADE, RETURNED = "segment_alloc", "segment_free"
_MANY = 20
"""Of fewer allocations, a few that the final state lacks are no sign of frees left out."""


def skipped_of_allocations(trace: Trace, pairs: Pairs, lost: int) -> tuple[str, ...]:
    """Return which of the kinds of events that make allocations a trace left out.

    Args:
        trace: the events.
        pairs: made of them.
        lost: allocations that were never freed, and are no blocks at the end.
    """
    counts = np.bincount(trace.action, minlength=len(trace.actions)).tolist()
    there = {name for name, count in zip(trace.actions, counts, strict=True) if count}
    odd = pairs.anomalies
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
    counts = np.bincount(trace.action, minlength=len(trace.actions)).tolist()
    there = {name for name, count in zip(trace.actions, counts, strict=True) if count}
    found = []
    before = bool((pairs.alloc == ABSENT).any()) if len(pairs.alloc) else True
    touched = np.isin(segments.block_address[segments.block_state == 0], pairs.addr)
    made = (segments.stack != NO_STACK) & ~segments.expandable
    if MADE not in there and made.any() and not before and touched.all():
        found.append(MADE)
    if RETURNED not in there and MADE in there and misfits:
        found.append(RETURNED)
    return tuple(found)


def without_allocations(trace: Trace) -> Trace:
    """Return a trace of no events: without one side of its pairs it shows no curve at all."""
    columns = {
        each.name: getattr(trace, each.name)[:0]
        for each in fields(trace)
        if isinstance(getattr(trace, each.name), np.ndarray)
    }
    return replace(trace, **columns)
