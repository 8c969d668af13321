"""Which bytes the colours of a run's heat map stand for: what is far above the rest has its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

USUAL = 0.95
"""So many of the ranks are usual, whatever the others do."""
_FAR = 2
"""A peak over this many times the highest usual one is far above, and not on the scale."""
_FLAT = 0.5
"""Where nearly all cells are above this part of the scale, it does not begin at 0."""


@dataclass(frozen=True)
class HeatScale:
    """The ends of the scale, and of what there is."""

    low: int
    high: int
    least: int
    most: int


def scale_of(rows: Sequence[NDArray[np.int64]]) -> HeatScale:
    """Return the scale of one curve's cells, an array for each rank; -1 in a cell is none."""
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
