"""What is concluded from the curves and steps of ranks, with all of them in memory at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.ranks.groups import TO_NORMAL, spread_of
from snapreport.diagnosis.ranks.odd_ranks import SPREADS
from snapreport.model.run import MOST_CELLS, Cells, DeviceFacts, coarser, one_shift

_PART = 0.25
_ALIGNED = 0.02


def to_one_width(all_cells: Sequence[Cells], most: int = MOST_CELLS) -> tuple[Cells, ...]:
    """Return the cells of several ranks in the width of the widest, or wider.

    Args:
        all_cells: of one axis; none empty.
        most: how many cells may lie between the first of all and the last.
    """
    if not all_cells:
        return ()
    shift = one_shift(all_cells, most)
    return tuple(coarser(each, shift) for each in all_cells)


def lowest_usual(rows: Sequence[NDArray[np.int64]]) -> int:
    """Return the value that 2 % of the cells of all rows are below; -1 is an empty cell."""
    together = np.concatenate([row[row >= 0] for row in rows])
    return int(np.percentile(together, 2, method="lower"))


def since_event(
    devices: Sequence[DeviceFacts], core: Sequence[int], row: int, difference: int
) -> int | None:
    """Return the first event of the cell in which a rank diverges from the core of its group."""
    cells = to_one_width([device.by_event for device in devices])
    table = np.full((len(cells), max(len(each.allocated) for each in cells)), np.nan)
    for values, each in zip(table, cells, strict=True):
        values[: len(each.allocated)] = each.allocated
    events = np.array([devices[member].events for member in core])
    if np.median(np.abs(events - np.median(events))) > _ALIGNED * max(np.median(events), 1):
        return None
    some = table[list(core)]
    known = 2 * np.sum(~np.isnan(some), axis=0) > len(core)
    some = some[:, known]
    middle = np.nanmedian(some, axis=0)
    spread = TO_NORMAL * np.nanmedian(np.abs(some - middle), axis=0)
    away = (table[row][known] - middle) * np.sign(difference)
    beyond = np.flatnonzero(away >= np.maximum(_PART * abs(difference), SPREADS * spread))
    return int(beyond[0]) << cells[0].shift if len(beyond) and difference else None


def since_step(
    devices: Sequence[DeviceFacts], core: Sequence[int], row: int, difference: int, growing: bool
) -> int | None:
    """Return the number of the first step in which a rank diverges from the core of its group."""
    name = "left" if growing else "allocated"
    sign = 1 if difference > 0 else -1
    for step in devices[row].steps:
        others = [
            getattr(each, name)
            for member in core
            if member != row
            for each in devices[member].steps
            if each.number == step.number
        ]
        if others and 2 * len(others) > len(core) - 1:
            away = sign * (getattr(step, name) - float(np.median(others)))
            if away >= max(_PART * abs(difference), SPREADS * spread_of(np.array(others))):
                return step.number
    return None
