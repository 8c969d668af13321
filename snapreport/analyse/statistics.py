"""One curve over the whole recording: its least, its average over time, its most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from snapreport.model.answers import AllocationStatistics, CurveStatistics
from snapreport.model.history import START, DeviceHistory
from snapreport.model.snapshot import NO_TIME

if TYPE_CHECKING:
    from numpy.typing import NDArray


def curve_statistics(curve: NDArray[np.int64], times: NDArray[np.int64]) -> CurveStatistics:
    """Sum a curve up.

    The value after a step lasts until the next one, so the last value has no length and the
    start none either. Without times, or when no time passes, every step counts alike.

    Args:
        curve: int64, shape (n_events + 1,); index 0 is the start.
        times: int64 microseconds, shape (n_events,), NO_TIME where unknown.
    """
    known = len(times) > 1 and bool((times != NO_TIME).all())
    lasting = np.diff(np.maximum.accumulate(times)) if known else np.empty(0, np.int64)
    by_time = bool(lasting.sum() > 0)
    if by_time:
        # Bytes times microseconds pass 2**63 within minutes of 100 GB, so in two halves.
        low, high = curve[1:-1] & 0xFFFFF, curve[1:-1] >> 20
        weighted = (int((high * lasting).sum()) << 20) + int((low * lasting).sum())
        average = weighted // int(lasting.sum())
    else:
        average = int(curve.sum(dtype=object)) // len(curve)
    return CurveStatistics(
        minimum=int(curve.min()),
        average=average,
        peak=int(curve.max()),
        start=int(curve[0]),
        end=int(curve[-1]),
        by_time=by_time,
    )


def allocation_statistics(history: DeviceHistory) -> AllocationStatistics:
    """Count the allocations of a device and sum up their requested sizes."""
    rows = history.allocations
    made = rows.alloc_step != START
    sizes = np.sort(rows.size[made])
    return AllocationStatistics(
        baseline=int((~made).sum()),
        made=int(made.sum()),
        freed=int((rows.free_requested_step[made] < history.events).sum()),
        requested=int(sizes.sum()),
        smallest=int(sizes[0]) if len(sizes) else None,
        median=int(sizes[(len(sizes) - 1) // 2]) if len(sizes) else None,
        largest=int(sizes[-1]) if len(sizes) else None,
    )
