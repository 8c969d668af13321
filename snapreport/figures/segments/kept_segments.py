"""Segments that cannot go back to the driver because of one or two small live blocks.

A plain segment only goes back as a whole; of an expandable one, single pages do, so each page
counts as a segment of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from snapreport.figures.heap import Heap

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
    """Places in the heap's segments."""
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
