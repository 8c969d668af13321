"""The static picture of the curves, for pages without JavaScript and for print."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.units import format_bytes, format_count
from snapreport.model.findings import DeviceFindings
from snapreport.reporters.page.svg_marks import Band, Mark, event_ticks, point_marks, stage_bands

WIDTH, HEIGHT = 1000, 260
"""The picture's own units; the page scales it."""

_COLUMNS = 500
_TICKS = 4
_ROOM = 1.2
"""The picture's height in multiples of the highest value; the rest is room for a label."""


@dataclass(frozen=True)
class CurvePicture:
    """Paths and labels of one device's picture; the template puts them into an ``svg`` element."""

    allocated: str
    """Path data of the filled area."""
    requested: str
    """Path data of the line."""
    reserved: str
    """Path data of the line; empty where no allocator reserves memory, or it is not known when."""
    ticks: tuple[tuple[float, str], ...]
    """Position from the top and label of each horizontal line."""
    last_event: str
    events: tuple[tuple[float, str, str], ...]
    """Position in percent, label and ``text-anchor`` of each tick of the axis."""
    bands: tuple[Band, ...]
    all_stages: bool
    """Whether ``bands`` has every level of stages."""
    marks: tuple[Mark, ...]


def draw_curves(device: DeviceFindings) -> CurvePicture:
    """Reduce the curves to columns that each keep their maximum."""
    events = device.history.events
    allocated, requested = device.curves["allocated"], device.curves["requested"]
    reserved = device.curves["reserved"] if "reserved" in device.peaks else None
    highest = max(each.bytes for each in device.peaks.values()) or 1
    top = highest * _ROOM
    bands, all_stages = stage_bands(device.stages, events)

    def line(curve: NDArray[np.int64]) -> str:
        values = maxima(curve)
        return step_line(values, WIDTH / len(values), top)

    return CurvePicture(
        allocated=f"{line(allocated)}V{HEIGHT}H0Z",
        requested=line(requested),
        reserved="" if reserved is None else line(reserved),
        ticks=tuple((height_of(k, top), format_bytes(k)) for k in round_values(highest)),
        last_event=format_count(max(events - 1, 0)),
        events=event_ticks(events),
        bands=bands,
        all_stages=all_stages,
        marks=point_marks(device, top),
    )


def step_line(values: NDArray[np.int64], width: float, top: float) -> str:
    """Return path data of a line that keeps each value for ``width``; ``top`` is at the top."""
    ys = [height_of(value, top) for value in values.tolist()]
    steps = (f"V{y}H{round(k * width, 1)}" for k, y in enumerate(ys, start=1))
    return f"M0 {ys[0]}{''.join(steps)}"


def height_of(value: int, top: float) -> float:
    """Return how far below the upper edge a number of bytes is drawn; ``top`` is at that edge."""
    return round(HEIGHT * (1 - value / top), 1)


def maxima(curve: NDArray[np.int64], most: int = _COLUMNS) -> NDArray[np.int64]:
    """Return the maxima of a curve in at most ``most`` equal runs of events."""
    columns = min(most, len(curve))
    starts = np.arange(columns) * len(curve) // columns
    return np.asarray(np.maximum.reduceat(curve, starts), dtype=np.int64)


def round_values(highest: int) -> list[int]:
    """Return the multiples of a power of two up to the highest value, at most ``_TICKS``."""
    step = 1
    while highest // step > _TICKS:
        step *= 2
    return list(range(step, highest + 1, step))
