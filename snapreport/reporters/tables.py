"""Tables for a terminal: as wide as it is, without colour, the last column cut if need be."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

from snapreport.safe_text import replaced

NARROWEST, PIPE_WIDTH = 60, 100
FULL_WIDTH = 10_000


def terminal_width(full: bool = False) -> int:
    """Return the columns to lay out for; with ``full`` as many as any text needs."""
    if full:
        return FULL_WIDTH
    return max(shutil.get_terminal_size((PIPE_WIDTH, 24)).columns, NARROWEST)


class Page:
    """Text that is laid out line by line."""

    def __init__(self, width: int) -> None:
        """``width`` in columns."""
        self.width = width
        self._text = io.StringIO()
        self._console = Console(
            file=self._text,
            width=width,
            color_system=None,
            markup=False,
            emoji=False,
            highlight=False,
            legacy_windows=False,
        )

    @property
    def empty(self) -> bool:
        """Whether nothing was written yet."""
        return not self._text.getvalue()

    def say(self, text: str = "") -> None:
        """Write a paragraph, broken where it is too long."""
        self._console.print(replaced(text, "\n"))

    def table(
        self,
        headings: Iterable[str],
        rows: Iterable[Iterable[str]],
        figures: Sequence[bool] | None = None,
    ) -> None:
        """Write a table: figures to the right, the last column as text to the left.

        Args:
            headings: one for each column.
            rows: of as many texts.
            figures: which columns are set to the right; None for all but the last.
        """
        names = list(headings)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for i, heading in enumerate(names):
            left = i == len(names) - 1 or not heading
            if figures is not None:
                left = not figures[i]
            table.add_column(
                heading, justify="left" if left else "right", no_wrap=True, overflow="ellipsis"
            )
        for row in rows:
            table.add_row(*map(replaced, row))
        self._console.print(table)

    def render(self) -> bytes:
        """Return the text in UTF-8."""
        lines = (line.rstrip() for line in self._text.getvalue().splitlines())
        return ("\n".join(lines) + "\n").encode()
