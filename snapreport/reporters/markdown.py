"""Writes a document as Markdown, short enough for an issue comment; long parts are folded.

It is made of blocks, such as paragraphs or tables, with an empty line between them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import BinaryIO, TypeVar

from snapreport.ground.safe_text import replaced
from snapreport.reporters.document import (
    Block,
    Bullets,
    Code,
    Document,
    Folded,
    Heading,
    Item,
    Listing,
    Mark,
    Pairs,
    Paragraph,
    Part,
    Severity,
    Site,
    Size,
    Strong,
    Table,
    Tag,
    Words,
    parts_of,
    with_content,
)
from snapreport.reporters.notes import PARTED, cut_notes
from snapreport.reporters.plain_text import cut, cut_site

LIMIT = 65_536
"""The longest comment that GitHub accepts; GitHub counts characters, and we count bytes."""

_AnyRoom = TypeVar("_AnyRoom")


def write_markdown(
    build: Callable[[_AnyRoom], Document],
    rooms: Sequence[_AnyRoom],
    out: BinaryIO,
    *,
    level: int = 2,
    notes: str = "",
) -> None:
    """Write a document as Markdown of less than LIMIT bytes.

    Args:
        build: returns the document for a room, such as the most rows of each table.
        rooms: to try in turn until it fits, the largest first; the last is used even if it is too
            long.
        out: the file to write to.
        level: of the heading that its title is.
        notes: Markdown to stand above it, cut where there is no room.
    """
    beside = len(cut_notes(notes, LIMIT))
    for room in rooms:
        text = ("\n\n".join(document_blocks(build(room), level)) + "\n").encode()
        if len(text) + beside < LIMIT:
            break
    out.write(cut_notes(notes, LIMIT - len(text) - 1) + text)


def document_blocks(document: Document, level: int = 2) -> Iterator[str]:
    """Yield the blocks of a document, its title first."""
    yield f"{'#' * level} {_inline(document.title)}"
    yield from _blocks(document.blocks, level)


def _blocks(blocks: Iterable[Block], level: int) -> Iterator[str]:
    """Yield blocks of Markdown.

    Args:
        blocks: to lay out.
        level: of the heading above; 0 in a folded part, whose headings are only bold.
    """
    below = level and level + 1
    for block in with_content(blocks):
        if isinstance(block, Heading):
            depth = level and level - 2 + block.level
            yield _heading(block.words, depth if block.level < _PARTS else 0)
            if level and block.level == _SECTION:
                below = depth + 1
        elif isinstance(block, Paragraph):
            text = _inline(block.words)
            if block.style in _BOLD and not any(
                isinstance(part, Strong) for part in parts_of(block.words)
            ):
                text = f"**{text}**"
            yield f"> ⚠️ {text}" if block.is_note else text
        elif isinstance(block, Bullets):
            yield "\n".join(f"- {_bullet(item)}" for item in block.items).rstrip("\n")
        elif isinstance(block, Table):
            yield from _table_blocks(block, below)
        elif isinstance(block, Pairs):
            yield table(
                block.headings,
                [[_inline(words) for words in row] for row in block.rows],
                left=(0, 2),
            )
        elif isinstance(block, Listing):
            if block.title:
                yield _heading(block.title, below)
            # Code that is indented, so that no name in it can end it.
            yield "\n".join(f"    {line}" for line in block.lines)
        elif isinstance(block, Folded):
            yield f"<details><summary>{escaped(block.title)}</summary>"
            yield from _blocks(block.blocks, 0)
            yield "</details>"


_BOLD = ("title", "good", "critical")
_SECTION, _PARTS = 3, 5
"""The level of headings below which tables stand, and that from which on they are only bold."""


def _heading(words: Words, level: int) -> str:
    text = _inline(words)
    return f"{'#' * level} {text}" if level else f"**{text}**"


_NO_LINK = frozenset("<>\n\\")
"""What would end a link."""


def _inline(words: Words) -> str:
    return "".join(map(_part, parts_of(words)))


def _part(part: Part) -> str:
    if isinstance(part, Code):
        text = code_span(part.text, part.limit)
        return f"[{text}](<{part.link}>)" if part.link and not set(part.link) & _NO_LINK else text
    if isinstance(part, Tag):
        return code_span(part.text)
    if isinstance(part, Site):
        name = code_span(part.name, _NAME) if part.is_code else escaped(part.name)
        return f"{name} {code_span(part.place, _PLACE)}" if part.place else name
    if isinstance(part, Strong):
        return f"**{escaped(part.text)}**"
    if isinstance(part, Mark):
        return MARKS[part.is_good]
    if isinstance(part, Severity):
        return _SEVERITIES.get(part.name, "")
    if isinstance(part, Size):
        return str(part)
    # A space at an end stands between two parts.
    before = " " if part.startswith(" ") else ""
    after = " " if part.endswith(" ") and part.strip() else ""
    return f"{before}{escaped(part)}{after}"


_NAME, _PLACE = 80, 90
"""The most letters of a function's name, and of a place."""
_SEVERITIES = {"critical": "🔴", "warning": "🟠", "note": "🔵"}
MARKS = {True: "✅", False: "❌", None: "❔"}


def _bullet(item: Words | Item) -> str:
    if not isinstance(item, Item):
        return _inline(item)
    lines = [_inline(item.words)]
    if item.change:  # indented, because a line in it could end a fence; first, or it is no code
        lines += ["", *(f"      {replaced(line)}" for line in item.change.splitlines()), ""]
    return "\n".join([*lines, *(f"  - {_inline(words)}" for words in item.below)])


def _table_blocks(of: Table, level: int) -> Iterator[str]:
    if of.title:
        yield _heading(of.title, level)
    rows = [[_inline(cell) for cell in row] for row in of.rows]
    for row, depth in zip(rows, of.depths, strict=False):
        row[-1] = "&nbsp;&nbsp;" * min(depth, 8) + row[-1]
    if of.total:
        rows.append([_inline(cell) for cell in of.total])
    left = [i for i, column in enumerate(of.columns) if column.is_text]
    yield table([escaped(column.title) for column in of.columns], rows, left)
    if of.rest:
        yield escaped(of.rest)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[int] = ()) -> str:
    """Return a table of cells that are Markdown already, aligned right except columns ``left``."""
    rules = (" :-- " if i in left else " --: " for i in range(len(headings)))
    lines = (" | ".join(row) for row in (headings, *rows))
    first, *others = (f"| {line} |" for line in lines)
    return "\n".join([first, f"|{'|'.join(rules)}|", *others])


def code_span(text: str, limit: int = 400) -> str:
    """Return text as a Markdown code span that nothing in the text can end, even in a table."""
    text = cut_site(text, limit).replace("|", "\\|")
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if text.startswith("`") or text.endswith("`") or not text.strip() else ""
    return f"{fence}{pad}{text}{pad}{fence}"


_LONGEST = 2000
"""Most letters of a text: names can have millions, and issue comments are limited."""
# No element's name begins with a digit: "<0.1%" stays as it is.
_MARKDOWN = re.compile(r"([\\`*_{}\[\]>#|~&!$]|<(?!\d))")
_LIST = re.compile(r"^(\d{0,9})([-+=.)])(?=[-+=\s])")  # a list, a rule or a heading's line
# What GitHub turns into links and pictures, up to where a zero-width space breaks it: mentions,
# issues ("#12" with no word before it, "owner/name#12", "GH-12"), addresses, emoji.
_LINKS = re.compile(
    r"@(?!\s)|:(?=//)|www(?=\.)|\bGH-(?=\d)|(?<!\w)#(?=\d)|(?<=[\w.-])/[\w.-]+#(?=\d)"
    r"|(?<!:):(?=[a-z+-][a-z0-9_+-]*:(?!:))",
    re.IGNORECASE,
)


def escaped(text: str) -> str:
    """Return text in which nothing is Markdown, HTML, a mention or a link, cut at its end."""
    line = _LINKS.sub(lambda found: found[0] + PARTED, cut(text, _LONGEST).strip(" "))
    return _LIST.sub(r"\1\\\2", _MARKDOWN.sub(r"\\\1", line))
