"""Strangers' text made fit for one line of a terminal, a table or an issue comment."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it.token import Token

# What could end a line, move a cursor or turn the reading order round.
_UNSAFE_CATEGORIES = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~&!])")
_ISSUE = re.compile(r"(?<!\w\\)#(?=\d)")  # an escaped "#" that no word stands before


def one_line(text: str, limit: int = 0) -> str:
    """Return text without control and direction characters, cut to ``limit`` from the left."""
    if not text.isprintable():
        text = "".join(
            "\ufffd" if unicodedata.category(char) in _UNSAFE_CATEGORIES else char for char in text
        )
    if limit and len(text) > limit:
        text = "…" + text[len(text) - limit + 1 :]
    return text


def cut(text: str, room: int) -> str:
    """Return text on one line, cut at its end where it has more than ``room`` letters."""
    line = one_line(text)
    return line if len(line) <= room else f"{line[: room - 1]}…"


def code_span(text: str, limit: int = 0) -> str:
    """Return text as a Markdown code span that nothing in it can end, also in a table."""
    text = one_line(text, limit).replace("|", "\\|")
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if text.startswith("`") or text.endswith("`") or not text else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def escaped(text: str) -> str:
    """Return text in which nothing is Markdown, HTML, a mention or a link."""
    text = _MARKDOWN.sub(r"\\\1", one_line(text))
    # A zero-width space: GitHub looks for mentions, issues and addresses in the rendered text.
    text = _ISSUE.sub("#\u200b", text).replace("@", "@\u200b")
    return text.replace("://", ":\u200b//").replace("www.", "www\u200b.")


def location(filename: str, line: int | None, limit: int = 0) -> str:
    """Return ``file:line``, shortened from the left where ``limit`` asks for it."""
    if filename in ("", "??", "none"):
        return ""
    return one_line(filename if line is None else f"{filename}:{line}", limit)


def without_html(notes: str) -> str:
    """Return Markdown in which raw HTML is text; all else, code included, stays as it is."""
    from markdown_it import MarkdownIt

    lines = notes.splitlines(keepends=True)
    for token in MarkdownIt("commonmark", {"html": True}).enable("table").parse(notes):
        if token.map is None:
            continue
        first, after = token.map
        if token.type == "html_block":
            lines[first:after] = [line.replace("<", "&lt;") for line in lines[first:after]]
        elif token.type == "inline":
            text = _inline_without_html("".join(lines[first:after]), token.children or [])
            lines[first:after] = [text, *[""] * (after - first - 1)]
    return "".join(lines)


def _inline_without_html(text: str, children: list[Token]) -> str:
    """Escape the raw HTML among the parts of one paragraph, which come in order."""
    position = 0
    for child in children:
        place = text.find(child.content, position) if child.content else -1
        if place < 0:
            continue
        position = place + len(child.content)
        if child.type == "html_inline":
            shown = child.content.replace("<", "&lt;")
            text = text[:place] + shown + text[position:]
            position = place + len(shown)
    return text
