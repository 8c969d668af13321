"""The static picture of the curves, for pages without JavaScript and for print."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from snapreport.model.findings import DeviceFindings
from snapreport.units import format_bytes, format_count

if TYPE_CHECKING:
    from numpy.typing import NDArray

WIDTH, HEIGHT = 1000, 260
"""The picture's own units; the page scales it."""

_COLUMNS = 500
_TICKS = 4


@dataclass(frozen=True)
class CurvePicture:
    """Paths and labels of one device's picture; the template puts them into an ``svg`` element."""

    allocated: str
    """Path data of the filled area; likewise the next two, as lines."""
    requested: str
    reserved: str
    """Empty where no allocator reserves memory."""
    peak_x: float
    peak_y: float
    ticks: tuple[tuple[float, str], ...]
    """Height in the picture and label of each line across it."""
    last_step: str


def draw_curves(device: DeviceFindings) -> CurvePicture:
    """Reduce the curves to a picture in which no column loses its maximum."""
    events = device.history.events
    allocated, requested = device.curves["allocated"], device.curves["requested"]
    reserved = device.curves.get("reserved")
    highest = max(int(c.max()) for c in device.curves.values()) or 1
    top = highest * 1.06

    def y(value: int) -> float:
        return round(HEIGHT * (1 - value / top), 1)

    def x(step: int) -> float:
        return round(WIDTH * (step + 1.5) / (events + 1), 1)

    def line(curve: NDArray[np.int64]) -> str:
        width = WIDTH / len(maxima(curve))
        path = [f"M0 {y(int(maxima(curve)[0]))}"]
        for column, value in enumerate(maxima(curve)):
            path.append(f"V{y(int(value))}H{round((column + 1) * width, 1)}")
        return "".join(path)

    return CurvePicture(
        allocated=f"{line(allocated)}V{HEIGHT}H0Z",
        requested=line(requested),
        reserved="" if reserved is None else line(reserved),
        peak_x=x(device.peak.step),
        peak_y=y(device.peak.allocated),
        ticks=tuple((y(value), format_bytes(value)) for value in round_values(highest)),
        last_step=format_count(max(events - 1, 0)),
    )


def maxima(curve: NDArray[np.int64]) -> NDArray[np.int64]:
    """The most of a curve in each of at most ``_COLUMNS`` equal runs of steps."""
    columns = min(_COLUMNS, len(curve))
    starts = np.arange(columns) * len(curve) // columns
    return np.asarray(np.maximum.reduceat(curve, starts), dtype=np.int64)


def round_values(highest: int) -> list[int]:
    """Return multiples of a power of two up to the highest value, at most ``_TICKS`` and a few."""
    step = 1
    while highest // step > _TICKS:
        step *= 2
    return list(range(step, highest + 1, step))
