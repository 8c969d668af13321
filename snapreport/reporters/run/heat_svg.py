"""The static heat map of a run, for a page without JavaScript and for print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from snapreport.ground.units import format_bytes, format_count, format_duration
from snapreport.model.run.cell_widths import to_one_width
from snapreport.model.run.rank_facts import Cells
from snapreport.reporters.run.heat_scale import HeatScale, first_axis, scale_of
from snapreport.reporters.run.run_rows import RunRow, of_commonest_kind

_COLUMNS, _ROWS = 96, 64
CLASSES = 8
"""The number of colours on the scale."""
_OVER = CLASSES


@dataclass(frozen=True)
class HeatPicture:
    """Paths of one colour each, in units of cells; the template puts them into an ``svg``."""

    columns: int
    rows: int
    paths: tuple[tuple[str, Markup], ...]
    """CSS class and path data of each colour; markup, as it is longer than shown texts may be."""
    axis: Literal["time", "event"]
    last: str
    """The end of the axis; it begins at 0."""
    top: str
    """The name of the first row."""
    bottom: str
    """The name of the last row."""
    bundle: int
    """How many ranks share a row, which shows their highest value."""
    low: str
    """The bytes of the lowest colour."""
    high: str
    """The bytes of the highest colour."""
    clipped: str
    """The highest value above the scale; ``""`` if there is none."""


def draw_heat(rows: Sequence[RunRow]) -> HeatPicture | None:
    """Draw the allocated bytes of the commonest kind of memory; None where there are no cells."""
    shown = of_commonest_kind(rows)
    axis = first_axis([row.device for row in shown])
    drawn = (row.device.by_time if axis == "time" else row.device.by_event for row in shown)
    curves = [cells for cells in drawn if cells is not None and len(cells.allocated)]
    if not curves:
        return None
    scale = scale_of([cells.allocated for cells in curves])
    table, shift, first = _table(curves)
    bundle = 1
    while len(table) > _ROWS * bundle:
        bundle *= 2
    padded = np.pad(table, ((0, -len(table) % bundle), (0, 0)), constant_values=-1)
    joined = padded.reshape(-1, bundle, padded.shape[1]).max(axis=1)
    start = min(cells.first << cells.shift for cells in curves)
    span = ((first + table.shape[1]) << shift) - max(start, first << shift)
    return HeatPicture(
        columns=table.shape[1],
        rows=len(joined),
        paths=_paths(_colours(joined, scale)),
        axis=axis,
        last=format_duration(span) if axis == "time" else format_count(span),
        top=shown[0].name,
        bottom=shown[-1].name,
        bundle=bundle,
        low=format_bytes(scale.low),
        high=format_bytes(scale.high),
        clipped=format_bytes(scale.most) if scale.most > scale.high else "",
    )


def _table(curves: list[Cells]) -> tuple[NDArray[np.int64], int, int]:
    """Return the maxima of each rank in at most ``_COLUMNS`` cells, their shift, and the first."""
    wide = to_one_width(curves, _COLUMNS)
    first = min(cells.first for cells in wide)
    end = max(cells.first + len(cells.allocated) for cells in wide)
    table = np.full((len(wide), end - first), -1, dtype=np.int64)
    for row, cells in zip(table, wide, strict=True):
        at = cells.first - first
        row[at : at + len(cells.allocated)] = cells.allocated
    return table, wide[0].shift, first


def _colours(table: NDArray[np.int64], scale: HeatScale) -> NDArray[np.int64]:
    share = (table - scale.low) / max(scale.high - scale.low, 1)
    classes = np.clip((share * CLASSES).astype(np.int64), 0, CLASSES - 1)
    classes[table > scale.high] = _OVER
    classes[table < 0] = -1
    return classes


def _paths(classes: NDArray[np.int64]) -> tuple[tuple[str, Markup], ...]:
    """Return a path for each colour; adjacent cells of a row in one colour are one rectangle."""
    parts: dict[int, list[str]] = {}
    for y, row in enumerate(classes):
        edges = np.flatnonzero(np.diff(row, prepend=-2, append=-2))
        for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            if row[start] >= 0:
                parts.setdefault(int(row[start]), []).append(
                    f"M{start} {y}h{end - start}v1H{start}"
                )
    return tuple(
        ("over" if colour == _OVER else f"heat-{colour}", Markup("".join(path)))  # noqa: S704
        for colour, path in sorted(parts.items())
    )
