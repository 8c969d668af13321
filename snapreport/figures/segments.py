"""A device's segments: what they waste over time, what is in them at an event, what keeps them.

A plain segment only goes back to the driver as a whole. Of an expandable one single pages do, so
each page counts as a segment of its own.
"""

from __future__ import annotations

from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from snapreport.figures.curves import place_blocks
from snapreport.ground.later import later
from snapreport.ground.memoize import once_for_each
from snapreport.ground.native.columns import distinct, stable_order, sum_groups
from snapreport.ground.native.columns import fragmentation as sweep_fragmentation
from snapreport.ground.records import dataclass
from snapreport.history.allocator_settings import SMALL_SEGMENT, large_page
from snapreport.history.block_sizes import infer_pools
from snapreport.history.segments import born_in, lives_of, locate
from snapreport.model.findings import Curves, DeviceFigures
from snapreport.model.history import START, Allocations, DeviceHistory, History
from snapreport.model.replays import SMALL, AllocatorUse, SegmentLives
from snapreport.model.snapshot import NO_ID

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

    @cache
    def fragmentation() -> NDArray[np.int64]:
        born = born_in(history)
        freed = _segments_at_end(history, lives, born)
        found = fragmentation_of(history, lives, born, freed)
        found[: (curves.reserved_from or 0) + 1] = _UNKNOWN
        return found

    return AllocatorUse(
        infer_pools(history),
        later(fragmentation),
        later(lambda: int(fragmentation().argmax()) - 1),
    )


def _segments_at_end(
    history: DeviceHistory, lives: SegmentLives, born: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Return each allocation's segment just after its end, NO_ID for none.

    Args:
        history: the device.
        lives: of its segments.
        born: the segment of each at its birth.
    """
    rows = history.allocations
    # Allocations that live on are looked up at the last event.
    event = np.minimum(rows.free_event, history.events - 1)
    freed: NDArray[np.int32] = born.copy()
    # A segment that is still there is still the one that holds the address.
    until = np.append(lives.end_event, START)  # the last is for NO_ID, -1
    changed = np.flatnonzero(until[born] <= event)
    changed = changed[stable_order(event[changed])]
    freed[changed] = locate(lives, event[changed], rows.addr[changed])
    return freed


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
    return sweep_fragmentation(columns, (born, freed), segments, history.events)


def _used_before(
    lives: SegmentLives, rows: Allocations, moved: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Add up, for each segment, the blocks in its range that were live just before it began."""
    if not len(moved):
        return np.zeros(len(lives), np.int64)
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


# The segments of a device at one event, the blocks in them, and the holes between.


@dataclass(frozen=True, eq=False)
class Heap:
    """Segments in address order, with their active blocks in address order."""

    address: NDArray[np.int64]
    """int64, shape (n_segments,), as the next six columns."""
    size: NDArray[np.int64]
    stream: NDArray[np.int64]
    private: NDArray[np.bool_]
    pool: NDArray[np.int32]
    kind: NDArray[np.int8]
    expandable: NDArray[np.bool_]
    large_page: int
    """The bytes that expandable segments of the large pool get and give back at a time; a multiple
    of them where the size is not known."""

    row: NDArray[np.int64]
    """Rows of ``Allocations``; int64, shape (n_blocks,), as the remaining columns."""
    segment: NDArray[np.int64]
    """Places in the segment arrays."""
    start: NDArray[np.int64]
    bytes: NDArray[np.int64]
    pending: NDArray[np.bool_]
    """Whether its free was requested, but is not complete."""

    @cached_property
    def used(self) -> NDArray[np.int64]:
        """What blocks take of each segment; int64, shape (n_segments,), in bytes."""
        return sum_groups(self.segment, self.bytes, len(self.address))

    @property
    def granule(self) -> NDArray[np.int64]:
        """The unit in which each segment's memory goes back to the driver; (n_segments,)."""
        # Where nothing tells the kind, the larger: what is said to go back does so for certain.
        page = np.where(self.kind == SMALL, SMALL_SEGMENT, self.large_page)
        return np.where(self.expandable, page, self.size)

    @cached_property
    def edges(self) -> tuple[NDArray[np.int64], ...]:
        """What holes lie between, in address order: blocks, and marks at segments' ends.

        Returns:
            int64, shape (n_blocks + 2 * n_segments,): the block or -1, its segment, its first
            address and the one behind it. A mark has no size, so an empty segment is a hole
            between its own two.
        """
        n = len(self.address)
        marks, none = np.arange(n, dtype=np.int64), np.full(n, -1, np.int64)
        last = self.address + self.size
        block = np.concatenate([none, np.arange(len(self.row), dtype=np.int64), none])
        of = np.concatenate([marks, self.segment, marks])
        begin = np.concatenate([self.address, self.start, last])
        end = np.concatenate([self.address, self.start + self.bytes, last])
        rank = np.repeat([0, 1, 2], [n, len(self.row), n])
        order = np.lexsort((rank, begin, of))
        return block[order], of[order], begin[order], end[order]


@dataclass(frozen=True, eq=False)
class Holes:
    """The free ranges of a heap; arrays of shape (n,)."""

    segment: NDArray[np.int64]
    start: NDArray[np.int64]
    """Bytes from the beginning of the segment."""
    size: NDArray[np.int64]


def heap_at(tables: History, device: DeviceFigures, event: int) -> Heap:
    """Return the heap after an event; blocks outside of every segment are left out.

    Args:
        tables: the file.
        device: the device's figures.
        event: -1 for the start.
    """
    lives, rows = allocator_of(device).segments, device.history.allocations
    there, live, segment = place_blocks(lives, rows, event)
    order = np.argsort(rows.addr[live], kind="stable")
    live = live[order]
    return Heap(
        address=lives.address[there],
        size=lives.size[there],
        stream=lives.stream[there],
        private=tables.private[lives.pool[there]],
        pool=lives.pool[there],
        kind=lives.kind[there],
        expandable=lives.expandable[there],
        large_page=large_page(tables.settings, device.history),
        row=live,
        segment=segment[order],
        start=rows.addr[live],
        bytes=rows.block_size[live],
        pending=rows.free_requested_event[live] <= event,
    )


def find_holes(heap: Heap, kept: NDArray[np.bool_] | None = None) -> Holes:
    """Return the free ranges of a heap, whole free segments among them.

    Args:
        heap: the segments and blocks.
        kept: bool, shape (n_blocks,): the blocks that count; None for all.
    """
    block, of, begin, end = heap.edges
    if kept is not None:
        # Marks are no blocks: -1 is the last place, which is always kept.
        there = np.append(kept, True)[block]
        of, begin, end = of[there], begin[there], end[there]
    gap = begin[1:] - end[:-1]
    free = np.flatnonzero((of[1:] == of[:-1]) & (gap > 0))
    return Holes(of[free], end[free] - heap.address[of[free]], gap[free])


def returnable_bytes(heap: Heap, holes: Holes) -> NDArray[np.int64]:
    """Return how much of each hole could go back to the driver: whole segments or pages; (n,).

    A private pool keeps what it has as long as anything uses the pool.
    """
    return np.where(heap.private[holes.segment], 0, whole_bytes(heap, holes))


def whole_bytes(heap: Heap, holes: Holes) -> NDArray[np.int64]:
    """Return how much of each hole is in whole segments or pages that nothing uses; (n,)."""
    granule = heap.granule[holes.segment]
    first = -(-holes.start // granule) * granule
    last = (holes.start + holes.size) // granule * granule
    return np.maximum(last - first, 0)


FEW = 2
"""The most blocks that may keep a segment to be listed."""
SMALL_PART = 0.125
"""The largest part of a segment that these blocks may fill together."""


@dataclass(frozen=True, eq=False)
class Returnables:
    """What goes back to the driver as a whole: plain segments, and pages of expandable ones.

    Arrays of shape (n,), in address order.
    """

    segment: NDArray[np.int64]
    """Which of the heap's segments each is in."""
    address: NDArray[np.int64]
    size: NDArray[np.int64]
    free: NDArray[np.int64]
    """Bytes in no block."""
    live: NDArray[np.int64]
    """Number of blocks that overlap it."""
    held: NDArray[np.int64]
    """Bytes of these blocks, including their parts in other pages."""
    first: NDArray[np.int64]
    """The first and the last of them, places in the heap's blocks; they are those of the blocks
    before and behind where there is none. Likewise the next."""
    last: NDArray[np.int64]

    @property
    def kept(self) -> NDArray[np.int64]:
        """Free bytes that cannot go back, as something in the same segment or page is in use."""
        return np.where(self.live > 0, self.free, 0)


@dataclass(frozen=True)
class KeptSegment:
    """A segment, or a page of an expandable one, that few small blocks keep."""

    address: int
    size: int
    kept: int
    """Bytes that are free in it."""
    rows: tuple[int, ...]
    """The blocks' rows in ``Allocations``, by address."""


def find_returnables(heap: Heap) -> Returnables:
    """Divide a heap into what goes back to the driver as a whole, and count what is in it."""
    granule = np.where(heap.expandable, heap.granule, np.maximum(heap.size, 1))
    parts = -(-heap.size // granule)
    of = np.repeat(np.arange(len(parts)), parts)
    begins = np.cumsum(parts) - parts
    offset = (np.arange(len(of)) - begins[of]) * granule[of]
    size = np.minimum(granule[of], heap.size[of] - offset)
    address = heap.address[of] + offset
    # A block may lie in several pages: in each it has what overlaps.
    start = np.append(heap.start, np.iinfo(np.int64).max)
    end = np.minimum(heap.start + heap.bytes, (heap.address + heap.size)[heap.segment])
    first = np.searchsorted(heap.start, address, side="right") - 1
    into = np.append(end, 0)[first] > address  # -1 is the last, which is none
    first = np.where(into, first, first + 1)
    behind = np.searchsorted(heap.start, address + size, side="left")
    sums = np.concatenate([[0], np.cumsum(end - heap.start)])
    held = sums[behind] - sums[first]
    used = held - np.where(into, address - start[first], 0)
    some = np.flatnonzero(behind > first)
    used[some] -= np.maximum(end[behind[some] - 1] - (address + size)[some], 0)
    return Returnables(of, address, size, size - used, behind - first, held, first, behind - 1)


def kept_segments(heap: Heap, among: NDArray[np.bool_] | None = None) -> tuple[KeptSegment, ...]:
    """Return the segments that at most ``FEW`` small blocks keep, the most kept bytes first.

    Those of private pools are left out: a pool keeps what it has.

    Args:
        heap: the segments and blocks.
        among: bool, shape (n_segments,): those to look at; None for all.
    """
    found = find_returnables(heap)
    few = (found.live > 0) & (found.live <= FEW) & ~heap.private[found.segment]
    few &= found.held <= SMALL_PART * found.size
    if among is not None:
        few &= among[found.segment]
    places = np.flatnonzero(few)
    places = places[np.argsort(-found.free[places], kind="stable")]
    return tuple(
        KeptSegment(
            address=int(found.address[i]),
            size=int(found.size[i]),
            kept=int(found.free[i]),
            rows=tuple(heap.row[found.first[i] : found.last[i] + 1].tolist()),
        )
        for i in places
    )
