"""What a run's heat map shows at first: its axis, and the bytes that its colours stand for.

Values far above the rest have a colour of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from snapreport.model.run.rank_facts import Cells, DeviceFacts

USUAL = 0.95
"""The share of ranks, by lowest peak, that counts as usual."""
_FAR = 2
"""Peaks of more than this many times the highest usual one are above the scale."""
_FLAT = 0.5
"""If nearly all cells are above this part of the scale, it does not begin at 0."""


_COVERED = 0.15
"""The time axis is used only if ranks cover this share of it; dumps of different days do not."""


@dataclass(frozen=True)
class HeatScale:
    """The ends of the scale (``low``, ``high``), and the lowest and highest value of any cell."""

    low: int
    high: int
    least: int
    most: int


def scale_of(rows: Sequence[NDArray[np.int64]]) -> HeatScale:
    """Return the scale of one curve's cells, an array for each rank; -1 is an empty cell."""
    cells = [row[row >= 0] for row in rows]
    cells = [row for row in cells if len(row)]
    if not cells:
        return HeatScale(0, 1, 0, 0)
    peaks = np.sort([int(row.max()) for row in cells])
    usual = peaks[int(USUAL * (len(peaks) - 1))]
    high, most = int(peaks[peaks <= _FAR * usual][-1]), int(peaks[-1])
    together = np.concatenate(cells)
    low = int(np.percentile(together, 2, method="lower"))
    return HeatScale(low if low > _FLAT * high else 0, max(high, 1), int(together.min()), most)


def first_axis(devices: Sequence[DeviceFacts]) -> Literal["time", "event"]:
    """Return the axis to compare ranks on: time, if they were recorded at the same time."""
    known = [_reach(device.by_time) for device in devices if device.by_time is not None]
    if not known:
        return "event"
    span = max(end for _, end in known) - min(start for start, _ in known)
    covered = sum(end - start for start, end in known)
    return "time" if covered >= _COVERED * span * len(devices) else "event"


def _reach(cells: Cells) -> tuple[int, int]:
    return cells.first << cells.shift, (cells.first + len(cells.allocated)) << cells.shift
