"""Find the ranks that are unlike their group: by their peak, or by the memory they gain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from snapreport.compare.among_ranks.compared_rows import Row
from snapreport.compare.among_ranks.holder_table import HolderTable
from snapreport.compare.among_ranks.likeness import FLOOR, MEGABYTE
from snapreport.compare.among_ranks.rank_groups import Grouped
from snapreport.compare.among_ranks.rank_growth import Growth, growing
from snapreport.compare.among_ranks.standing_out import stand_out
from snapreport.native.sorting import whole_median

_MOSTLY = 0.5


@dataclass(frozen=True)
class Unlike:
    """What was found about the members of a group; arrays in the members' order."""

    side: NDArray[np.int8]
    """1 if the peak stands out above the others, -1 if below, 0 if not."""
    growing: NDArray[np.bool_]
    failed: NDArray[np.bool_]
    core: tuple[int, ...]
    """Compared rows that are not odd in any way; they define what is usual."""


def find_unlike(
    group: Grouped, rows: Sequence[Row], table: HolderTable, grown: Sequence[Growth | None]
) -> Unlike:
    """Return which members of a group failed, have an unusual peak, or gain memory.

    A rank that failed has stopped, so its peak is not judged.
    """
    members = list(group.members)
    failed = np.array([bool(rows[m].device.failed) for m in members], bool)
    peaks = table.allocated[members]
    side = _peaks(members, rows, table, ~failed)
    rising = growing([grown[m] for m in members], peaks)
    quiet = [m for m, ill in zip(members, failed | rising | (side != 0), strict=True) if not ill]
    return Unlike(side, rising, failed, tuple(quiet) or group.core)


def _peaks(
    members: Sequence[int], rows: Sequence[Row], table: HolderTable, judged: NDArray[np.bool_]
) -> NDArray[np.int8]:
    peaks = table.allocated[list(members)]
    side = np.zeros(len(members), np.int8)
    if judged.sum() < 3:
        return side
    middle = whole_median(peaks[judged])
    widths = np.array([rows[m].device.allocated_width for m in members], np.int64)
    floor = np.maximum(FLOOR * middle, MEGABYTE) + widths + float(np.median(widths))
    side = stand_out(peaks, floor, judged)
    return np.where(side == 0, _by_site(members, table, judged, floor, middle), side)


def _by_site(
    members: Sequence[int],
    table: HolderTable,
    judged: NDArray[np.bool_],
    floor: NDArray[np.float64],
    middle: int,
) -> NDArray[np.int8]:
    """Return whose peak is unusual because of one call site, which varies less than peaks do.

    The peak differs by at least the floor, and the site alone stands out from the others.
    """
    side = np.zeros(len(members), np.int8)
    away = table.allocated[list(members)] - middle
    suspect = judged & (np.abs(away) >= floor)
    if not suspect.any():
        return side
    sites = table.sites[list(members)]
    for column in range(sites.shape[1]):
        values = sites[:, column]
        change = values - whole_median(values[judged])
        if (suspect & (np.abs(change) >= floor)).any():
            found = stand_out(values, floor, judged)
            mostly = np.abs(change) >= _MOSTLY * np.abs(away)
            side = np.where(suspect & mostly & (found == np.sign(away)), found, side)
    return side
