"""A run as one HTML file that opens offline: which ranks are odd and why, and all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import BinaryIO, Literal

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from snapreport.ground.records import dataclass
from snapreport.ground.units import format_bytes, format_count, format_duration
from snapreport.model.run import (
    Cells,
    DeviceFacts,
    Group,
    Run,
    RunFindings,
    coarser,
    one_shift,
)
from snapreport.reporters import run as words
from snapreport.reporters.document import plain
from snapreport.reporters.payload import shown_data
from snapreport.reporters.run import RunRow, of_commonest_kind, peak_of, rows_of, run_summary
from snapreport.reporters.run_payload import (
    FORMAT,
    Each,
    HeatScale,
    first_axis,
    pack_run,
    scale_of,
)
from snapreport.reporters.whole_page import coded, data_for_script, json_for_script, write_page

_ROWS_WITHOUT_SCRIPT = 50
"""Ranks in the HTML itself; with JavaScript the page lists them all."""
_CARDS = 8
"""Odd ranks and groups shown at once; the others are folded."""
_DIFFERENCES = 6


def write_run_page(
    run: Run, findings: RunFindings, out: BinaryIO, pages: Mapping[str, str] | None = None
) -> None:
    """Write a run as one self-contained HTML page in UTF-8.

    Args:
        run: the run's figures.
        findings: the conclusions from them.
        out: the file to write to.
        pages: links to pages of single files, by ``RankFacts.source``.
    """
    rows = rows_of(run, findings, pages)
    cards = [(odd, rows[odd.row]) for odd in findings.odd]
    groups = [_with_peaks(group, rows) for group in findings.groups]
    write_page(
        out,
        "run.html.j2",
        style="run.css",
        script="run.js",
        format=FORMAT,
        findings=findings,
        title=words.heading(run),
        forecast=run.forecast,
        extent=words.extent(run, findings),
        figures=_figures(rows),
        cards=cards[:_CARDS],
        more_cards=cards[_CARDS:],
        groups=groups[:_CARDS],
        more_groups=groups[_CARDS:],
        differences_shown=_DIFFERENCES,
        missing=words.missing_text(findings),
        balance=words.balance(findings),
        broken=words.broken_files(run, findings),
        picture=draw_heat(rows),
        rows=rows[:_ROWS_WITHOUT_SCRIPT],
        more_rows=max(len(rows) - _ROWS_WITHOUT_SCRIPT, 0),
        words=words,
        plain=plain,
        peak_title=_peak_title,
        coded=coded,
        payload=data_for_script(pack_run(findings, rows)),
        # The payload holds the rows.
        summary=json_for_script(shown_data(run_summary(run, findings, rows))),
    )


def _with_peaks(group: Group, rows: Sequence[RunRow]) -> tuple[Group, int, int]:
    """Return a group with its lowest and its highest peak."""
    peaks = [rows[k].device.allocated for k in group.rows]
    return group, min(peaks, default=0), max(peaks, default=0)


def _figures(rows: Sequence[RunRow]) -> list[tuple[str, str, str]]:
    """Return the median, highest and lowest peak of the commonest kind of memory."""
    if not rows:
        return []
    ordered = sorted(of_commonest_kind(rows), key=lambda row: row.device.allocated)
    picked = {
        "Median peak": ordered[(len(ordered) - 1) // 2],
        "Highest": ordered[-1],
        "Lowest": ordered[0],
    }
    return [
        (label, plain(peak_of(row.device)), f"{row.name}: {_peak_title(row.device)}")
        for label, row in picked.items()
    ]


def _peak_title(device: DeviceFacts) -> str:
    """Write an allocated peak to the byte, with its bounds, and whether there is a history."""
    text = f"{format_count(device.allocated)} bytes"
    if device.allocated_width:
        text = f"at least {text}, at most {format_count(device.allocated_width)} more"
    return text if device.recorded else f"{text} when the snapshot was written; no history"


# The static heat map, for a page without JavaScript and for print.

_COLUMNS, _ROWS = 96, 64
_CLASSES = 8
"""The number of colours on the scale; one more is for what is above it."""


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

    def drawn(row: RunRow) -> Cells | None:
        cells = row.device.by_time if axis == "time" else row.device.by_event
        return cells if cells is not None and len(cells.allocated) else None

    curves = Each(shown, drawn)
    count = sum(1 for _ in curves)
    if not count:
        return None
    scale = scale_of(Each(curves, lambda cells: cells.allocated))
    bundle = 1
    while count > _ROWS * bundle:
        bundle *= 2
    table, shift, first = _table(curves, -(-count // bundle), bundle)
    start = min(cells.first << cells.shift for cells in curves)
    span = ((first + table.shape[1]) << shift) - max(start, first << shift)
    return HeatPicture(
        columns=table.shape[1],
        rows=len(table),
        paths=_paths(_colours(table, scale)),
        axis=axis,
        last=format_duration(span) if axis == "time" else format_count(span),
        top=shown[0].name,
        bottom=shown[-1].name,
        bundle=bundle,
        low=format_bytes(scale.low),
        high=format_bytes(scale.high),
        clipped=format_bytes(scale.most) if scale.most > scale.high else "",
    )


def _table(curves: Iterable[Cells], rows: int, bundle: int) -> tuple[NDArray[np.int64], int, int]:
    """Return the maxima of each row's ranks in at most ``_COLUMNS`` cells, their shift, the first.

    A row has the ranks of a ``bundle``.
    """
    shift = one_shift(curves, _COLUMNS)
    wide = Each(curves, lambda cells: coarser(cells, shift))
    spans = [(cells.first, cells.first + len(cells.allocated)) for cells in wide]
    first = min(begin for begin, _ in spans)
    table = np.full((rows, max(end for _, end in spans) - first), -1, dtype=np.int64)
    for rank, cells in enumerate(wide):
        at = cells.first - first
        part = table[rank // bundle, at : at + len(cells.allocated)]
        np.maximum(part, cells.allocated, out=part)
    return table, shift, first


def _colours(table: NDArray[np.int64], scale: HeatScale) -> NDArray[np.int64]:
    share = (table - scale.low) / max(scale.high - scale.low, 1)
    classes = np.clip((share * _CLASSES).astype(np.int64), 0, _CLASSES - 1)
    classes[table > scale.high] = _CLASSES
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
        ("over" if colour == _CLASSES else f"heat-{colour}", Markup("".join(path)))  # noqa: S704
        for colour, path in sorted(parts.items())
    )
