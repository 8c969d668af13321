"""Cells of a curve made wider: two side by side make exactly one of the next width."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from snapreport.model.run.rank_facts import Cells

MOST_CELLS = 512


def coarser(cells: Cells, shift: int) -> Cells:
    """Return the same curves in wider cells, without loss.

    Raises:
        ValueError: the cells would be narrower.
    """
    more = shift - cells.shift
    if more < 0:
        raise ValueError(f"cells {1 << cells.shift} wide cannot become {1 << shift} wide")
    if not more:
        return cells
    first, n = cells.first >> more, len(cells.allocated)
    count = ((cells.first + n - 1) >> more) - first + 1
    edges = np.maximum((np.arange(first, first + count, dtype=np.int64) << more) - cells.first, 0)
    return Cells(
        first,
        shift,
        np.maximum.reduceat(cells.allocated, edges),
        None if cells.reserved is None else np.maximum.reduceat(cells.reserved, edges),
    )


def to_one_width(all_cells: Sequence[Cells], most: int = MOST_CELLS) -> tuple[Cells, ...]:
    """Return the cells of several ranks in the width of the widest, or wider.

    Args:
        all_cells: of one axis; none empty.
        most: how many cells may lie between the first of all and the last.
    """
    if not all_cells:
        return ()
    shift = max(each.shift for each in all_cells)
    first = min(each.first << each.shift for each in all_cells)
    last = max(((each.first + len(each.allocated)) << each.shift) - 1 for each in all_cells)
    shift = max(shift, smallest_shift(first, last, most))
    return tuple(coarser(each, shift) for each in all_cells)


def smallest_shift(first: int, last: int, most: int) -> int:
    """Return the shift with which at most ``most`` cells cover places ``first`` to ``last``."""
    shift = 0
    while (last >> shift) - (first >> shift) >= most:
        shift += 1
    return shift
