"""The hole that each block was put in, one birth and death after the other."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from snapreport.model.replays import SegmentLives

Holes = tuple[NDArray[np.int64], NDArray[np.int64]]

_SEGMENT_GONE, _FREED, _SEGMENT_MADE, _MADE = range(4)


def _moves(
    born: NDArray[np.int64], died: NDArray[np.int64], spans: SegmentLives
) -> Iterator[tuple[int, int, int]]:
    """Yield event, kind and row of each birth and death, in order of event, then kind, then row."""
    in_trace = np.flatnonzero(born >= 0)  # blocks from before the recording are there first
    parts = (
        (_SEGMENT_MADE, spans.start_event, np.arange(len(spans.start_event))),
        (_SEGMENT_GONE, spans.end_event, np.arange(len(spans.end_event))),
        (_MADE, born[in_trace], in_trace),
        (_FREED, died, np.arange(len(died))),
    )
    event = np.concatenate([events for _, events, _ in parts])
    kind = np.concatenate([np.full(len(events), kind) for kind, events, _ in parts])
    row = np.concatenate([rows for _, _, rows in parts])
    order = np.lexsort((row, kind, event))
    return zip(event[order].tolist(), kind[order].tolist(), row[order].tolist(), strict=True)


def among_others(addr: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return addresses as ``find_holes`` takes them, with some at which no block begins."""
    at = np.unique(np.concatenate([addr, addr + 1]))
    return at, np.searchsorted(at, addr)


def replay_holes(
    addr: NDArray[np.int64], born: NDArray[np.int64], died: NDArray[np.int64], spans: SegmentLives
) -> Holes:
    """Do as ``block_sizes.find_holes``."""
    addresses = addr.tolist()
    baseline = np.flatnonzero(born < 0).tolist()

    holes, bounds = [0] * len(addresses), [0] * len(addresses)
    segment_starts = sorted(spans.address[spans.start_event < 0].tolist())
    segment_end = {
        int(a): int(a + s)
        for a, s, b in zip(spans.address, spans.size, spans.start_event, strict=True)
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
    for event, kind, i in _moves(born, died, spans):
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
        elif kind == _SEGMENT_MADE and event >= 0:
            address = int(spans.address[i])
            insort(segment_starts, address)
            segment_end[address] = address + int(spans.size[i])
        elif kind == _SEGMENT_GONE:
            address = int(spans.address[i])
            place = bisect_left(segment_starts, address)
            if place < len(segment_starts) and segment_starts[place] == address:
                del segment_starts[place]
    return np.array(holes, np.int64), np.array(bounds, np.int64)
