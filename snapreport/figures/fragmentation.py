"""What the allocator did with its segments: fragmentation after every event, pools and kinds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from snapreport.figures.curves import Curves, reserved_from
from snapreport.ground.memoize import once_for_each
from snapreport.history.block_sizes import SMALL_SIZE
from snapreport.history.segment_replay import lives_of
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import START, Allocations, DeviceHistory
from snapreport.model.segment_lives import LARGE, SMALL, AllocatorUse, SegmentLives
from snapreport.model.snapshot import NO_ID
from snapreport.native import sweeps
from snapreport.native.sorting import distinct, stable_order

_SMALL_SEGMENT = 2**21
"""Segments of the small pool have this size; only expandable ones differ."""
_UNKNOWN = -1


@once_for_each
def allocator_of(device: DeviceFigures) -> AllocatorUse:
    """Return a device's segments over time, and the fragmentation after every event."""
    return find_allocator_use(device.history, device.curves)


def find_allocator_use(history: DeviceHistory, curves: Curves) -> AllocatorUse:
    """Follow every allocation through the segments."""
    lives = lives_of(history)
    if "reserved" not in curves:  # a profiler's segments only frame the addresses that it saw
        none = np.zeros(len(lives), np.bool_)
        unknown = np.full(history.events + 1, _UNKNOWN, np.int64)
        return AllocatorUse(lives.where(none), unknown, START)
    born, freed = _segments_around(history, lives)
    fragmentation = fragmentation_of(history, lives, born, freed)
    fragmentation[: (reserved_from(curves) or 0) + 1] = _UNKNOWN
    named = _infer_pools(lives, history.allocations, born)
    return AllocatorUse(named, fragmentation, int(fragmentation.argmax()) - 1)


def _segments_around(
    history: DeviceHistory, lives: SegmentLives
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return each allocation's segment at its birth and just after its end, NO_ID for none."""
    rows = history.allocations
    born = locate(lives, rows.alloc_event, rows.addr)  # they come in birth order
    # Allocations that live on are looked up at the last event.
    event = np.minimum(rows.free_event, history.events - 1)
    freed = born.copy()
    # A segment that is still there is still the one that holds the address.
    until = np.append(lives.end_event, START)  # the last is for NO_ID, -1
    changed = np.flatnonzero(until[born] <= event)
    changed = changed[stable_order(event[changed])]
    freed[changed] = locate(lives, event[changed], rows.addr[changed])
    return born, freed


def locate(
    lives: SegmentLives, events: NDArray[np.int64], addresses: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Return the segment that holds each address after its event; events ascend.

    Returns:
        int32, shape (len(events),): rows of ``lives``, NO_ID where none does.
    """
    spans = (lives.address, lives.size, lives.start_event, lives.end_event)
    return sweeps.locate(spans, stable_order(lives.end_event), events, addresses)


def fragmentation_of(
    history: DeviceHistory,
    lives: SegmentLives,
    born: NDArray[np.int32],
    freed: NDArray[np.int32],
) -> NDArray[np.int64]:
    """Add up what each segment wastes, ``size - used`` while anything in it is in use."""
    rows = history.allocations
    live = rows.free_event > rows.alloc_event
    # Blocks that the segment had when it began, in another shape: a run of mapped memory changes.
    moved = np.flatnonzero(live & ((born != freed) | (born == NO_ID)))
    before = _used_before(lives, rows, moved)
    columns = (rows.alloc_event, rows.free_event, rows.block_size)
    segments = (lives.start_event, lives.end_event, lives.size, before)
    return sweeps.fragmentation(columns, (born, freed), segments, history.events)


def _used_before(
    lives: SegmentLives, rows: Allocations, moved: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Add up, for each segment, the blocks in its range that were live just before it began."""
    event = np.concatenate([rows.alloc_event[moved], rows.free_event[moved]])
    order = stable_order(event)
    change = np.concatenate([rows.block_size[moved], -rows.block_size[moved]])[order]
    earlier = np.searchsorted(event[order], lives.start_event, side="left")
    below = sum_of_first_below(
        np.tile(rows.addr[moved], 2)[order],
        change,
        np.tile(earlier, 2),
        np.concatenate([lives.address, lives.address + lives.size]),
    )
    return below[len(lives) :] - below[: len(lives)]


def sum_of_first_below(
    values: NDArray[np.int64],
    weights: NDArray[np.int64],
    first: NDArray[np.int64],
    bound: NDArray[np.int64],
) -> NDArray[np.int64]:
    """For each query look at its first values, and add up the weights of those below its bound.

    Args:
        values, weights: int64, shape (n,).
        first, bound: int64, shape (m,): the queries.

    Returns:
        int64, shape (m,).

    Source: wavelet matrix (Claude, Navarro, Ordonez 2015): n + m steps for each bit of a rank.
    """
    bounds, place = distinct(bound)
    rank = np.searchsorted(bounds, values, side="right")
    wanted = place + 1  # values of a smaller rank are below the bound
    left, right = np.zeros_like(first), first.copy()
    total = np.zeros(len(first), np.int64)
    for bit in reversed(range(len(bounds).bit_length())):
        low = (rank >> bit) & 1 == 0
        lows = np.concatenate([[0], np.cumsum(low)])
        sums = np.concatenate([[0], np.cumsum(np.where(low, weights, 0))])
        beyond = (wanted >> bit) & 1 == 1
        total += np.where(beyond, sums[right] - sums[left], 0)
        left, right = (
            np.where(beyond, lows[-1] + end - lows[end], lows[end]) for end in (left, right)
        )
        order = np.concatenate([np.flatnonzero(low), np.flatnonzero(~low)])
        rank, weights = rank[order], weights[order]
    return total


def _infer_pools(lives: SegmentLives, rows: Allocations, born: NDArray[np.int32]) -> SegmentLives:
    """Fill in pool and kind of segments that were gone at the end from what was in them."""
    pool, kind = lives.pool.copy(), lives.kind.copy()
    inside = np.flatnonzero(born != NO_ID)
    family = lives.family[born[inside]]
    size = rows.block_size[inside]
    guesses = (
        (pool, rows.pool[inside]),
        (kind, np.where(size <= SMALL_SIZE, SMALL, LARGE)),
    )
    for column, stated in guesses:
        of_family = np.full(int(lives.family.max(initial=-1)) + 1, NO_ID, column.dtype)
        known = stated != NO_ID
        of_family[family[known]] = stated[known]
        unknown = column == NO_ID
        column[unknown] = of_family[lives.family[unknown]]
    by_size = (kind == NO_ID) & ~lives.expandable
    kind[by_size] = np.where(lives.size[by_size] <= _SMALL_SEGMENT, SMALL, LARGE)
    return replace(lives, pool=pool, kind=kind)
