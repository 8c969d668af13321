"""Lays out tables: figures are never cut, texts share the room left, headings may wrap."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence

from rich.cells import cell_len

from snapreport.ground.safe_text import replaced

_GAP = "  "
_LEAST = 8
"""The least width of a text column."""
_ENOUGH = 32
"""Headings wrap only if a text column would otherwise be narrower than this."""


def lay_out_columns(
    headings: Iterable[str],
    rows: Iterable[Iterable[str]],
    texts: Sequence[bool],
    width: int,
    cut: Callable[[str, int], str],
) -> tuple[list[str], list[str]]:
    """Return the lines of a table's heading, and a line for each row.

    Args:
        headings: one for each column; they wrap where the table is too wide.
        rows: each with a cell for each heading.
        texts: which columns are texts, aligned left and cut if need be; the others are never cut.
        width: of the terminal, in columns.
        cut: shortens a text to a number of columns.
    """
    names = [replaced(heading) for heading in headings]
    cells = [[replaced(cell) for cell in row] for row in rows]
    widest = [max(map(_width, column)) for column in zip(*cells, strict=True)] or [0] * len(names)

    def fit(headings: Sequence[int]) -> list[int]:
        """Return the columns' widths; texts share the room that figures leave."""
        widths = list(map(max, headings, widest))
        room = width - len(_GAP) * (len(widths) - 1)
        room -= sum(wide for wide, text in zip(widths, texts, strict=True) if not text)
        narrowest_first = sorted(
            (i for i, text in enumerate(texts) if text), key=widths.__getitem__
        )
        for done, i in enumerate(narrowest_first):
            share = max(room // (len(narrowest_first) - done), _LEAST)
            widths[i] = min(widths[i], share)
            room -= widths[i]
        return widths

    widths = fit([_width(name) for name in names])
    if any(wide < min(need, _ENOUGH) for wide, need in zip(widths, widest, strict=True)):
        widths = fit([max(map(_width, name.split()), default=0) for name in names])
    titles = [textwrap.wrap(name, max(wide, 1)) for name, wide in zip(names, widths, strict=True)]
    tallest = max(map(len, titles))
    above = [[""] * (tallest - len(title)) + title for title in titles]

    def line(row: Sequence[str]) -> str:
        return _GAP.join(
            _padded(cell if _width(cell) <= wide or not text else cut(cell, wide), wide, text)
            for cell, wide, text in zip(row, widths, texts, strict=True)
        ).rstrip()

    return [line(words) for words in zip(*above, strict=True)], [line(row) for row in cells]


def _padded(cell: str, wide: int, left: bool) -> str:
    space = " " * (wide - _width(cell))
    return cell + space if left else space + cell


def _width(text: str) -> int:
    """Return the terminal columns that a text takes; a Chinese character takes two."""
    return len(text) if text.isascii() else cell_len(text)
