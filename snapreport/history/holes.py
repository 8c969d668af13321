"""The hole that each block was put in: how far it was to the next active block or segment's end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from snapreport.model.segment_lives import SegmentLives
from snapreport.native import sweeps
from snapreport.native.sorting import distinct, stable_order

if TYPE_CHECKING:
    from numpy.typing import NDArray


def find_holes(
    addr: NDArray[np.int64], born: NDArray[np.int64], died: NDArray[np.int64], spans: SegmentLives
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find the hole that each block was put in.

    Args:
        addr: int64, shape (n,), where blocks begin.
        born: int64, shape (n,), the event of each one's alloc, negative for the baseline.
        died: int64, shape (n,), the event of its free.
        spans: the segments over their lives.

    Returns:
        int64, shape (n,): each block's hole at its birth, in bytes; 0 if in no live segment, and
        for the baseline. And int64, shape (n,): for the baseline the least distance to a block
        above it, or to its segment's end, over its whole life; else 0.
    """
    at, place = distinct(addr)
    start, end = spans.start_event, spans.end_event
    blocks = (place, born, died, stable_order(born), stable_order(died))
    ends = spans.address + spans.size
    around = (spans.address, ends, start, end, stable_order(start), stable_order(end))
    return sweeps.holes(at, blocks, around)
