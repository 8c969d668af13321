"""Tables whose figures stand whole: headings break into lines, and texts take what room is left."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from snapreport.reporters.words.plain_text import cut_site, one_line

_GAP = "  "
_LEAST = 16
"""Columns that a text gets at least."""


def lay_out_columns(
    headings: Sequence[str], rows: Sequence[Sequence[str]], texts: Sequence[bool], width: int
) -> Iterator[str]:
    """Yield the lines of a table.

    Args:
        headings: one for each column.
        rows: of as many cells.
        texts: which columns are texts, set to the left and cut as call sites are.
        width: of the terminal, in columns.
    """
    cells = [[one_line(cell) for cell in row] for row in rows]
    widths = [
        max([*(len(word) for word in heading.split()), *(len(row[i]) for row in cells), 1])
        for i, heading in enumerate(headings)
    ]
    figures = sum(wide for wide, text in zip(widths, texts, strict=True) if not text)
    room = width - figures - len(_GAP) * (len(widths) - 1)
    share = max(room // max(sum(texts), 1), _LEAST)
    # A text that is shorter than its share leaves the rest to the others.
    spare = sum(max(share - wide, 0) for wide, text in zip(widths, texts, strict=True) if text)
    for i, text in enumerate(texts):
        if text and widths[i] > share:
            more = min(widths[i] - share, spare)
            widths[i], spare = share + more, spare - more
    titles = [textwrap.wrap(heading, wide) for heading, wide in zip(headings, widths, strict=True)]
    tallest = max(map(len, titles))
    for line in range(tallest):
        words = [
            title[line - tallest + len(title)] if line >= tallest - len(title) else ""
            for title in titles
        ]
        yield _line(words, widths, texts)
    for row in cells:
        yield _line(row, widths, texts)


def _line(cells: Sequence[str], widths: Sequence[int], texts: Sequence[bool]) -> str:
    parts = [
        cut_site(cell, wide).ljust(wide) if text else cell.rjust(wide)
        for cell, wide, text in zip(cells, widths, texts, strict=True)
    ]
    return _GAP.join(parts).rstrip()
