"""Parts of Markdown that several reports share: tables, folded sections, and a limit on length.

A report is made of blocks, such as paragraphs or tables, with an empty line between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from snapreport.reporters.words.plain_text import escaped

LIMIT = 65_536
"""The longest comment that GitHub accepts; GitHub counts characters, and we count bytes."""

_Room = TypeVar("_Room")


def first_that_fits(
    blocks: Callable[[_Room], Iterable[str]], rooms: Sequence[_Room], beside: int = 0
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
