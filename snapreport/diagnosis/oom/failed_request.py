"""Whether the allocator could serve a request from a heap: from a hole, or by the driver.

Source: CUDACachingAllocator.cpp, ``get_free_block``, ``get_allocation_size``,
``try_allocate_expandable_block``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from snapreport.figures.heap import (
    Heap,
    Holes,
    find_holes,
    returnable_bytes,
)
from snapreport.history.allocator_settings import (
    SMALL_SEGMENT,
    AllocatorSettings,
    segment_sizes,
)
from snapreport.history.block_sizes import SMALL_SIZE
from snapreport.model.segment_lives import LARGE, SMALL
from snapreport.model.snapshot import NO_ID


@dataclass(frozen=True)
class Request:
    """A request for memory."""

    size: int
    """In bytes, rounded as the allocator does."""
    stream: int
    settings: tuple[AllocatorSettings, ...]
    """What the program may have run under: several only differ in the size of large segments."""
    pool: int = NO_ID
    """Row of ``History.pools`` for a private pool, NO_ID for the default pool."""

    @property
    def kind(self) -> int:
        """The kind of segments that serve it."""
        return SMALL if self.size <= SMALL_SIZE else LARGE

    def sources(self, heap: Heap) -> NDArray[np.bool_]:
        """Say which segments could serve it; (n_segments,)."""
        pool = ~heap.private if self.pool == NO_ID else heap.private & (heap.pool == self.pool)
        same: NDArray[np.bool_] = (heap.stream == self.stream) & (heap.kind == self.kind)
        return pool & same

    def fitting(self, sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Say which holes of its segments the allocator would take for it; (n,)."""
        limit = self.settings[0].max_split_size
        if self.size < limit:
            return (sizes >= self.size) & (sizes < limit)
        room = min(each.rounding for each in self.settings)
        return (sizes >= self.size) & (sizes < self.size + room)

    def from_driver(self, heap: Heap, holes: Holes) -> tuple[int, int]:
        """Return the least and the most bytes the driver has to give: a segment, or pages.

        An expandable segment grows after its last block, so the free part of a page there need not
        come from the driver. Which of several segments grows depends on the addresses they have
        left, which the recording does not show. Whole free pages are assumed to be given back.
        """
        asked = np.array([self.size])
        if not self.settings[0].expandable_segments:
            whole = [int(segment_sizes(asked, each)[0]) for each in self.settings]
            return min(whole), max(whole)
        at_end = (
            self.sources(heap)[holes.segment]
            & heap.expandable[holes.segment]
            & (holes.start + holes.size == heap.size[holes.segment])
        )
        least, most = [], []
        for each in self.settings:
            granule = SMALL_SEGMENT if self.kind == SMALL else each.large_segment_size
            rest = np.minimum(-holes.start[at_end] % granule, holes.size[at_end])
            least.append(_up(max(self.size - int(rest.max(initial=0)), 0), granule))
            most.append(_up(self.size, granule))
        return min(least), max(most)


@dataclass(frozen=True)
class Room:
    """What a heap has for a request, in bytes."""

    hole: int
    """The largest hole in segments that could serve it."""
    fits: bool
    """Whether the allocator would take one of the holes."""
    needed: int
    """The least that the driver would have to give if no hole is taken."""
    needed_most: int
    returnable: int
    """What the allocator could first give back to the driver."""

    def serves(self, device_free: int) -> bool:
        """Say whether the request would succeed for certain."""
        return self.fits or self.needed_most <= device_free + self.returnable


def find_room(heap: Heap, request: Request, kept: NDArray[np.bool_] | None = None) -> Room:
    """Return the room that a heap has for a request.

    Args:
        heap: the segments and blocks.
        request: what is asked for.
        kept: bool, shape (n_blocks,): the blocks to keep, the others being freed; None for all.
    """
    holes = find_holes(heap, kept)
    needed, needed_most = request.from_driver(heap, holes)
    own = holes.size[request.sources(heap)[holes.segment]]
    return Room(
        hole=int(own.max(initial=0)),
        fits=bool(request.fitting(own).any()),
        needed=needed,
        needed_most=needed_most,
        # While a graph is captured into a private pool the allocator gives nothing back.
        returnable=int(returnable_bytes(heap, holes).sum()) if request.pool == NO_ID else 0,
    )


def _up(size: int, unit: int) -> int:
    return -(-size // unit) * unit
