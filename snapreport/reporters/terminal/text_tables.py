"""Text for a terminal, laid out for its width and with its colours."""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Sequence

from rich.console import Console
from rich.text import Text

from snapreport.ground.safe_text import replaced
from snapreport.ground.units import plural
from snapreport.reporters.terminal.column_layout import lay_out_columns
from snapreport.reporters.words.plain_text import cut_site

NARROWEST, PIPE_WIDTH = 60, 100
_AMOUNT = re.compile(r"^ *\S+ \S+")

STYLES = {
    "": "",
    "title": "bold",
    "critical": "bold red",
    "warning": "bold yellow",
    "note": "bold blue",
    "good": "bold green",
}
"""Kinds of lines, and their styles where there are colours."""

_HEAT = ((0.25, "red"), (0.05, "yellow"))
"""The least shares of the total, and the colours that amounts have from there on."""


def heat(share: float) -> str:
    """Return the style of an amount that is this share of the total."""
    return next((style for least, style in _HEAT if share >= least), "")


def terminal_width(full: bool = False) -> int:
    """Return the columns to lay out for; with ``full``, enough for any text."""
    if full:
        return 10**9
    return max(shutil.get_terminal_size((PIPE_WIDTH, 24)).columns, NARROWEST)


class Page:
    """Text laid out line by line, with no control sequences other than its colours."""

    def __init__(self, width: int, *, colour: bool = False) -> None:
        """``width`` in columns; ``colour``: for a terminal that shows them."""
        self.width = width
        self._text = io.StringIO()
        self._console = Console(
            file=self._text,
            width=width,
            color_system="standard" if colour else None,
            no_color=False,  # the caller has checked NO_COLOR
            markup=False,
            emoji=False,
            highlight=False,
            legacy_windows=False,
        )

    def part(self, title: str = "") -> None:
        """Begin a part: an empty line, unless it is the first, then the title, if any."""
        if self._text.tell():
            self.say()
        if title:
            self.say(title, "title")

    def say(self, text: str = "", style: str = "") -> None:
        """Write a paragraph, wrapped to the width; ``style``: a key of ``STYLES``."""
        self._console.print(replaced(text, "\n"), style=STYLES[style])

    def amount(self, text: str, share: float) -> None:
        """Write a line that begins with an amount, coloured by its share of the total."""
        line = Text(replaced(text))
        line.highlight_regex(_AMOUNT, style=heat(share))
        self._console.print(line, soft_wrap=True)

    def table(
        self,
        headings: Sequence[str],
        rows: Iterable[Iterable[str]],
        left: Collection[int] | None = None,
        *,
        shares: Sequence[float] = (),
        cut: Callable[[str, int], str] = cut_site,
        indent: str = "",
    ) -> None:
        """Write a table: figures aligned right, texts aligned left and cut if need be.

        Args:
            headings: one for each column.
            rows: each with a cell for each heading.
            left: the columns of texts; None for the last one and those without a heading.
            shares: each row's share of the total, to colour its first figure; none for no colours.
            cut: shortens a text to a number of columns.
            indent: what each line begins with.
        """
        last = len(headings) - 1
        texts = [
            i in left if left is not None else i == last or not heading
            for i, heading in enumerate(headings)
        ]
        width = self.width - len(indent)
        head, lines = lay_out_columns(headings, rows, texts, width, cut)
        for line in head:
            self._console.print(Text(indent + line, "bold"), soft_wrap=True)
        if not shares:
            self._text.writelines(f"{indent}{line}\n" for line in lines)
        for line, share in zip(lines, shares, strict=False):
            self.amount(line, share)

    def more(self, count: int, word: str) -> None:
        """Say how many were left out, if any."""
        if count > 0:
            self.say(f"{plural(count, f'more {word}')}.")

    def render(self) -> bytes:
        """Return the text in UTF-8."""
        lines = (line.rstrip() for line in self._text.getvalue().splitlines())
        return ("\n".join(lines) + "\n").encode()
