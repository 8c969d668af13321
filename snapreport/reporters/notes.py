"""The notes above a report: Markdown that may be a stranger's, made safe for Markdown and HTML."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from markupsafe import Markup

from snapreport.ground.safe_text import replaced

if TYPE_CHECKING:
    from markdown_it import MarkdownIt  # imported late: most reports have no notes
    from markdown_it.token import Token

PARTED = "\u200b"
"""A zero-width space: after it, text looks the same but mentions nobody and links nowhere."""
_CALLS = re.compile(r"@(?!\u200b)|(?<!\w)GH-(?=\d)|#(?=\d)", re.IGNORECASE)

_LONGEST_FENCE = 100
_LONGEST, _MOST_LINES, _MOST_CELLS = 16_384, 1000, 10_000
"""Letters, lines and cells of tables in a stranger's notes; more of them are shown as they are."""
_DEEPEST = 20
"""How deep blocks may be nested in notes: parsing takes as long for each line at each depth."""


def tame_notes(notes: str, stranger: bool = False) -> str:
    """Return Markdown in which raw HTML is text and that leaves no block of code open.

    Everything else, code included, is unchanged. What cannot be tamed in one pass, because escaping
    some HTML turns code near it into HTML, becomes one block of code.

    Args:
        notes: the Markdown.
        stranger: whether it may not be the user's own: then pictures, which would be fetched,
            and mentions become text, too, and what takes long to parse becomes one block of code.
    """
    notes = replaced(notes.replace("\r\n", "\n").replace("\r", "\n"), "\n\t")
    if stranger and _takes_long(notes):
        return _all_code(notes)
    tokens = _parse(notes)
    tame = _tamed(notes, tokens, stranger)
    if tame != notes:
        tokens = _parse(tame)
        if _tamed(tame, tokens, stranger) != tame:
            return _all_code(notes)
    return _all_code(notes) if _too_deep(tokens) else _closed(tame, tokens)


def notes_as_html(notes: str, stranger: bool) -> Markup:
    """Render Markdown; raw HTML stays text, and so do pictures, which need a network.

    What takes long to parse, and what is nested too deep, is shown as it is.
    """
    if not notes:
        return Markup()
    if not (stranger and _takes_long(notes)):
        parser = _parser(html=False).disable("image")
        tokens = parser.parse(notes)
        if not _too_deep(tokens):
            rendered = parser.renderer.render(tokens, parser.options, {})
            return Markup(replaced(rendered, "\n"))  # noqa: S704
    return Markup("<pre><code>{}</code></pre>").format(replaced(notes, "\n\t"))


def cut_notes(notes: str, room: int) -> bytes:
    """Return notes in Markdown, cut to ``room`` bytes, with no block of code left open."""
    if not notes:
        return b""
    text = notes.encode()
    said = b"\n\n(The notes are longer than an issue comment; the rest was cut.)"
    end = b"\n\n"
    if len(text) + len(end) > room:
        left = max(room - len(said) - len(end) - _LONGEST_FENCE - 1, 0)
        kept = text[:left].decode(errors="ignore")
        text = _closed(kept, _parse(kept)).encode() + said
    return text + end


def _takes_long(notes: str) -> bool:
    """Say whether parsing a stranger's Markdown could take more than a moment."""
    lines = notes[: _LONGEST + 1].splitlines()
    columns = max((line.count("|") for line in lines), default=0)
    return len(notes) > _LONGEST or len(lines) > _MOST_LINES or columns * len(lines) > _MOST_CELLS


def _too_deep(tokens: list[Token]) -> bool:
    """Say whether blocks are nested so deep that the parser leaves out what is in them."""
    return max((token.level for token in tokens), default=0) >= _DEEPEST - 1


def _closed(notes: str, tokens: list[Token]) -> str:
    last = tokens[-1]
    if last.type != "fence" or last.map is None:
        return notes
    if len(last.markup) > _LONGEST_FENCE:
        return "\n".join(notes.split("\n")[: last.map[0]])
    return f"{notes}\n{last.markup}"


def _all_code(notes: str) -> str:
    """Return text as one block of code, which nothing in it can end."""
    return "\n".join(f"    {line}" for line in notes.strip("\n").split("\n"))


def _parse(notes: str) -> list[Token]:
    """Parse Markdown and a paragraph after it, which only a block that is left open takes in."""
    return _parser(html=True).parse(f"{notes}\n\nx\n")


def _parser(*, html: bool) -> MarkdownIt:
    """Return the parser of notes, as ``_too_deep()`` expects it."""
    from markdown_it import MarkdownIt  # most reports have no notes

    options = {"html": html, "maxNesting": _DEEPEST}
    return MarkdownIt("commonmark", options).enable("table")


def _tamed(notes: str, tokens: list[Token], stranger: bool) -> str:
    """Escape what is HTML in some Markdown; of a stranger's also pictures and mentions."""
    lines = notes.split("\n")
    for token in tokens:
        if token.map is None:
            continue
        first, after = token.map
        children = token.children or []
        text = tame = "\n".join(lines[first:after])
        if token.type == "html_block":
            tame = text.replace("<", "&lt;")
        elif any(child.type == "html_inline" for child in children):
            tame = _inline_without_html(text, children)
        if stranger and children:
            tame = _quiet(tame, children)
        if tame != text:
            lines[first:after] = tame.split("\n")
    return "\n".join(lines)


def _inline_without_html(text: str, children: list[Token]) -> str:
    """Escape the raw HTML in one paragraph; ``children`` are its parts, in order."""
    if any("`" in child.content for child in children if child.type == "html_inline"):
        return text.replace("<", "&lt;")  # as text, it could begin or end code
    position = 0
    parts = []
    for child in children:
        place = text.find(child.content, position) if child.content else -1
        if place < 0:
            continue
        shown = child.content
        if child.type == "html_inline":
            shown = shown.replace("<", "&lt;")
        parts += [text[position:place], shown]
        position = place + len(child.content)
    tame = "".join((*parts, text[position:]))
    return tame if tame != text else text.replace("<", "&lt;")


def _quiet(text: str, children: list[Token]) -> str:
    """Break mentions and issue links in one paragraph, and turn pictures into text."""
    if any(child.type == "image" for child in children):
        text = text.replace("![", "!\\[")
    if any(_CALLS.search(child.content) for child in children if child.type == "text"):
        text = _CALLS.sub(lambda found: found[0] + PARTED, text)
    return text
