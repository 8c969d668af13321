"""One curve over the whole recording: its least, its average over time, its most."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from snapreport.model.answer_tables import AllocationStatistics, CurveStatistics
from snapreport.model.history import START, DeviceHistory
from snapreport.model.snapshot import NO_TIME
from snapreport.native.sorting import whole_median
from snapreport.native.sweeps import weigh


def curves_statistics(
    curves: Mapping[str, NDArray[np.int64]], times: NDArray[np.int64]
) -> dict[str, CurveStatistics]:
    """Summarize curves, by name.

    The value after an event lasts until the next event, so the last value and the start have no
    duration. Without times, or if no time passes, every event counts equally.

    Args:
        curves: int64, shape (n_events + 1,) each; index 0 is the start.
        times: int64 microseconds, shape (n_events,), NO_TIME where unknown.
    """
    known = len(times) > 1 and bool((times != NO_TIME).all())
    whole = int(times.max()) - int(times[0]) if known else 0
    return {name: _sum_up(curve, times, whole) for name, curve in curves.items()}


def _sum_up(curve: NDArray[np.int64], times: NDArray[np.int64], whole: int) -> CurveStatistics:
    """Sum one curve up; ``whole``: microseconds that passed, 0 where not known."""
    by_time = whole > 0
    if by_time:
        least, most, weighted = weigh(curve, times)
        average = weighted // whole
    else:
        least, most = int(curve.min()), int(curve.max())
        fits = max(most, -least) * len(curve) <= np.iinfo(np.int64).max
        average = int(curve.sum(dtype=np.int64 if fits else object)) // len(curve)
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
    made = rows.alloc_event != START
    sizes = np.sort(rows.size[made])
    return AllocationStatistics(
        baseline=int((~made).sum()),
        made=int(made.sum()),
        freed=int((rows.free_requested_event[made] < history.events).sum()),
        requested=int(sizes.sum()),
        smallest=int(sizes[0]) if len(sizes) else None,
        median=whole_median(sizes) if len(sizes) else None,
        largest=int(sizes[-1]) if len(sizes) else None,
    )
