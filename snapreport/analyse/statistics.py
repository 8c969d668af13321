"""One curve over the whole recording: its least, its average over time, its most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from snapreport.model.answers import AllocationStatistics, CurveStatistics
from snapreport.model.history import START, DeviceHistory
from snapreport.model.snapshot import NO_TIME

if TYPE_CHECKING:
    from numpy.typing import NDArray


def curve_statistics(curve: NDArray[np.int64], times: NDArray[np.int64]) -> CurveStatistics:
    """Sum one curve up, as ``curves_statistics`` does several."""
    return curves_statistics({"": curve}, times)[""]


def curves_statistics(
    curves: Mapping[str, NDArray[np.int64]], times: NDArray[np.int64]
) -> dict[str, CurveStatistics]:
    """Sum curves up, by their names.

    The value after a step lasts until the next one, so the last value has no length and the
    start none either. Without times, or when no time passes, every step counts alike.

    Args:
        curves: int64, shape (n_events + 1,) each; index 0 is the start.
        times: int64 microseconds, shape (n_events,), NO_TIME where unknown.
    """
    known = len(times) > 1 and bool((times != NO_TIME).all())
    lasting = np.diff(np.maximum.accumulate(times)) if known else np.empty(0, np.int64)
    return {name: _sum_up(curve, lasting) for name, curve in curves.items()}


def _sum_up(curve: NDArray[np.int64], lasting: NDArray[np.int64]) -> CurveStatistics:
    """Sum one curve up; ``lasting``: how long each step lasts, but for the last one."""
    least, most = int(curve.min()), int(curve.max())
    whole = int(lasting.sum())
    by_time = whole > 0
    largest, bound = max(most, -least), np.iinfo(np.int64).max
    if by_time and largest * whole <= bound:
        average = int(np.dot(curve[1:-1], lasting)) // whole
    elif by_time:
        # Bytes times microseconds pass 2**63 within minutes of 100 GB, so in two halves.
        low, high = curve[1:-1] & 0xFFFFF, curve[1:-1] >> 20
        weighted = (int(np.dot(high, lasting)) << 20) + int(np.dot(low, lasting))
        average = weighted // whole
    elif largest * len(curve) <= bound:
        average = int(curve.sum()) // len(curve)
    else:
        average = int(curve.sum(dtype=object)) // len(curve)
    return CurveStatistics(
        minimum=least,
        average=average,
        peak=most,
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
