"""The segments of a device at one event, the blocks in them, and the holes between."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from snapreport.figures.fragmentation import allocator_of
from snapreport.figures.reserved_parts import place_blocks
from snapreport.history.allocator_settings import SMALL_SEGMENT, large_page
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import History
from snapreport.model.segment_lives import SMALL
from snapreport.native.sorting import sum_groups


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
    private = np.array([*(pool != (0, 0) for pool in tables.pools), False])  # the last is for NO_ID
    return Heap(
        address=lives.address[there],
        size=lives.size[there],
        stream=lives.stream[there],
        private=private[lives.pool[there]],
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
