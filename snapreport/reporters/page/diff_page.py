"""The comparison of two recordings as one HTML file that opens offline, without any script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

from snapreport.compare.diff_types import Change, Diff
from snapreport.reporters.page.diff_svg import draw_diff
from snapreport.reporters.page.svg import HEIGHT, WIDTH
from snapreport.reporters.page.whole_page import write_page
from snapreport.reporters.words import diff_rows
from snapreport.reporters.words.diff_rows import (
    GROUP_WORDS,
    figure_row,
    groups_title,
    place_of,
    place_text,
    shown_figures,
    split_rows,
)
from snapreport.reporters.words.summary_rows import signed

_ROWS = 200
_STAGES = 100


@dataclass(frozen=True)
class Table:
    """The changes by one grouping."""

    by: str
    title: str
    heading: str
    rows: Sequence[Change]
    rest: str
    largest: int
    """The largest change, which gets a full bar; never 0."""


class DiffHtmlReporter:
    """Writes a comparison as one self-contained HTML page."""

    def render(self, diff: Diff, out: BinaryIO) -> None:
        """Write the page as UTF-8."""
        tables = [_table(diff, diff.groups, diff.by)]
        if diff.by == "site":
            tables.append(_table(diff, diff.categories, "category"))
        write_page(
            out,
            "diff.html.j2",
            style="diff.css",
            diff=diff,
            sides=(("BASE", diff.base), ("NEW", diff.new)),
            pictures=draw_diff(diff),
            tables=tables,
            figures=[(figure, figure_row(name, figure)) for name, figure in shown_figures(diff)],
            stages=diff.stages[:_STAGES],
            more_stages=max(len(diff.stages) - _STAGES, 0),
            width=WIDTH,
            height=HEIGHT,
            signed=signed,
            place=_place,
            words=diff_rows,
        )


def _table(diff: Diff, changes: Sequence[Change], by: str) -> Table:
    rows, rest = split_rows(changes, _ROWS)
    if not rows:  # nothing changed: show what there is
        rows, rest = changes[:_ROWS], ""
    return Table(
        by=by,
        title=groups_title(diff, by),
        heading=GROUP_WORDS[by].capitalize(),
        rows=rows,
        rest=f"{rest[0].upper()}{rest[1:]}." if rest else "",
        largest=max((abs(change.change) for change in changes), default=0) or 1,
    )


def _place(change: Change) -> str:
    """Return the last two parts of the path, with the line: enough to recognise it."""
    text = place_text(place_of(change)).replace("\\", "/")
    return "/".join(text.split("/")[-2:])
