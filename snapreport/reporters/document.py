"""What an answer says, apart from any output: parts that a builder fills and a writer lays out.

A builder, one for each answer, chooses words, order, units, and how many rows there is room for.
A writer, one for each output (``text``, ``markdown``, ``html``), lays out any document and knows no
answer. Texts here may be a stranger's: each writer makes them safe in its own way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from snapreport.ground.records import dataclass
from snapreport.ground.units import format_bytes, format_signed_bytes

Style = Literal["", "title", "critical", "warning", "note", "good"]
Cut = Literal["site", "place", "end"]


class Code(NamedTuple):
    """A name or some code, such as a stage or a function."""

    text: str
    limit: int = 80
    """The most letters, where there is a limit at all."""
    link: str = ""
    """Where to read about it, if anywhere; from a page or Markdown only."""


class Site(NamedTuple):
    """A call site: a function and ``file:line``."""

    name: str
    place: str = ""
    is_code: bool = True
    """False where words stand for the function, such as ``(no stack)``."""


class Tag(NamedTuple):
    """The identifier of what stands before it, such as ``oom/26293b``."""

    text: str


class Strong(NamedTuple):
    """Words that readers look for first."""

    text: str


class Mark(NamedTuple):
    """How something ended: a word where there is text, a sign where there is colour."""

    text: str
    is_good: bool | None
    """None where it is not known."""


class Severity(NamedTuple):
    """How bad a finding is: a word where there is text, a sign where there is colour."""

    name: str


class Size(NamedTuple):
    """Bytes, or a change in bytes; None where they are not known."""

    bytes: int | None
    is_change: bool = False
    exact: bool = False
    """To the byte, instead of in a unit."""

    def __str__(self) -> str:
        """Write them in the unit that suits them; ``-`` where they are not known."""
        if self.bytes is None:
            return "-"
        if self.exact:
            return f"{self.bytes:+,}" if self.is_change else f"{self.bytes:,}"
        return (format_signed_bytes if self.is_change else format_bytes)(self.bytes)


Part: TypeAlias = "str | Code | Site | Tag | Strong | Mark | Severity | Size"
Words: TypeAlias = "Part | tuple[Part, ...]"
"""A line or paragraph: one part, or several, one after the other."""


@dataclass(frozen=True)
class Heading:
    """The title of what follows."""

    words: Words
    level: int = 3
    style: Style = "title"


@dataclass(frozen=True)
class Paragraph:
    """A sentence or more; ``title`` is the style of the conclusion."""

    words: Words
    style: Style = ""
    is_note: bool = False
    """A warning or a remark about what stands above or below."""


@dataclass(frozen=True)
class Item:
    """One point of a list, and what belongs to it."""

    words: Words
    below: tuple[Words, ...] = ()
    """Shorter points."""
    change: str = ""
    """Lines of code to write or to run."""
    style: Style = ""


@dataclass(frozen=True)
class Bullets:
    """A list."""

    items: Sequence[Words | Item]


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    title: str
    is_text: bool = False
    """Aligned left, and cut where it is too wide; figures never are."""
    cut: Cut = "site"
    """What a too wide text loses first: folders, its beginning, or its end."""
    bar: bool = False
    """Whether a page draws its sizes as bars, too."""
    minor: bool = False
    """Whether a page leaves it out where the screen is narrow."""


def columns(*figures: str, text: str, cut: Cut = "site") -> list[Column]:
    """Return columns of figures, and after them one of texts, cut as ``cut`` says."""
    return [*map(Column, figures), Column(text, True, cut)]


@dataclass(frozen=True)
class Table:
    """Rows of cells."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Words]]
    title: Words = ""
    total: Sequence[Words] = ()
    """The last row, set apart."""
    rest: str = ""
    """A sentence about the rows left out."""
    shares: Sequence[float] = ()
    """Each row's share of the whole; colours its first figure where there are colours."""
    depths: Sequence[int] = ()
    """How deep each row's last text is nested."""


@dataclass(frozen=True)
class Pairs:
    """Facts: a label, its value, and what that means."""

    rows: Sequence[tuple[Words, Words, Words]]
    headings: tuple[str, str, str] = ("figure", "value", "meaning")
    """Where they are shown as a table."""


@dataclass(frozen=True)
class Listing:
    """Lines as they are: code, a tree, a curve of characters."""

    lines: Sequence[str]
    shares: Sequence[float] = ()
    title: Words = ""


@dataclass(frozen=True)
class Folded:
    """Parts that few readers need: folded where that can be done, else shown."""

    title: str
    """Our own words alone: in Markdown it stands in HTML, where a backslash escapes nothing."""
    blocks: Sequence[Block]
    only_folded: bool = False
    """Left out where nothing can be folded."""


@dataclass(frozen=True)
class Drawing:
    """A picture, drawn by a template; only on a page."""

    template: str
    values: Callable[[], Mapping[str, object]]
    """Computes what the template shows."""


Block: TypeAlias = "Heading | Paragraph | Bullets | Table | Pairs | Listing | Folded | Drawing"


@dataclass(frozen=True)
class Document:
    """An answer."""

    title: Words
    """What it is about; a terminal, where one has just typed that, leaves it out."""
    blocks: Sequence[Block]


def with_content(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the blocks that have something to show: what a writer lays out."""
    for block in blocks:
        if isinstance(block, Paragraph):
            content: object = block.words
        elif isinstance(block, Bullets):
            content = block.items
        else:
            content = block.rows if isinstance(block, Pairs) else block
        if content:
            yield block


def parts_of(words: Words) -> tuple[Part, ...]:
    """Return the parts that some words consist of."""
    named = isinstance(words, (str, Code, Site, Tag, Strong, Mark, Severity, Size))
    return (words,) if named else words  # type: ignore[return-value]


def plain(words: Words) -> str:
    """Return words as plain text, in which a call site is ``function  file:line``."""
    return words if isinstance(words, str) else "".join(map(_plain, parts_of(words))).strip()


def _plain(part: Part) -> str:
    if isinstance(part, Site):
        return f"{part.name}  {part.place}".rstrip()
    if isinstance(part, Tag):
        return f"[{part.text}]"
    if isinstance(part, Severity):
        return f"{part.name.upper()}:"
    if isinstance(part, (Code, Strong, Mark)):
        return part.text
    return str(part)


def joined(parts: Sequence[Words], between: str) -> tuple[Part, ...]:
    """Return words with ``between`` after all but the last."""
    found: list[Part] = []
    for words in parts:
        found += [between, *parts_of(words)] if found else parts_of(words)
    return tuple(found)


def sentence(text: str) -> str:
    """Return text that begins with a capital and ends with a full stop; ``""`` stays."""
    return f"{text[0].upper()}{text[1:].rstrip('.')}." if text else ""


def all_blocks(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield blocks and those folded in them."""
    for block in blocks:
        yield block
        if isinstance(block, Folded):
            yield from all_blocks(block.blocks)
