"""The segments of one device over time, as columns."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.object_display import Shown

SMALL, LARGE = range(2)
"""Kinds of segments: the pool of requests up to 1 MiB, and that of larger ones."""


@dataclass(frozen=True, eq=False)
class SegmentLives(Shown):
    """Every segment that was there at some event; arrays of shape (n,), by start, then address.

    The segments after event s are those with ``start_event <= s < end_event``; no two overlap. An
    expandable segment is one run of mapped memory, as in PyTorch's own snapshots: a run that
    grows, shrinks or falls apart ends there, and what it became starts.
    """

    address: NDArray[np.int64]
    size: NDArray[np.int64]
    start_event: NDArray[np.int64]
    """-1 if from before the recording."""
    end_event: NDArray[np.int64]
    """n_events (the device's ``events``) if still there at the end."""
    stream: NDArray[np.int64]
    pool: NDArray[np.int32]
    """Rows of ``History.pools``, or NO_ID where nothing tells."""
    kind: NDArray[np.int8]
    """SMALL, LARGE, or NO_ID where nothing tells."""
    expandable: NDArray[np.bool_]
    family: NDArray[np.int32]
    """Lives of one id are one segment that changed, so they share stream, pool and kind."""
    final: NDArray[np.int32]
    """Row of the final segments, NO_ID if it ended or changed before."""

    def __len__(self) -> int:
        return len(self.address)

    def where(self, chosen: NDArray[np.bool_]) -> SegmentLives:
        """Return some of the rows."""
        return SegmentLives(*(getattr(self, column.name)[chosen] for column in fields(self)))


@dataclass(frozen=True, eq=False)
class AllocatorUse(Shown):
    """What the allocator did with its segments."""

    segments: SegmentLives
    fragmentation: NDArray[np.int64]
    """Inactive bytes in segments that hold a live block, after each event; shape (n_events + 1,),
    index 0 is the start. -1 where not known: without an allocator (profiler files), and where
    more is active than reserved, so segment events are missing."""
    most: int
    """The event of the most fragmentation, the first of several."""
    large_page: int = 20 << 20
    """The bytes that expandable segments of the large pool get and give back at a time; a multiple
    of them where the size is not known."""
