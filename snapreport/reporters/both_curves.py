"""The picture of a comparison: both curves from their starts, on the same axis of bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.compare.diff_types import Diff, DiffSide
from snapreport.ground.units import format_bytes, format_duration, rounded_share
from snapreport.model.findings import StageUse
from snapreport.model.snapshot import NO_TIME
from snapreport.reporters.svg import HEIGHT, WIDTH, round_values, step_line

_COLUMNS = 600
_MOST_STAGES = 120
_DEPTHS = 2
_TICKS = 5


@dataclass(frozen=True)
class Band:
    """One stage below the picture, in percent of its width."""

    name: str
    depth: int
    left: float
    width: float


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
    bands: tuple[Band, ...]


@dataclass(frozen=True)
class DiffPicture:
    """Both curves on one axis."""

    axis: str
    """``events`` or ``time``."""
    base: SidePicture
    new: SidePicture
    heights: tuple[tuple[float, str], ...]
    """Position in percent, from the top, and label of each horizontal line."""
    ticks: tuple[tuple[float, str], ...]
    """Position in percent and label of each tick of the axis."""


def draw_diff(diff: Diff) -> tuple[DiffPicture, ...]:
    """Draw both curves by progress, and also by time if both recordings have times."""
    pictures = [_draw(diff, "events", *(_progress(side) for side in (diff.base, diff.new)))]
    times = [_elapsed(side) for side in (diff.base, diff.new)]
    if times[0] is not None and times[1] is not None:
        pictures.append(_draw(diff, "time", times[0], times[1]))
    return tuple(pictures)


def _progress(side: DiffSide) -> NDArray[np.int64]:
    """Return where each event begins, from the start to the end; (events + 2,)."""
    return np.arange(side.figures.history.events + 2, dtype=np.int64)


def _elapsed(side: DiffSide) -> NDArray[np.int64] | None:
    """Return each event's microseconds since the first, from start to end; None without times."""
    times = side.figures.times
    if len(times) < 2 or not bool((times != NO_TIME).all()):
        return None
    since = np.maximum.accumulate(times) - times[0]
    return np.concatenate([[0], since, since[-1:]]) if since[-1] else None


def _draw(diff: Diff, axis: str, base: NDArray[np.int64], new: NDArray[np.int64]) -> DiffPicture:
    curves = diff.curves()
    highest = max(int(curve.max()) for curve in curves) or 1
    top = highest * 1.06
    # Progress is relative to each recording's length; seconds have the same scale in both.
    ends = (int(base[-1]), int(new[-1]))
    whole = ends if axis == "events" else (max(ends), max(ends))
    sides = [
        _side(side, curve, begin, end, top)
        for side, curve, begin, end in zip(
            (diff.base, diff.new), curves, (base, new), whole, strict=True
        )
    ]
    ticks = tuple(
        (100 * f, rounded_share(f) if axis == "events" else format_duration(round(f * whole[0])))
        for f in (k / (_TICKS - 1) for k in range(_TICKS))
    )
    return DiffPicture(
        axis=axis,
        base=sides[0],
        new=sides[1],
        heights=tuple(
            (round(100 * (1 - value / top), 2), format_bytes(value))
            for value in round_values(highest)
        ),
        ticks=ticks,
    )


def _side(
    side: DiffSide, curve: NDArray[np.int64], begin: NDArray[np.int64], end: int, top: float
) -> SidePicture:
    """Reduce a curve to columns that each keep their maximum.

    Args:
        side: the recording.
        curve: int64, (events + 1,).
        begin: where each of its values begins on the axis, and the end; (events + 2,).
        end: the end of the axis.
        top: the bytes at the upper edge.
    """
    columns = min(_COLUMNS, max(end, 1))
    first = begin[:-1] * columns // max(end, 1)
    last = np.maximum(first, -(-begin[1:] * columns // max(end, 1)) - 1)
    drawn = int(min(last.max(), columns - 1)) + 1
    most = np.zeros(drawn, np.int64)
    np.maximum.at(most, np.minimum(first, drawn - 1), curve)
    # A value counts in every column that it reaches into.
    lasting = np.flatnonzero(last > first)
    for i in lasting.tolist():
        np.maximum(most[first[i] : last[i] + 1], curve[i], out=most[first[i] : last[i] + 1])
    line = step_line(most, WIDTH / columns, top)
    at = begin[side.event + 1]
    half = 0.5 if end == begin[-1] and len(begin) - 1 == end else 0
    return SidePicture(
        line=line,
        area=f"{line}V{HEIGHT}H0Z",
        x=round(100 * (float(at) + half) / max(end, 1), 2),
        y=round(100 * (1 - side.bytes / top), 2),
        bands=tuple(_bands(side.figures.stages, begin, end)),
    )


def _bands(stages: tuple[StageUse, ...], begin: NDArray[np.int64], end: int) -> list[Band]:
    """Return the longest stages of the outer levels, longest first."""
    found = []
    for stage in stages:
        first, last = max(stage.start_event, 0), max(stage.end_event, 0)
        if stage.depth >= _DEPTHS or last <= first:
            continue
        left = 100 * float(begin[first + 1]) / max(end, 1)
        right = 100 * float(begin[min(last + 1, len(begin) - 1)]) / max(end, 1)
        found.append(Band(stage.name, stage.depth, round(left, 3), round(right - left, 3)))
    return sorted(found, key=lambda band: -band.width)[:_MOST_STAGES]
