"""Writes a document for a terminal, laid out for its width and with its colours.

In a table figures are never cut, texts share the room left, and headings may wrap.
"""

from __future__ import annotations

import io
import re
import shutil
import textwrap
from collections.abc import Callable, Iterable, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from snapreport.ground.safe_text import replaced
from snapreport.reporters.document import (
    Block,
    Bullets,
    Document,
    Drawing,
    Folded,
    Heading,
    Item,
    Listing,
    Pairs,
    Paragraph,
    Table,
    Words,
    plain,
    with_content,
)
from snapreport.reporters.plain_text import cut, cut_place, cut_site

NARROWEST, _PIPE_WIDTH = 60, 100

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
_AMOUNT = re.compile(r"^ *\S+ \S+")

_INDENT = "  "
_VALUE = 24
"""The widest value that the column of meanings makes room for."""
_MEANING = 20
"""The least columns for a meaning to be readable."""


def terminal_width(full: bool = False) -> int:
    """Return the columns to lay out for; with ``full``, enough for any text."""
    if full:
        return 10**9
    return max(shutil.get_terminal_size((_PIPE_WIDTH, 24)).columns, NARROWEST)


class Page:
    """Text laid out line by line, with no control sequences other than its colours."""

    def __init__(self, width: int, *, colour: bool = False) -> None:
        """``width`` in columns; ``colour``: for a terminal that shows them."""
        self._width = width
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
            force_jupyter=False,  # else Rich shows each line in a notebook, and nothing is returned
        )

    def write(self, document: Document) -> None:
        """Write a document, without its title."""
        self.blocks(document.blocks)

    def say(self, text: str = "", style: str = "") -> None:
        """Write a paragraph, wrapped to the width; ``style``: a key of ``STYLES``."""
        self._console.print(replaced(text, "\n"), style=STYLES[style])

    def render(self) -> bytes:
        """Return the text in UTF-8."""
        lines = (line.rstrip() for line in self._text.getvalue().splitlines())
        return ("\n".join(lines) + "\n").encode()

    def blocks(self, blocks: Iterable[Block], before: Block | None = None) -> None:
        """Write parts of a document, with empty lines between those that stand apart."""
        for block in with_content(blocks):
            if isinstance(block, Drawing) or (isinstance(block, Folded) and block.only_folded):
                continue
            together = isinstance(block, Paragraph) and isinstance(before, Paragraph)
            headed = isinstance(before, Heading) and not isinstance(block, Heading)
            if self._text.tell() and not (headed or together):
                self.say()
            self._block(block)
            before = block

    def _block(self, block: Block) -> None:
        if isinstance(block, Heading):
            self._line(block.words, block.style)
        elif isinstance(block, Paragraph):
            self.say(("! " if block.is_note else "") + _one_line(block.words), block.style)
        elif isinstance(block, Bullets):
            for item in block.items:
                self._item(item if isinstance(item, Item) else Item(item))
        elif isinstance(block, Table):
            self._table(block)
        elif isinstance(block, Pairs):
            self._pairs(block)
        elif isinstance(block, Listing):
            self._line(block.title)
            shares = block.shares or [0.0] * len(block.lines)
            for line, share in zip(block.lines, shares, strict=True):
                self._amount(line, share)
        elif isinstance(block, Folded):
            self._line(block.title)
            self.blocks(block.blocks, before=Heading(block.title))

    def _line(self, words: Words, style: str = "title") -> None:
        """Write words, if there are any, on a line of their own."""
        if words:
            self.say(_one_line(words), style)

    def _amount(self, text: str, share: float) -> None:
        """Write a line that begins with an amount, coloured by its share of the total."""
        line = Text(replaced(text))
        style = next((style for least, style in _HEAT if share >= least), "")
        line.highlight_regex(_AMOUNT, style=style)
        self._console.print(line, soft_wrap=True)

    def _item(self, item: Item) -> None:
        self._wrapped(plain(item.words), "- ", item.style)
        for words in item.below:
            self._wrapped(plain(words), "  - ")
        for line in item.change.splitlines():
            self._text.write(f"{_INDENT * 3}{replaced(line)}\n")  # to be copied: never wrapped

    def _wrapped(self, text: str, mark: str, style: str = "") -> None:
        """Write a paragraph with a mark before it, its later lines below its first word."""
        for line in textwrap.wrap(
            replaced(text),
            self._width,
            initial_indent=_INDENT + mark,
            subsequent_indent=_INDENT + " " * len(mark),
            break_long_words=False,
            break_on_hyphens=False,
        ):
            self.say(line, style)

    def _table(self, table: Table) -> None:
        self._line(table.title)
        rows = [[plain(cell) for cell in row] for row in table.rows]
        for row, depth in zip(rows, table.depths, strict=False):
            row[-1] = "  " * min(depth, 8) + row[-1]
        if table.total:
            rows.append([plain(cell) for cell in table.total])
        head, lines = lay_out_columns(
            [column.title for column in table.columns],
            rows,
            [column.is_text for column in table.columns],
            self._width,
            [_CUTS[column.cut] for column in table.columns],
        )
        for line in head:
            self._console.print(Text(line, "bold"), soft_wrap=True)
        if table.shares:
            others = [0.0] * (len(lines) - len(table.shares))
            for line, share in zip(lines, [*table.shares, *others], strict=True):
                self._amount(line, share)
        else:
            self._text.writelines(f"{line}\n" for line in lines)
        if table.rest:
            self.say(replaced(table.rest))

    def _pairs(self, pairs: Pairs) -> None:
        """Write each fact as a line, with what it means beside it."""
        texts = [[_one_line(words) for words in row] for row in pairs.rows]
        # A longer value, such as a cause, would leave no room for any meaning.
        wide = max((len(text) for _, text, _ in texts if len(text) <= _VALUE), default=0)
        left = max((len(label) for label, _, _ in texts), default=0)
        for label, value, meaning in texts:
            head = f"{_INDENT}{label:<{left}}  {value:>{wide}}"
            if not meaning or self._width - len(head) < _MEANING:
                self.say(head)
                continue
            for line in textwrap.wrap(
                meaning,
                self._width,
                initial_indent=f"{head}  ",
                subsequent_indent=" " * (len(head) + 2),
                break_on_hyphens=False,
            ):
                self.say(line)


def _one_line(words: Words) -> str:
    return replaced(plain(words))


_Cut = Callable[[str, int], str]
_CUTS: dict[str, _Cut] = {"site": cut_site, "place": cut_place, "end": cut}
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
    cuts: Sequence[_Cut],
) -> tuple[list[str], list[str]]:
    """Return the lines of a table's heading, and a line for each row.

    Args:
        headings: one for each column; they wrap where the table is too wide.
        rows: each with a cell for each heading.
        texts: which columns are texts, aligned left and cut if need be; the others are never cut.
        width: of the terminal, in columns.
        cuts: for each column, what shortens a text to a number of columns.
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
            for cell, wide, text, cut in zip(row, widths, texts, cuts, strict=True)
        ).rstrip()

    return [line(words) for words in zip(*above, strict=True)], [line(row) for row in cells]


def _padded(cell: str, wide: int, left: bool) -> str:
    space = " " * (wide - _width(cell))
    return cell + space if left else space + cell


def _width(text: str) -> int:
    """Return the terminal columns that a text takes; a Chinese character takes two."""
    return len(text) if text.isascii() else cell_len(text)
