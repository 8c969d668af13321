"""The hole that each block was put in: how far it was to the next active block, or segment's end.

Where blocks and segments come and go as the allocator makes them, ``sweeps.c`` replays them; or,
without it, NumPy finds all holes at once: it asks of each address above a block whether anything
lived there at that step, of the next address first. Anything else is replayed event by event.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from snapreport.analyse import sweeps
from snapreport.model.segment_lives import SegmentLives
from snapreport.sorting import distinct, stable_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Holes = tuple[NDArray[np.int64], NDArray[np.int64]]

_ROUNDS = 64
"""Addresses that are asked for one block. Most find their neighbour among the first few."""

_MOST_ASKED = 1 << 22
"""Addresses that are asked for all the others together, before it is better to replay."""


def find_holes(
    addr: NDArray[np.int64], born: NDArray[np.int64], died: NDArray[np.int64], spans: SegmentLives
) -> Holes:
    """Find the hole that each block was put in.

    Args:
        addr: int64, shape (n,), where blocks begin.
        born: int64, shape (n,), the step of each one's alloc, negative for the baseline.
        died: int64, shape (n,), the step of its free.
        spans: the segments over their lives.

    Returns:
        int64, shape (n,): each block's hole at its birth, in bytes; 0 if in no live segment, and
        for the baseline. And int64, shape (n,): for the baseline the least distance to a block
        above it, or to its segment's end, over its whole life; else 0.
    """
    for way in (sweeps.holes, _all_at_once):
        found = way(addr, born, died, spans)
        if found is not None:
            return found
    return replay_holes(addr, born, died, spans)


class _Places:
    """What begins at each address, over time: lives that follow one another."""

    def __init__(
        self, addr: NDArray[np.int64], born: NDArray[np.int64], died: NDArray[np.int64], steps: int
    ) -> None:
        self.at, rank = distinct(addr)
        key = rank * steps + born + 1
        self.order = stable_order(key)
        self._key, self._rank = key[self.order], rank[self.order]
        self._died, self._steps = died[self.order], steps
        begun = born[self.order]
        follows = self._rank[1:] == self._rank[:-1]
        self.regular = bool(
            (begun < self._died).all() and (self._died[:-1] <= begun[1:])[follows].all()
        )

    def live(self, place: NDArray[np.int64], step: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what lives at places after steps, a row of ``order``; -1 where nothing does."""
        row = np.searchsorted(self._key, place * self._steps + step + 1, side="right") - 1
        there = (row >= 0) & (self._rank[row] == place) & (self._died[row] > step)
        return np.where(there, row, -1)


def _all_at_once(
    addr: NDArray[np.int64], born: NDArray[np.int64], died: NDArray[np.int64], spans: SegmentLives
) -> Holes | None:
    """Do as ``find_holes``; None where lives overlap, or neighbours lie too far apart."""
    if not len(addr) or not len(spans):
        zero = np.zeros(len(addr), np.int64)
        return zero, zero.copy()
    steps = max(int(died.max()), int(spans.end_step.max())) + 2
    blocks = _Places(addr, born, died, steps)
    segments = _Places(spans.address, spans.start_step, spans.end_step, steps)
    if not blocks.regular or not segments.regular or steps * (len(addr) + 1) >= 2**62:
        return None
    ends = (spans.address + spans.size)[segments.order]
    end = _segment_ends(addr, born, segments, ends)
    above = None if end is None else _next_above(addr, born, end, blocks)
    if end is None or above is None:
        return None
    hole = np.where(end > 0, np.minimum(above, end) - addr, 0)

    # A block that is born above one of the baseline, while that lives, limits its size.
    bound = np.where(born < 0, hole, 0)
    first_birth = np.full(len(blocks.at), steps, np.int64)
    rank = np.searchsorted(blocks.at, addr)
    np.minimum.at(first_birth, rank, np.where(born < 0, steps, born))
    limited = np.flatnonzero(bound > 0)
    place = rank[limited] + 1
    for _ in range(_ROUNDS):
        near = (place < len(blocks.at)) & (
            blocks.at[np.minimum(place, len(blocks.at) - 1)] < addr[limited] + bound[limited]
        )
        limited, place = limited[near], place[near]
        if not len(limited):
            return np.where(born < 0, 0, hole), bound
        hit = first_birth[place] < died[limited]
        bound[limited[hit]] = blocks.at[place[hit]] - addr[limited[hit]]
        limited, place = limited[~hit], place[~hit] + 1
    return None


def _segment_ends(
    addr: NDArray[np.int64], born: NDArray[np.int64], segments: _Places, ends: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    """Return where the segment of each block ends, 0 where it is in none when it is born."""
    found = np.zeros(len(addr), np.int64)
    place = np.searchsorted(segments.at, addr, side="right") - 1
    asked = np.flatnonzero(place >= 0)
    place = place[asked]
    for _ in range(_ROUNDS):
        if not len(asked):
            ends_above: NDArray[np.int64] = np.where(addr < found, found, 0)
            return ends_above
        row = segments.live(place, born[asked])
        there = row >= 0
        found[asked[there]] = ends[row[there]]
        on = ~there & (place > 0)
        asked, place = asked[on], place[on] - 1
    return None


def _next_above(
    addr: NDArray[np.int64], born: NDArray[np.int64], end: NDArray[np.int64], blocks: _Places
) -> NDArray[np.int64] | None:
    """Return where the next block above each one begins, or where its segment ends."""
    above: NDArray[np.int64] = end.copy()
    asked = np.flatnonzero(end > 0)
    place = np.searchsorted(blocks.at, addr[asked], side="right")
    for _ in range(_ROUNDS):
        inside = place < len(blocks.at)
        inside[inside] = blocks.at[place[inside]] < end[asked[inside]]
        asked, place = asked[inside], place[inside]
        if not len(asked):
            return above
        there = blocks.live(place, born[asked]) >= 0
        above[asked[there]] = blocks.at[place[there]]
        asked, place = asked[~there], place[~there] + 1
    # The few that are left, as blocks in a segment that is nearly empty, ask everything above.
    many = np.searchsorted(blocks.at, end[asked]) - place
    if int(many.sum()) > _MOST_ASKED:
        return None
    first = np.cumsum(many) - many
    within = np.arange(int(many.sum())) - np.repeat(first, many)
    place = np.repeat(place, many) + within
    there = blocks.live(place, np.repeat(born[asked], many)) >= 0
    np.minimum.at(above, np.repeat(asked, many)[there], blocks.at[place[there]])
    return above


_SEGMENT_GONE, _FREED, _SEGMENT_MADE, _MADE = range(4)


def _moves(
    born: NDArray[np.int64], died: NDArray[np.int64], spans: SegmentLives
) -> Iterator[tuple[int, int, int]]:
    """Yield step, kind and row of each birth and death, in order of step, then kind, then row."""
    in_trace = np.flatnonzero(born >= 0)  # blocks from before the recording are there first
    parts = (
        (_SEGMENT_MADE, spans.start_step, np.arange(len(spans.start_step))),
        (_SEGMENT_GONE, spans.end_step, np.arange(len(spans.end_step))),
        (_MADE, born[in_trace], in_trace),
        (_FREED, died, np.arange(len(died))),
    )
    step = np.concatenate([steps for _, steps, _ in parts])
    kind = np.concatenate([np.full(len(steps), kind) for kind, steps, _ in parts])
    row = np.concatenate([rows for _, _, rows in parts])
    order = np.lexsort((row, kind, step))
    return zip(step[order].tolist(), kind[order].tolist(), row[order].tolist(), strict=True)


def replay_holes(
    addr: NDArray[np.int64], born: NDArray[np.int64], died: NDArray[np.int64], spans: SegmentLives
) -> Holes:
    """Do as ``find_holes``, one birth and death after the other, whatever they are."""
    addresses = addr.tolist()
    baseline = np.flatnonzero(born < 0).tolist()

    holes, bounds = [0] * len(addresses), [0] * len(addresses)
    segment_starts = sorted(spans.address[spans.start_step < 0].tolist())
    segment_end = {
        int(a): int(a + s)
        for a, s, b in zip(spans.address, spans.size, spans.start_step, strict=True)
        if b < 0
    }
    active = sorted(addresses[i] for i in baseline)
    # Baseline blocks by address, while live: a block born just above one limits its size.
    ranged = {addresses[i]: i for i in baseline}

    def hole(start: int) -> int:
        place = bisect_right(segment_starts, start) - 1
        if place < 0 or start >= (end := segment_end[segment_starts[place]]):
            return 0
        above = bisect_right(active, start)
        return min(active[above], end) - start if above < len(active) else end - start

    for i in baseline:
        bounds[i] = hole(addresses[i])
    for step, kind, i in _moves(born, died, spans):
        if kind == _MADE:
            start = addresses[i]
            place = bisect_left(active, start)
            # As hole(), which is too slow to call for each: there is one for every large block.
            segment = bisect_right(segment_starts, start) - 1
            if segment >= 0 and start < (end := segment_end[segment_starts[segment]]):
                above = place
                while above < len(active) and active[above] == start:
                    above += 1
                holes[i] = min(active[above], end) - start if above < len(active) else end - start
            if ranged and place and active[place - 1] in ranged:
                below = ranged[active[place - 1]]
                bounds[below] = min(bounds[below], start - addresses[below])
            active.insert(place, start)
        elif kind == _FREED:
            start = addresses[i]
            place = bisect_left(active, start)
            if place < len(active) and active[place] == start:
                del active[place]
            if ranged and ranged.get(start) == i:
                del ranged[start]
        elif kind == _SEGMENT_MADE and step >= 0:
            address = int(spans.address[i])
            insort(segment_starts, address)
            segment_end[address] = address + int(spans.size[i])
        elif kind == _SEGMENT_GONE:
            address = int(spans.address[i])
            place = bisect_left(segment_starts, address)
            if place < len(segment_starts) and segment_starts[place] == address:
                del segment_starts[place]
    return np.array(holes, np.int64), np.array(bounds, np.int64)
