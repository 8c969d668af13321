"""The still picture of a comparison: both curves, each from its start to its end."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.compare.diff_types import Diff, DiffSide
from snapreport.ground.records import dataclass
from snapreport.ground.units import format_bytes
from snapreport.reporters.svg import HEIGHT, WIDTH, maxima, round_values, step_line


@dataclass(frozen=True)
class SidePicture:
    """One recording's curve; the template puts it into ``svg`` elements."""

    line: str
    """Path data."""
    area: str
    """The same, closed along the bottom."""
    x: float
    """Position of the compared moment, in percent of the width."""
    y: float
    """Position of its bytes, in percent of the height, from the top."""


@dataclass(frozen=True)
class DiffPicture:
    """Both curves on one axis."""

    base: SidePicture
    new: SidePicture
    heights: tuple[tuple[float, str], ...]
    """Position in percent, from the top, and label of each horizontal line."""


def draw_diff(diff: Diff) -> DiffPicture:
    """Draw both curves, each over its own events, on the same axis of bytes."""
    curves = diff.curves()
    highest = max(int(curve.max()) for curve in curves) or 1
    top = highest * 1.06
    base, new = (
        _side(side, curve, top) for side, curve in zip((diff.base, diff.new), curves, strict=True)
    )
    return DiffPicture(
        base,
        new,
        tuple(
            (round(100 * (1 - value / top), 2), format_bytes(value))
            for value in round_values(highest)
        ),
    )


def _side(side: DiffSide, curve: NDArray[np.int64], top: float) -> SidePicture:
    """Reduce a curve to columns that each keep their maximum.

    Args:
        side: the recording.
        curve: int64, (events + 1,).
        top: the bytes at the upper edge.
    """
    most = maxima(curve)
    line = step_line(most, WIDTH / len(most), top)
    return SidePicture(
        line=line,
        area=f"{line}V{HEIGHT}H0Z",
        x=round(100 * (side.event + 1.5) / len(curve), 2),
        y=round(100 * (1 - side.bytes / top), 2),
    )
