"""One curve over the whole recording: its least, its average over time, its most."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from snapreport.model.answers import CurveStatistics
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
        # Python's integers: bytes times microseconds pass 2**63 within seconds of 10 TB.
        weighted = sum(int(v) * int(t) for v, t in zip(curve[1:-1], lasting, strict=True) if t)
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
