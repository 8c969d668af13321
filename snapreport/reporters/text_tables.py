"""Writes a document for a terminal, laid out for its width and with its colours."""

from __future__ import annotations

import io
import re
import shutil
import textwrap
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from snapreport.ground.safe_text import replaced
from snapreport.ground.units import format_bytes, format_count, plural
from snapreport.model.findings import CallTree
from snapreport.model.snapshot import FrameTable
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
    plain,
)
from snapreport.reporters.plain_text import cut, cut_place, cut_site, location, one_line

# Lays out tables: figures are never cut, texts share the room left, headings may wrap.


_Cut = Callable[[str, int], str]
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

_INDENT = "  "
_VALUE = 24
"""The widest value that the column of meanings makes room for."""
_MEANING = 20
"""The least columns for a meaning to be readable."""
_CUTS: dict[str, _Cut] = {"site": cut_site, "place": cut_place, "end": cut}

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
        cut: _Cut | Sequence[_Cut] = cut_site,
        indent: str = "",
    ) -> None:
        """Write a table: figures aligned right, texts aligned left and cut if need be.

        Args:
            headings: one for each column.
            rows: each with a cell for each heading.
            left: the columns of texts; None for the last one and those without a heading.
            shares: each row's share of the total, to colour its first figure; none for no colours.
            cut: shortens a text to a number of columns; one for all, or one for each column.
            indent: what each line begins with.
        """
        last = len(headings) - 1
        texts = [
            i in left if left is not None else i == last or not heading
            for i, heading in enumerate(headings)
        ]
        width = self.width - len(indent)
        cuts = [cut] * len(headings) if callable(cut) else cut
        head, lines = lay_out_columns(headings, rows, texts, width, cuts)
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

    def write(self, document: Document) -> None:
        """Write a document, without its title."""
        self.blocks(document.blocks)

    def blocks(self, blocks: Iterable[Block], before: Block | None = None) -> None:
        """Write parts of a document, with empty lines between those that stand apart."""
        for block in blocks:
            if isinstance(block, Drawing) or (isinstance(block, Folded) and block.only_folded):
                continue
            together = isinstance(block, Paragraph) and isinstance(before, Paragraph)
            if self._text.tell() and not (isinstance(before, Heading) or together):
                self.say()
            self._block(block)
            before = block

    def _block(self, block: Block) -> None:
        if isinstance(block, Heading):
            self.say(one_line(plain(block.words)), block.style)
        elif isinstance(block, Paragraph):
            self.say(("! " if block.is_note else "") + one_line(plain(block.words)), block.style)
        elif isinstance(block, Bullets):
            for item in block.items:
                self._item(item if isinstance(item, Item) else Item(item))
        elif isinstance(block, Table):
            self._table(block)
        elif isinstance(block, Pairs):
            self._pairs(block)
        elif isinstance(block, Listing):
            if block.title:
                self.say(one_line(plain(block.title)), "title")
            shares = block.shares or [0.0] * len(block.lines)
            for line, share in zip(block.lines, shares, strict=True):
                self.amount(line, share)
        elif isinstance(block, Folded):
            title = Heading(block.title)
            self._block(title)
            self.blocks(block.blocks, before=title)

    def _item(self, item: Item) -> None:
        self.indented(plain(item.words), "- ", item.style)
        for words in item.below:
            self.indented(plain(words), "  - ")
        for line in item.change.splitlines():
            self.say(f"{_INDENT * 3}{one_line(line)}")

    def indented(self, text: str, mark: str = "", style: str = "") -> None:
        """Write a paragraph that is set in from the left, its later lines below its first word."""
        for line in textwrap.wrap(
            one_line(text),
            self.width,
            initial_indent=_INDENT + mark,
            subsequent_indent=_INDENT + " " * len(mark),
            break_long_words=False,
            break_on_hyphens=False,
        ):
            self.say(line, style)

    def _table(self, table: Table) -> None:
        if table.title:
            self.say(one_line(plain(table.title)), "title")
        last = len(table.columns) - 1
        depths = table.depths or [0] * len(table.rows)
        rows = [
            [*map(plain, row[:last]), "  " * min(depth, 8) + plain(row[last])]
            for depth, row in zip(depths, table.rows, strict=True)
        ]
        if table.total:
            rows.append([plain(cell) for cell in table.total])
        self.table(
            [column.title for column in table.columns],
            rows,
            [i for i, column in enumerate(table.columns) if column.is_text],
            shares=table.shares,
            cut=[_CUTS[column.cut] for column in table.columns],
        )
        if table.rest:
            self.say(one_line(table.rest))

    def _pairs(self, pairs: Pairs) -> None:
        """Write each fact as a line, with what it means beside it."""
        texts = [[one_line(plain(words)) for words in row] for row in pairs.rows]
        # A longer value, such as a cause, would leave no room for any meaning.
        wide = max((len(text) for _, text, _ in texts if len(text) <= _VALUE), default=0)
        left = max((len(label) for label, _, _ in texts), default=0)
        for label, value, meaning in texts:
            head = f"{_INDENT}{label:<{left}}  {value:>{wide}}"
            if not meaning or self.width - len(head) < _MEANING:
                self.say(head)
                continue
            for line in textwrap.wrap(
                meaning,
                self.width,
                initial_indent=f"{head}  ",
                subsequent_indent=" " * (len(head) + 2),
                break_on_hyphens=False,
            ):
                self.say(line)

    def render(self) -> bytes:
        """Return the text in UTF-8."""
        lines = (line.rstrip() for line in self._text.getvalue().splitlines())
        return ("\n".join(lines) + "\n").encode()


# A call tree as lines of text, largest nodes only.


_SMALLEST = 0.005
_DEEPEST = 16


class TreeLine(NamedTuple):
    """A line of a drawn tree; its text begins with an amount."""

    text: str
    share: float
    """The node's share of all bytes of the tree."""


def tree_lines(tree: CallTree, frames: FrameTable, most: int) -> list[TreeLine]:
    """Draw a call tree, outermost frames first.

    Args:
        tree: the folded tree, without library-internal frames.
        stacks: the file's stack table.
        most: the most lines to draw; nodes left out are counted.
    """
    held, parents = tree.bytes.tolist(), tree.parent.tolist()
    keys: list[int | str] = [
        tree.label.get(node, frame) for node, frame in enumerate(tree.frame.tolist())
    ]
    children: list[list[int]] = [[] for _ in held]
    for node in range(1, len(tree)):
        children[parents[node]].append(node)

    def ranked(node: int) -> list[int]:
        """Return the children, smallest first: the next to be drawn is taken from the end."""
        return sorted(children[node], key=lambda child: (held[child], str(keys[child])))

    total = max(held[0], 1)
    lines: list[TreeLine] = []
    left_out = 0
    waiting = [(node, 0) for node in ranked(0)]
    while waiting:
        node, depth = waiting.pop()
        if held[node] < _SMALLEST * total or len(lines) == most:
            left_out += 1
            continue
        share = held[node] / total
        indent = "  " * min(depth, _DEEPEST)
        text = f"{format_bytes(held[node]):>10} {share:6.1%}  {indent}{_name(keys[node], frames)}"
        lines.append(TreeLine(text, share))
        waiting += [(child, depth + 1) for child in ranked(node)]
    if left_out:
        nodes = (
            "nodes and what is below them are" if left_out > 1 else "node and what is below it is"
        )
        text = f"{format_count(left_out)} smaller {nodes} left out"
        lines.append(TreeLine(text, 0.0))
    return lines


def _name(key: int | str, frames: FrameTable) -> str:
    if isinstance(key, str):
        return f"({key})"
    place = location(frames.filenames[key], frames.line(key), 60)
    return f"{cut_site(frames.names[key], 80)}  {place}".rstrip()
