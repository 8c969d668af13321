"""Stages as bands below a chart, a row for each depth."""

from __future__ import annotations

import math
from collections.abc import Sequence

from snapreport.explorer.parts.axis_scale import Scale
from snapreport.explorer.parts.chart_cells import Cell
from snapreport.explorer.parts.inking import fit, width_of
from snapreport.model.findings import StageUse

_NARROW = 2
"""Columns in which a name cannot be read."""
MOST_ROWS = 5
"""Deeper stages share the last row, the innermost in front, as on the page."""


def stage_bands(
    stages: Sequence[StageUse], scale: Scale, window: tuple[float, float], width: int
) -> list[list[Cell]]:
    """Return the visible stages as rows of cells.

    Args:
        stages: the device's.
        scale: of the axis.
        window: its two ends.
        width: columns of the chart.
    """
    x0, x1 = window
    depth = min(max((stage.depth for stage in stages), default=-1) + 1, MOST_ROWS)
    rows: list[list[Cell]] = [[(" ", "")] * width for _ in range(depth)]
    for number, stage in sorted(enumerate(stages), key=lambda each: (each[1].depth, each[0])):
        begin = scale.x_of(stage.start_event)
        end = scale.x_of(max(stage.end_event, stage.start_event))
        left = math.floor((max(begin, x0) - x0) / (x1 - x0) * width)
        right = math.ceil((min(end, x1) - x0) / (x1 - x0) * width)
        right = min(max(right, left + 1), width)
        if end < x0 or begin >= x1 or left >= right:
            continue
        role = f"stage{number % 3}"
        row = rows[min(stage.depth, depth - 1)]
        wide = right - left
        text = fit(f"▏{stage.name}", wide) if wide > _NARROW else fit("▏", wide)
        if width_of(text) == len(text):
            row[left:right] = [(letter, role) for letter in text]
        else:  # letters that are two columns wide
            row[left:right] = [("▏", role), *[(" ", role)] * (right - left - 1)]
    return rows
