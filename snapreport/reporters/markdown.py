"""Writes a document as Markdown, short enough for an issue comment; long parts are folded.

It is made of blocks, such as paragraphs or tables, with an empty line between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import BinaryIO, TypeVar

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
)
from snapreport.reporters.plain_text import (
    closed,
    code_span,
    escaped,
    one_line,
)

_NAME, _PLACE = 80, 90
"""The most letters of a function's name, and of a place."""
_FENCE = 101
"""The most bytes of a line that ends a block of code."""

LIMIT = 65_536
"""The longest comment that GitHub accepts; GitHub counts characters, and we count bytes."""

_AnyRoom = TypeVar("_AnyRoom")


def first_that_fits(
    blocks: Callable[[_AnyRoom], Iterable[str]], rooms: Sequence[_AnyRoom], beside: int = 0
) -> bytes:
    """Return the longest version of a report that is shorter than LIMIT, in UTF-8.

    Args:
        blocks: returns the report's blocks for a room.
        rooms: the largest first; the last is used even if its report is too long.
        beside: bytes that have to fit in besides the report.
    """
    for room in rooms:
        text = ("\n\n".join(blocks(room)) + "\n").encode()
        if len(text) + beside < LIMIT:
            break
    return text


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[int] = ()) -> str:
    """Return a table of cells that are Markdown already, aligned right except columns ``left``."""
    rules = (" :-- " if i in left else " --: " for i in range(len(headings)))
    lines = (" | ".join(row) for row in (headings, *rows))
    first, *others = (f"| {line} |" for line in lines)
    return "\n".join([first, f"|{'|'.join(rules)}|", *others])


def bullets(lines: Iterable[str]) -> Iterator[str]:
    """Yield a list of lines as one block; no block if there are none."""
    if text := "\n".join(f"- {line}" for line in lines):
        yield text


def folded(title: str, blocks: Iterable[str]) -> str:
    """Return blocks folded under a title."""
    return "\n\n".join([f"<details><summary>{escaped(title)}</summary>", *blocks, "</details>"])


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
        rooms: to try in turn until it fits, the largest first.
        out: the file to write to.
        level: of the heading that its title is.
        notes: Markdown to stand above it, cut where there is no room.
    """
    text = first_that_fits(
        lambda room: document_blocks(build(room), level), rooms, len(_notes(notes, LIMIT))
    )
    out.write(_notes(notes, LIMIT - len(text) - 1) + text)


def document_blocks(document: Document, level: int = 2) -> Iterator[str]:
    """Yield the blocks of a document, its title first."""
    yield f"{'#' * level} {_inline(document.title)}"
    yield from _blocks(document.blocks)


def _blocks(blocks: Iterable[Block], inside: bool = False) -> Iterator[str]:
    """Yield blocks of Markdown; ``inside``: in a folded part, whose tables need no headings."""
    for block in blocks:
        if isinstance(block, Heading):
            yield f"{'#' * block.level} {_inline(block.words)}"
        elif isinstance(block, Paragraph):
            text = _inline(block.words)
            if block.is_note:
                text = f"> ⚠️ {text}"
            stands_out = block.style in _BOLD and not any(
                isinstance(part, Strong) for part in parts_of(block.words)
            )
            yield f"**{text}**" if stands_out else text
        elif isinstance(block, Bullets):
            yield from bullets(map(_bullet, block.items))
        elif isinstance(block, Table):
            yield from _table_blocks(block, inside)
        elif isinstance(block, Pairs):
            yield table(
                ("figure", "value", "meaning"),
                [[_inline(words) for words in row] for row in block.rows],
                left=(0, 2),
            )
        elif isinstance(block, Listing):
            if block.title:
                yield f"### {_inline(block.title)}"
            yield _code(block.lines)
        elif isinstance(block, Folded):
            yield folded(block.title, _blocks(block.blocks, inside=True))


_BOLD = ("title", "good", "critical")
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


_SEVERITIES = {"critical": "🔴", "warning": "🟠", "note": "🔵"}
MARKS = {True: "✅", False: "❌", None: "❔"}


def _bullet(item: Words | Item) -> str:
    if not isinstance(item, Item):
        return _inline(item)
    lines = [_inline(item.words), *(f"  - {_inline(words)}" for words in item.below)]
    if item.change:  # indented, because a line in it could end a fence
        lines += ["", *(f"      {one_line(line)}" for line in item.change.splitlines()), ""]
    return "\n".join(lines)


def _table_blocks(of: Table, inside: bool) -> Iterator[str]:
    if of.title:
        title = _inline(of.title)
        yield f"**{title}**" if inside else f"### {title}"
    rows = [[_inline(cell) for cell in row] for row in of.rows]
    for row, depth in zip(rows, of.depths, strict=False):
        row[-1] = "&nbsp;&nbsp;" * min(depth, 8) + row[-1]
    if of.total:
        rows.append([_inline(cell) for cell in of.total])
    left = [i for i, column in enumerate(of.columns) if column.is_text]
    yield table([escaped(column.title) for column in of.columns], rows, left)
    if of.rest:
        yield escaped(of.rest)


def _code(lines: Iterable[str]) -> str:
    """Return a block of code, indented so that no name in it can end it."""
    return "\n".join(f"    {line}" for line in lines)


def _notes(notes: str, room: int) -> bytes:
    """Return the notes, cut to ``room`` bytes, with no block of code left open."""
    if not notes:
        return b""
    text = notes.encode()
    said = b"\n\n(The notes are longer than an issue comment; the rest was cut.)"
    end = b"\n\n"
    if len(text) + len(end) > room:
        left = max(room - len(said) - len(end) - _FENCE, 0)
        text = closed(text[:left].decode(errors="ignore")).encode() + said
    return text + end
