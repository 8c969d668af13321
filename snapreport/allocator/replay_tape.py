"""The tape of a device: what the program asked of the allocator, and what the allocator did.

The program allocates, frees and calls ``empty_cache()``. The allocator decides which block serves
an allocation, and which segments come and go; that is kept to compare a replay with.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.object_display import Shown

ALLOCATE, FREE, AWAIT, EMPTY_CACHE, FAIL = range(5)
"""Kinds of operations, as in allocator.c. ``AWAIT``: freed, but another stream may still use it;
``FAIL``: a request that failed when it was recorded."""

CERTAINLY, PERHAPS = 1, 2
MOST_ROOM = 1 << 42
"""The address range of an expandable segment, if unknown: more than any card has memory."""

MADE, RETURNED, MAPPED, UNMAPPED = range(4)
"""Kinds of segment events, as in allocator.c."""
SEGMENT_CODES = {
    "segment_alloc": MADE,
    "segment_free": RETURNED,
    "segment_map": MAPPED,
    "segment_unmap": UNMAPPED,
}
DEFAULT_POOL = (0, 0)
MOST_POOLS = 62
"""The most private pools: each is one bit of a number."""


@dataclass(frozen=True, eq=False)
class SegmentEvents(Shown):
    """Segment events in order; int64, shape (n,)."""

    op: NDArray[np.int64]
    """The operation that caused each; NO_ID where none did, as at the end of a recording."""
    kind: NDArray[np.int64]
    address: NDArray[np.int64]
    size: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.op)

    @property
    def table(self) -> NDArray[np.int64]:
        """All four columns, as a replay returns them; int64, shape (n, 4)."""
        return np.stack([self.op, self.kind, self.address, self.size], axis=1)


@dataclass(frozen=True, eq=False)
class ReplayTape(Shown):
    """The operations of one device, its state before them, and what the allocator did."""

    lanes: list[tuple[tuple[int, int], int]]
    """Pool and stream of each lane, the default pool first; a block only serves its own lane."""

    op: NDArray[np.int64]
    """Kind of each operation; int64, shape (n_ops,), as are all columns of this group."""
    row: NDArray[np.int64]
    """The allocation that it makes or frees, a row of the device's; NO_ID for others."""
    event: NDArray[np.int64]
    """The event that recorded it; for ``EMPTY_CACHE`` the first."""
    given: NDArray[np.int64]
    """Address of the first segment that it got when recorded; 0 for none."""
    freeable: NDArray[np.int64]
    """Bit i: the i-th private pool in the order of the lanes may be given back."""
    failed_size: NDArray[np.int64]
    """Rounded bytes of a request that failed; 0 for all other operations."""
    failed_lane: NDArray[np.int64]

    size: NDArray[np.int64]
    """Requested bytes of each allocation; int64, shape (n_rows,), as all of this group."""
    lane: NDArray[np.int64]
    address: NDArray[np.int64]
    """As recorded."""
    block: NDArray[np.int64]
    """Bytes of its block, for those from before the recording; else 0."""

    segments: NDArray[np.int64]
    """Those at the start, by address: address, size, lane, large, expandable, and where the whole
    of an expandable one begins; shape (n, 6)."""
    recorded: SegmentEvents
    room: int
    """The most bytes of addresses an expandable segment can have without overlapping another."""
    undecided: int
    """Runs of segments given back where it does not show whether the program called
    ``empty_cache()`` or a request needed the room; the former is assumed."""
    retried: NDArray[np.int64]
    """Operations that gave segments back before they were served, or failed."""
    collected: NDArray[np.int64]
    """Operations before which long unused segments were given back as garbage."""
    waited: NDArray[np.int64]
    """Frees that a request completed while it waited for memory: CERTAINLY, PERHAPS, or 0; int64,
    shape (n_ops,). When another stream was done with the memory is not known of these."""
    limited: bool = False
    """Whether the process was found to have a limit of its own: it is checked for entire segments,
    and garbage is collected because of it."""

    def __len__(self) -> int:
        return len(self.op)

    @property
    def reserved(self) -> int:
        """Bytes in segments at the start."""
        return int(self.segments[:, 1].sum())


def recorded_reserved(tape: ReplayTape) -> NDArray[np.int64]:
    """Return the bytes reserved before each segment event and at the end; shape (n + 1,)."""
    recorded = tape.recorded
    grows = (recorded.kind == MADE) | (recorded.kind == MAPPED)
    changes = np.where(grows, recorded.size, -recorded.size)
    return tape.reserved + np.concatenate([[0], np.cumsum(changes)]).astype(np.int64)


def where_apart(recorded: NDArray[np.int64], replayed: NDArray[np.int64]) -> list[int]:
    """Return the operations of the first segment events that differ; none where all are equal.

    Args:
        recorded: as from ``SegmentEvents.table``; shape (n, 4).
        replayed: the same columns; shape (m, 4).
    """
    both = min(len(recorded), len(replayed))
    differ = np.flatnonzero((recorded[:both] != replayed[:both]).any(axis=1))
    at = int(differ[0]) if len(differ) else both
    return [int(side[at, 0]) for side in (recorded, replayed) if at < len(side)]
