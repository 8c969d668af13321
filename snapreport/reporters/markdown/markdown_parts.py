"""Parts of Markdown that several reports share: tables, folded sections, and what fits an issue."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from snapreport.reporters.words.plain_text import escaped

LIMIT = 65_536
"""The longest comment that GitHub takes, in bytes here (it counts characters)."""

_Room = TypeVar("_Room")


def first_that_fits(
    lines: Callable[[_Room], Iterator[str]], rooms: Sequence[_Room], beside: int = 0
) -> bytes:
    """Return a report in UTF-8 with the most room that fits: names of thousands of letters exist.

    Args:
        lines: gives the report's lines for some room.
        rooms: the most first; the last is taken whatever comes of it.
        beside: bytes that stand beside the report.
    """
    for room in rooms:
        text = "\n".join(lines(room)).encode()
        if len(text) + beside < LIMIT:
            break
    return text


def table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = ()
) -> Iterator[str]:
    """Yield the lines of a table, its cells as they are; figures to the right, but for ``left``."""
    yield "| " + " | ".join(headings) + " |"
    yield "|" + "|".join(" :-- " if i in left else " --: " for i in range(len(headings))) + "|"
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def folded(title: str, lines: Sequence[str]) -> Iterator[str]:
    """Yield lines that a reader unfolds."""
    yield f"<details><summary>{escaped(title)}</summary>"
    yield ""
    yield from lines
    yield ""
    yield "</details>"
    yield ""
