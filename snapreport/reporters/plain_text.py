"""Makes names and places short enough for a line; what is cut off says the least."""

from __future__ import annotations

import re

from snapreport.ground.safe_text import replaced
from snapreport.model.findings import MISSING_REASONS

_LEAST_PLACE = 5
_SEPARATOR = re.compile(r"[/\\]")
_LONGEST_NAME = 2000
"""Most letters of a function's name that are looked at: names can have millions."""


def cut(text: str, room: int) -> str:
    """Return text on one line, cut at its end where it has more than ``room`` letters."""
    line = replaced(text)
    return line if len(line) <= room else f"{line[: room - 1]}…"


def cut_site(text: str, room: int) -> str:
    """Return ``function  file:line`` with at most ``room`` letters.

    Folders go first, then the beginning of the file name, then the entire place. The function is
    cut only if it does not fit by itself: first its template arguments, then its end.
    """
    line = replaced(text)
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
    line = replaced(text)
    if len(line) <= room or line in MISSING_REASONS:
        return cut(line, room)
    first = len(line) - room + 1
    folder = _SEPARATOR.search(line, first)
    return "…" + line[folder.start() if folder else first :]


def _without_template_arguments(name: str) -> str:
    parts, depth = [], 0
    for i, letter in enumerate(name[:_LONGEST_NAME]):
        opens = letter == "<" and i > 0
        if depth == 0:
            parts.append("<…>" if opens else letter)
        depth = max(depth + opens - (letter == ">"), 0)
    return "".join(parts)


def location(filename: str, line: int | None, limit: int = 0) -> str:
    """Return ``file:line``, cut by ``cut_place`` if there is a ``limit``."""
    if filename in ("", "??", "none"):
        return ""
    place = filename if line is None else f"{filename}:{line}"
    return cut_place(place, limit) if limit else replaced(place)


def named_place(name: str, filename: str, line: int | None) -> str:
    """Return ``name  file:line``, or the name alone where the file is not known."""
    return f"{name}  {location(filename, line)}".rstrip()
