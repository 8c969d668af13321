"""Makes strangers' text safe and short enough for a terminal line, a table or an issue comment."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from snapreport.ground.safe_text import replaced
from snapreport.model.findings import MISSING_REASONS

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


LONGEST = 2000
"""Most letters of a text in Markdown: names can have millions, and issue comments are limited."""
_LONGEST_CODE = 400
_LEAST_PLACE = 5
_SEPARATOR = re.compile(r"[/\\]")

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
_CALLS = re.compile(r"@(?!\u200b)|(?<!\w)GH-(?=\d)|#(?=\d)", re.IGNORECASE)
_PARTED = "\u200b"
"""A zero-width space."""

_LONGEST_FENCE = 100
_LONGEST_NOTES, _MOST_LINES, _MOST_CELLS = 16_384, 1000, 10_000
"""Letters, lines and cells of tables in a stranger's notes; more of them are shown as they are."""
_DEEPEST = 20
"""How deep blocks may be nested in notes: parsing takes as long for each line at each depth."""


def one_line(text: str) -> str:
    """Return text on one line, without control and direction characters."""
    return replaced(text)


def cut(text: str, room: int) -> str:
    """Return text on one line, cut at its end where it has more than ``room`` letters."""
    line = one_line(text)
    return line if len(line) <= room else f"{line[: room - 1]}…"


def cut_site(text: str, room: int) -> str:
    """Return ``function  file:line`` with at most ``room`` letters.

    Folders go first, then the beginning of the file name, then the entire place. The function is
    cut only if it does not fit by itself: first its template arguments, then its end.
    """
    line = one_line(text)
    if len(line) <= room:
        return line
    name, _, place = line.partition("  ")
    if not place and _SEPARATOR.search(name):  # a file's name alone
        return cut_place(name, room)
    if len(name) > room:
        name = cut(_without_template_arguments(name), room)
    left = room - len(name) - 2
    return f"{name}  {cut_place(place, left)}" if place and left >= _LEAST_PLACE else name


def cut_place(text: str, room: int) -> str:
    """Return a path with at most ``room`` letters: folders go first, then the file's beginning.

    Where a reason stands in for a missing file, it is cut at its end, as words are.
    """
    line = one_line(text)
    if len(line) <= room or line in MISSING_REASONS:
        return cut(line, room)
    first = len(line) - room + 1
    folder = _SEPARATOR.search(line, first)
    return "…" + line[folder.start() if folder else first :]


def _without_template_arguments(name: str) -> str:
    parts, depth = [], 0
    for i, letter in enumerate(name[:LONGEST]):
        opens = letter == "<" and i > 0
        if depth == 0:
            parts.append("<…>" if opens else letter)
        depth = max(depth + opens - (letter == ">"), 0)
    return "".join(parts)


def code_span(text: str, limit: int = _LONGEST_CODE) -> str:
    """Return text as a Markdown code span that nothing in the text can end, even in a table."""
    text = cut_site(text, limit).replace("|", "\\|")
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if text.startswith("`") or text.endswith("`") or not text.strip() else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def escaped(text: str) -> str:
    """Return text in which nothing is Markdown, HTML, a mention or a link, cut at its end."""
    line = _parted(cut(text, LONGEST).strip(" "))
    return _LIST.sub(r"\1\\\2", _MARKDOWN.sub(r"\\\1", line))


def _parted(text: str) -> str:
    """Return text that looks the same but mentions nobody and links nowhere."""
    return _LINKS.sub(lambda found: found[0] + _PARTED, text)


def location(filename: str, line: int | None, limit: int = 0) -> str:
    """Return ``file:line``, cut by ``cut_place`` if there is a ``limit``."""
    if filename in ("", "??", "none"):
        return ""
    place = filename if line is None else f"{filename}:{line}"
    return cut_place(place, limit) if limit else one_line(place)


def named_place(name: str, filename: str, line: int | None) -> str:
    """Return ``name  file:line``, or the name alone where the file is not known."""
    return f"{name}  {location(filename, line)}".rstrip()


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
    if stranger and takes_long(notes):
        return _all_code(notes)
    tokens = _parse(notes)
    tame = _tamed(notes, tokens, stranger)
    if tame != notes:
        tokens = _parse(tame)
        if _tamed(tame, tokens, stranger) != tame:
            return _all_code(notes)
    return _all_code(notes) if too_deep(tokens) else _closed(tame, tokens)


def takes_long(notes: str) -> bool:
    """Say whether parsing a stranger's Markdown could take more than a moment."""
    lines = notes[: _LONGEST_NOTES + 1].splitlines()
    columns = max((line.count("|") for line in lines), default=0)
    return (
        len(notes) > _LONGEST_NOTES
        or len(lines) > _MOST_LINES
        or columns * len(lines) > _MOST_CELLS
    )


def too_deep(tokens: list[Token]) -> bool:
    """Say whether blocks are nested so deep that the parser leaves out what is in them."""
    return max((token.level for token in tokens), default=0) >= _DEEPEST - 1


def closed(notes: str) -> str:
    """Return Markdown whose code blocks are all closed."""
    return _closed(notes, _parse(notes))


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
    return notes_parser(html=True).parse(f"{notes}\n\nx\n")


def notes_parser(*, html: bool) -> MarkdownIt:
    """Return the parser of notes, as ``too_deep()`` expects it."""
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
        text = _CALLS.sub(lambda found: found[0] + _PARTED, text)
    return text
