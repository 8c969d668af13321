"""Segments at each event, found by undoing the trace's segment events from the final ones.

Walking backwards needs no start state, and the final state is always complete, whatever the ring
lost.

Source: snapshot-format notes 5.2, step 8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.memoize import once_for_both, once_for_each, shared
from snapreport.ground.native.columns import (
    SEGMENT_COLUMNS,
    SEGMENT_KINDS,
    stable_order,
    undo_segments,
)
from snapreport.ground.native.columns import locate as sweep_blocks
from snapreport.model.history import START, DeviceHistory, Events
from snapreport.model.replays import LARGE, SMALL, SegmentLives
from snapreport.model.snapshot import NO_ID, Segments


def code_actions(other: Events, codes: Mapping[str, int], unknown: int) -> NDArray[np.int64]:
    """Return a number for the action of each event; names are compared once, for all callers.

    Args:
        other: the events.
        codes: the numbers, by action.
        unknown: the number for all other actions.

    Returns:
        int64, shape (len(other),).
    """
    names, place = _distinct(other)
    return np.array([codes.get(name, unknown) for name in names], np.int64)[place]


def actions_of(other: Events) -> list[str]:
    """Return the distinct actions of events, as they first come."""
    return _distinct(other)[0]


@once_for_each
def _distinct(other: Events) -> tuple[list[str], NDArray[np.int64]]:
    """Return the distinct actions, and which of them each event has."""
    number = {name: i for i, name in enumerate(dict.fromkeys(other.action))}
    place = np.fromiter(map(number.__getitem__, other.action), np.int64, len(other.action))
    return list(number), shared(place)


_GROWS = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}


def reserved_changes(history: DeviceHistory) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the reserved curve as changes.

    Returns:
        events, int64, shape (k,): the first is -1; and reserved bytes from each of them on.
    """
    other = history.other
    signs = code_actions(other, _GROWS, 0)
    moves = np.flatnonzero(signs)
    deltas = signs[moves] * other.size[moves]
    end = int(history.segments.size.sum())
    values = end - int(deltas.sum()) + np.concatenate([[0], np.cumsum(deltas)])
    events = np.concatenate([[-1], other.event[moves]])
    return events.astype(np.int64), values.astype(np.int64)


def segment_lives(other: Events, segments: Segments, events: int) -> tuple[SegmentLives, int]:
    """Return the life of every segment, and how many events did not fit.

    Pools are those that the final segments or the events name, kinds those of the final segments;
    ``infer_pools()`` finds some of the others.
    """
    final = _final_rows(segments, events)
    kind = code_actions(other, SEGMENT_KINDS, 0).astype(np.int8)
    chosen = np.flatnonzero(kind)[::-1]
    event, addr, size, stream = (
        column[chosen] for column in (other.event, other.addr, other.size, other.stream)
    )
    rows, families, misfits = undo_segments(
        final, len(segments), (kind[chosen], event, addr, size, stream)
    )
    return _as_columns(rows, families, segments, other), misfits


def _final_rows(segments: Segments, events: int) -> NDArray[np.int64]:
    """Return the segments at the end in address order, in the columns of ``undo_segments``."""
    order = np.lexsort((segments.size, segments.address))
    low = segments.address[order]
    high = low + segments.size[order]
    high[:-1] = np.minimum(high[:-1], low[1:])  # two that overlap: memory is in one of them
    rows = np.empty((len(order), SEGMENT_COLUMNS), np.int64)
    rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3] = low, high, START, events
    rows[:, 4], rows[:, 7] = segments.stream[order], segments.expandable[order]
    rows[:, 5] = rows[:, 6] = order  # each is a family of its own
    return rows


def _as_columns(
    rows: NDArray[np.int64], families: int, segments: Segments, other: Events
) -> SegmentLives:
    """Return lives, given in the columns of ``undo_segments``, by start, then address."""
    table = rows.T[:, np.lexsort((rows[:, 0], rows[:, 2]))]
    family = table[5].astype(np.int32)
    pool = np.full(families, NO_ID, np.int32)
    pool[: len(segments)] = segments.pool
    for event in (table[3], table[2]):
        named = _pools_of(other, event)
        missing = (named != NO_ID) & (pool[family] == NO_ID)
        pool[family[missing]] = named[missing]
    kind = np.full(families, NO_ID, np.int8)
    kind[: len(segments)] = np.where(segments.large, LARGE, SMALL)
    return SegmentLives(
        address=table[0],
        size=table[1] - table[0],
        start_event=table[2],
        end_event=table[3],
        stream=table[4],
        pool=pool[family],
        kind=kind[family],
        expandable=table[7] == 1,
        family=family,
        final=table[6].astype(np.int32),
    )


def _pools_of(other: Events, event: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the pools that events name; NO_ID for those that name none, or are not listed."""
    if not len(other):
        return np.full(len(event), NO_ID, np.int32)
    row = np.minimum(np.searchsorted(other.event, event), len(other) - 1)
    return np.where(other.event[row] == event, other.pool[row], NO_ID).astype(np.int32)


def segments_at(lives: SegmentLives, event: int) -> NDArray[np.int64]:
    """Return the rows of the segments after one event, in address order."""
    there = np.flatnonzero((lives.start_event <= event) & (event < lives.end_event))
    return there[np.argsort(lives.address[there], kind="stable")]


@once_for_both
def known_lives(other: Events, segments: Segments, events: int) -> tuple[SegmentLives, int]:
    """Return what ``segment_lives()`` does, kept for histories that differ only in names."""
    lives, misfits = segment_lives(other, segments, events)
    for column in fields(lives):
        shared(getattr(lives, column.name))
    return lives, misfits


def lives_of(history: DeviceHistory) -> SegmentLives:
    """Return the segments of a history over time."""
    return known_lives(history.other, history.segments, history.events)[0]


@once_for_each
def born_in(history: DeviceHistory) -> NDArray[np.int32]:
    """Return the segment that each allocation was born in: a row of ``lives_of()``, or NO_ID."""
    rows = history.allocations  # in birth order
    return shared(locate(lives_of(history), rows.alloc_event, rows.addr))


def locate(
    lives: SegmentLives, events: NDArray[np.int64], addresses: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Return the segment that holds each address after its event; events ascend.

    Returns:
        int32, shape (len(events),): rows of ``lives``, NO_ID where none does.
    """
    spans = (lives.address, lives.size, lives.start_event, lives.end_event)
    return sweep_blocks(spans, stable_order(lives.end_event), events, addresses)
