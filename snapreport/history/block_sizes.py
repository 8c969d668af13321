"""Block sizes: the allocator's rounding, and the hole rule that recovers unsplit blocks.

Source: CUDACachingAllocator.cpp (round_size, get_pool, should_split) and the snapshot-format
notes 5.3. Free neighbours merge, so the hole that an allocation was put in ends at the next active
block above it, or at its segment's end. The hole was split if enough remained; else the block is
the entire hole.

For a block from before the recording, the hole is not known. But what is split off a block of the
large pool is above 1 MiB, and merging only makes it larger, so no free block there is smaller. So
if the next active block or the segment's end is at most 1 MiB after the end of the request, there
is no free block in between, and the block reaches that far. The same holds if another block is born
there during its life: a block is born at the front of its hole.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.memoize import once_for_each, shared
from snapreport.ground.native import columns
from snapreport.ground.native.columns import is_among, stable_order, sum_live, unique
from snapreport.ground.records import dataclass
from snapreport.history.allocator_settings import SMALL_SEGMENT, AllocatorSettings
from snapreport.history.segments import born_in, code_actions, lives_of
from snapreport.model.history import DeviceHistory
from snapreport.model.replays import LARGE, SMALL, SegmentLives
from snapreport.model.snapshot import INACTIVE, MOST_BYTES, NO_ID, Segments

MIN_BLOCK = 512
SMALL_SIZE = 2**20
"""The most, after rounding, that the small pool serves; also the least remainder of a split."""


def round_sizes(sizes: NDArray[np.int64], rules: AllocatorSettings) -> NDArray[np.int64]:
    """Round requested bytes as the allocator does before it looks for a block.

    Args:
        sizes: int64, shape (n,), requested bytes.
        rules: the allocator's settings.

    Returns:
        int64, shape (n,), bytes.
    """
    if rules.unknown:
        return sizes
    sizes = sizes + rules.padding
    if rules.pinned:
        powers = [1 << max(size - 1, 0).bit_length() for size in sizes.tolist()]
        return np.where(sizes > rules.pinned_limit, sizes, np.array(powers, np.int64))
    rounded: NDArray[np.int64] = np.maximum((sizes + (MIN_BLOCK - 1)) & -MIN_BLOCK, MIN_BLOCK)
    divisions = rules.roundup_power2_divisions
    if not divisions:
        return rounded
    power = np.frexp(np.maximum(sizes, 1).astype(np.float64))[1] - 1
    floor = np.left_shift(np.int64(1), power.astype(np.int64))
    # A number may be a stranger's: above this none divides anything, and sums stay in 64 bits.
    known = np.array([min(each, MOST_BYTES // MIN_BLOCK) for each in divisions], np.int64)
    parts = known[np.clip(power - 20, 0, 15)]
    divided = (parts > 1) & (sizes > MIN_BLOCK * parts) & (sizes != floor)
    part = np.where(divided, floor // np.maximum(parts, 1), 1)
    return np.where(divided, -(-sizes // part) * part, rounded)


def most_unused(rounded: NDArray[np.int64], rules: AllocatorSettings) -> NDArray[np.int64]:
    """Return by how much a block may be larger than its rounded request, as what is left is kept.

    Args:
        rounded: int64, shape (n,), bytes.
        rules: the allocator's settings.

    Returns:
        int64, shape (n,), bytes.
    """
    if rules.expandable_segments or rules.pinned or rules.unknown:
        return np.zeros_like(rounded)
    most = np.where(rounded < rules.max_split_size, SMALL_SIZE, rules.rounding)
    return np.where(rounded > SMALL_SIZE, most, 0)


def recover_block_sizes(
    places: tuple[NDArray[np.int64], NDArray[np.int64]],
    rounded: NDArray[np.int64],
    alloc_event: NDArray[np.int64],
    free_event: NDArray[np.int64],
    spans: SegmentLives,
    rules: AllocatorSettings,
    unsplit: NDArray[np.bool_] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find the block bytes of each allocation.

    Args:
        places: int64, addresses, ascending; and int64, shape (n,), which of them each one is at.
        rounded, alloc_event, free_event: int64, shape (n,), as in ``Allocations``; alloc_event is
            -1 for the baseline.
        spans: the non-expandable segments over their lives.
        rules: the allocator's settings.
        unsplit: bool, shape (n,): those in pools made with ``no_split``; None for none.

    Returns:
        lower and upper bound, int64, shape (n,); equal for all but some large baseline blocks.
    """
    low, high = rounded.copy(), rounded.copy()
    if unsplit is None:
        unsplit = np.zeros(len(rounded), np.bool_)
    if rules.expandable_segments or rules.pinned or rules.unknown:
        return low, high  # nothing remains: 512 bytes are enough to be split off
    rows = np.flatnonzero((rounded > SMALL_SIZE) | unsplit)
    at, place = places  # many blocks are at few addresses
    rows = rows[_in_some_span(at, spans)[place[rows]]]
    hole, bound = find_holes((at, place[rows]), alloc_event[rows], free_event[rows], spans)
    size = rounded[rows]
    splits = (size < rules.max_split_size) & ~unsplit[rows]
    whole = (hole > 0) & ~(splits & (hole - size > SMALL_SIZE))
    low[rows] = high[rows] = np.where(whole, hole, size)
    # The baseline's holes are not known, only that a block ends before the next one.
    baseline = np.flatnonzero(alloc_event[rows] < 0)
    rows, size, bound = (each[baseline] for each in (rows, size, bound))
    splits = splits[baseline]
    most = np.minimum(np.where(splits, size + SMALL_SIZE, bound), bound)
    ends = splits & (bound > 0) & (bound - size <= SMALL_SIZE) & (not rules.mixed)
    low[rows] = np.where(ends, np.maximum(size, bound), size)
    high[rows] = np.maximum(size, most)
    return low, high


def find_unsplit_pools(segments: Segments, rules: AllocatorSettings) -> NDArray[np.int64]:
    """Return the private pools that show that they were made with ``no_split``.

    Each of their blocks is an entire segment, and one at least is so much larger than its request
    that any other pool would have split it.

    Returns:
        int64, ascending: rows of ``History.pools``.
    """
    if rules.pinned or not len(segments):
        return np.empty(0, np.int64)
    of = segments.block_segment
    pool = segments.pool[of].astype(np.int64)
    small = ~segments.large[of]
    used = segments.block_state != INACTIVE
    rest = segments.block_size - round_sizes(np.maximum(segments.block_requested, 1), rules)
    oversize = segments.block_size - rest >= rules.max_split_size
    splits = used & ~segments.expandable[of] & ~oversize
    splits &= np.where(small, rest >= MIN_BLOCK, rest > SMALL_SIZE)
    whole = segments.block_size == segments.size[of]
    found = unique(pool[splits & whole])
    return found[~is_among(found, pool[~whole])]


@once_for_each
def infer_pools(history: DeviceHistory) -> SegmentLives:
    """Return ``lives_of()``, with pool and kind of those gone at the end from what was in them."""
    lives, rows, born = lives_of(history), history.allocations, born_in(history)
    pool, kind = lives.pool.copy(), lives.kind.copy()
    for column, known in ((pool, rows.pool != NO_ID), (kind, slice(None))):
        # The last row of each life that tells, and of those of a family the last one.
        last = np.full(len(lives) + 1, NO_ID, np.int64)  # that behind all is for NO_ID, -1
        last[born[known]] = np.arange(len(rows))[known]
        told = np.flatnonzero(last[:-1] != NO_ID)
        told = told[np.argsort(last[told])]
        row = last[told]
        small = np.where(rows.block_size[row] <= SMALL_SIZE, SMALL, LARGE)
        of_family = np.full(int(lives.family.max(initial=-1)) + 1, NO_ID, column.dtype)
        of_family[lives.family[told]] = rows.pool[row] if column is pool else small
        unknown = column == NO_ID
        column[unknown] = of_family[lives.family[unknown]]
    by_size = (kind == NO_ID) & ~lives.expandable
    kind[by_size] = np.where(lives.size[by_size] <= SMALL_SEGMENT, SMALL, LARGE)
    return replace(lives, pool=shared(pool), kind=shared(kind))


def _in_some_span(addr: NDArray[np.int64], spans: SegmentLives) -> NDArray[np.bool_]:
    """Say for each address whether a non-expandable segment ever covered it."""
    order = stable_order(spans.address)
    starts = spans.address[order]
    reach = np.maximum.accumulate(starts + spans.size[order]) if len(starts) else starts
    place = np.searchsorted(starts, addr, side="right") - 1
    inside = place >= 0
    inside[inside] = addr[inside] < reach[place[inside]]
    return inside


def find_holes(
    places: tuple[NDArray[np.int64], NDArray[np.int64]],
    born: NDArray[np.int64],
    died: NDArray[np.int64],
    spans: SegmentLives,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find the size of the hole that each block was put in.

    Args:
        places: int64, addresses, ascending; and int64, shape (n,), at which of them blocks begin.
        born: int64, shape (n,), the event of each one's alloc, negative for the baseline.
        died: int64, shape (n,), the event of its free.
        spans: the segments over their lives.

    Returns:
        int64, shape (n,): each block's hole at its birth, in bytes; 0 if in no live segment, and
        for the baseline. And int64, shape (n,): for the baseline the least distance to a block
        above it, or to its segment's end, over its whole life; else 0.
    """
    at, place = places
    start, end = spans.start_event, spans.end_event
    blocks = (place, born, died, stable_order(born), stable_order(died))
    ends = spans.address + spans.size
    around = (spans.address, ends, start, end, stable_order(start), stable_order(end))
    return columns.holes(at, blocks, around)


@dataclass(frozen=True)
class LiveFloor:
    """The most live requests at any moment, each rounded up to 512 bytes.

    So much memory is needed under any setting of the allocator.
    """

    bytes: int
    event: int
    """The first event with that much; -1 is the start."""
    failed: bool
    """Whether a request that failed there is included."""


def live_floor(history: DeviceHistory, divided: bool) -> LiveFloor:
    """Add up live requests, and each that failed to those live then.

    A request counts until its free is asked for, so what waits for another stream does not, nor
    does what a block holds beyond the request.

    Args:
        history: the device.
        divided: whether ``roundup_power2_divisions`` was set. A failed request is recorded as it
            was rounded: by at most as much again then.
    """
    rows = history.allocations
    sizes = round_sizes(rows.size, AllocatorSettings())
    curve = sum_live(sizes, rows.alloc_event, rows.free_requested_event, history.events)
    place = int(curve.argmax())
    floor = LiveFloor(int(curve[place]), place - 1, failed=False)
    other = history.other
    failed = np.flatnonzero(code_actions(other, {"oom": 1}, 0))
    if not len(failed):
        return floor
    wanted = curve[other.event[failed] + 1] + other.size[failed] // (2 if divided else 1)
    most = int(wanted.argmax())
    if wanted[most] <= floor.bytes:
        return floor
    return LiveFloor(int(wanted[most]), int(other.event[failed[most]]), failed=True)


def live_at(history: DeviceHistory, event: int) -> int:
    """Return the bytes of the requests that are live after an event, each rounded up to 512."""
    rows = history.allocations
    live = rows.live_at(event)
    return int(round_sizes(rows.size[live], AllocatorSettings()).sum())
