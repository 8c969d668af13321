"""Text for a terminal: as wide as it is, in its colours, the last column cut if need be."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from snapreport.ground.safe_text import replaced

NARROWEST, PIPE_WIDTH = 60, 100
_AMOUNT = len("1023.9 MiB")
FULL_WIDTH = 10_000

STYLES = {
    "": "",
    "title": "bold",
    "critical": "bold red",
    "warning": "bold yellow",
    "note": "bold blue",
    "good": "bold green",
}
"""What a line is, and how it is shown where there are colours."""

_HEAT = ((0.25, "red"), (0.05, "yellow"))
"""From which share of the whole on an amount is shown in which colour."""


def heat(share: float) -> str:
    """Return the style of an amount that is this share of the whole."""
    return next((style for least, style in _HEAT if share >= least), "")


def terminal_width(full: bool = False) -> int:
    """Return the columns to lay out for; with ``full`` as many as any text needs."""
    if full:
        return FULL_WIDTH
    return max(shutil.get_terminal_size((PIPE_WIDTH, 24)).columns, NARROWEST)


class Page:
    """Text that is laid out line by line; nothing in it but its colours drives a terminal."""

    def __init__(self, width: int, *, colour: bool = False) -> None:
        """``width`` in columns; ``colour``: for a terminal that shows them."""
        self.width = width
        self._text = io.StringIO()
        self._console = Console(
            file=self._text,
            width=width,
            color_system="standard" if colour else None,
            no_color=False,  # whoever asks for colour has looked
            markup=False,
            emoji=False,
            highlight=False,
            legacy_windows=False,
        )

    def part(self) -> None:
        """Begin a part: with an empty line, unless it is the first."""
        if self._text.tell():
            self.say()

    def say(self, text: str = "", style: str = "") -> None:
        """Write a paragraph, broken where it is too long; ``style``: what it is, of ``STYLES``."""
        self._console.print(replaced(text, "\n"), style=STYLES[style])

    def amount(self, text: str, share: float) -> None:
        """Write a line that begins with an amount, in the colour of its share of the whole."""
        line = Text(replaced(text))
        line.stylize(heat(share), 0, len(text) - len(text.lstrip()) + _AMOUNT)
        self._console.print(line)

    def table(
        self,
        headings: Iterable[str],
        rows: Iterable[Iterable[str]],
        figures: Sequence[bool] | None = None,
        shares: Sequence[float] = (),
    ) -> None:
        """Write a table: figures to the right, the last column as text to the left.

        Args:
            headings: one for each column.
            rows: of as many texts.
            figures: which columns are set to the right; None for all but the last.
            shares: of the whole that each row's first figure is, if they are to be told by colour.
        """
        names = list(headings)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for i, heading in enumerate(names):
            left = i == len(names) - 1 or not heading
            if figures is not None:
                left = not figures[i]
            table.add_column(
                replaced(heading),
                justify="left" if left else "right",
                no_wrap=True,
                overflow="ellipsis",
            )
        for i, row in enumerate(rows):
            first, *others = map(replaced, row)
            table.add_row(Text(first, heat(shares[i]) if shares else ""), *others)
        self._console.print(table)

    def render(self) -> bytes:
        """Return the text in UTF-8."""
        lines = (line.rstrip() for line in self._text.getvalue().splitlines())
        return ("\n".join(lines) + "\n").encode()
