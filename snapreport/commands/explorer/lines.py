"""Lines of text for a screen: runs with a role each, measured in terminal columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from rich.cells import cell_len, chop_cells, set_cell_size

from snapreport.ground.records import dataclass
from snapreport.ground.safe_text import visible
from snapreport.reporters.plain_text import cut_place, cut_site


class Run(NamedTuple):
    """Text of one role; ``app.py`` says what a role looks like."""

    text: str
    role: str = ""


@dataclass(frozen=True)
class Line:
    """One row of a screen."""

    runs: tuple[Run, ...] = ()
    mark: str = ""
    """How the entire row is marked: ``cursor``, ``match``, ``bar``, or ``""`` for none."""

    @property
    def text(self) -> str:
        """Its text, without roles."""
        return "".join(run.text for run in self.runs)

    @property
    def marked(self) -> tuple[Run, ...]:
        """Its runs, each with the mark after its role: ``dim|cursor``."""
        if not self.mark:
            return self.runs
        return tuple(Run(text, f"{role}|{self.mark}") for text, role in self.runs)


EMPTY = Line()


def ink(*parts: str | tuple[str, str], mark: str = "") -> Line:
    """Make a line of texts and of ``(text, role)``; control characters become visible."""
    runs = (Run(part) if isinstance(part, str) else Run(*part) for part in parts)
    return Line(tuple(Run(visible(text), role) for text, role in runs if text), mark)


def source_line(text: str) -> Line:
    """Return a line of source code below what was made there; an empty line if it is not known."""
    return ink(("  │ ", "dim"), text) if text else EMPTY


_HEAT = (0.05, 0.2, 0.4, 0.7)
"""The shares from which a row has the next warmer colour."""


def heat(share: float) -> str:
    """Return the role of a row with this share of the total: the more, the warmer."""
    return f"heat{sum(share >= least for least in _HEAT)}"


def change_role(change: int) -> str:
    """Return the role of a change in bytes."""
    return "more" if change > 0 else "less" if change < 0 else ""


# Texts of an exact width.


def width_of(text: str) -> int:
    """Return how many columns a text takes: a Chinese letter takes two."""
    return len(text) if text.isascii() else cell_len(text)


def fit(text: str, width: int, *, right: bool = False) -> str:
    """Return text of exactly ``width`` columns: cut with an ellipsis, or padded with spaces."""
    text = visible(text)
    wide = width_of(text)
    if wide > width:
        return clip(text, width)
    space = " " * (width - wide)
    return space + text if right else text + space


def clip(text: str, width: int) -> str:
    """Return text cut to exactly ``width`` columns, the last one an ellipsis."""
    if width <= 1:
        return "…"[:width]
    return set_cell_size(text, width - 1) + "…"


def fit_site(text: str, width: int) -> str:
    """Return ``function  file:line`` in exactly ``width`` columns: the function is kept."""
    return fit(cut_site(visible(text), max(width, 1)), width)


def fit_place(text: str, width: int) -> str:
    """Return a path in exactly ``width`` columns: its end is kept."""
    return fit(cut_place(visible(text), max(width, 1)), width)


def wrap(text: str, width: int, indent: str = "") -> list[str]:
    """Break a text into lines; control characters become visible."""
    lines = textwrap.wrap(
        visible(text),
        max(width, len(indent) + 8),
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )
    whole = [part for line in lines for part in (chop_cells(line, width) or [line])]
    return whole or [indent.rstrip()]


def labelled(label: str, text: str, wide: int, width: int, role: str) -> list[Line]:
    """Return a label in ``wide`` columns, and beside it a text, broken to end before ``width``."""
    return [
        Line((Run(fit("" if k else label, wide), role), Run(f" {part}")))
        for k, part in enumerate(wrap(text, max(width - wide - 1, 10)))
    ]


def clipped(line: Line, width: int) -> Line:
    """Return a line of exactly ``width`` columns."""
    runs: list[Run] = []
    left = width
    for text, role in line.runs:
        wide = width_of(text)
        if wide > left:
            return Line((*runs, Run(clip(text, left), role)), line.mark)
        runs.append(Run(text, role))
        left -= wide
    return Line((*runs, Run(" " * left)) if left else tuple(runs), line.mark)


def filled(lines: Sequence[Line], width: int, height: int) -> list[Line]:
    """Return exactly ``height`` lines of ``width`` columns, empty ones at the end."""
    return [clipped(line, width) for line in (*lines[:height], *[EMPTY] * (height - len(lines)))]


def beside(one: Line, other: Line, width: int) -> Line:
    """Join two lines: the second at the right end, the first cut if both do not fit."""
    right = sum(width_of(run.text) for run in other.runs)
    room = max(width - right, 0)
    return clipped(Line(clipped(one, room).runs + other.runs, one.mark), width)


def columns(
    cells: Sequence[str], widths: Sequence[int], lefts: Iterable[int] = (), role: str = ""
) -> Line:
    """Return a row of a table: right-aligned, except the columns in ``lefts``."""
    lefts = set(lefts)
    parts = [
        fit(cell, wide, right=k not in lefts)
        for k, (cell, wide) in enumerate(zip(cells, widths, strict=True))
    ]
    return Line((Run("  ".join(parts), role),))


# Rows of single characters, for what is drawn.


Cell = tuple[str, str]
"""A character and its role."""


def in_line(cells: Sequence[Cell]) -> tuple[Run, ...]:
    """Return cells as runs, one for neighbours with the same role."""
    return tuple(
        Run("".join(cell[0] for cell in group), role)
        for role, group in groupby(cells, key=lambda cell: cell[1])
    )
