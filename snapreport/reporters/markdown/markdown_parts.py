"""Parts of Markdown that several reports share: tables, folded sections, and what fits an issue.

A report is made of blocks, such as a paragraph or a table, with an empty line between each two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from snapreport.reporters.words.plain_text import escaped

LIMIT = 65_536
"""The longest comment that GitHub takes, in bytes here (it counts characters)."""

_Room = TypeVar("_Room")


def first_that_fits(
    blocks: Callable[[_Room], Iterable[str]], rooms: Sequence[_Room], beside: int = 0
) -> bytes:
    """Return a report in UTF-8 with the most room that fits: names of thousands of letters exist.

    Args:
        blocks: gives the report's blocks for some room.
        rooms: the most first; the last is taken whatever comes of it.
        beside: bytes that stand beside the report.
    """
    for room in rooms:
        text = ("\n\n".join(blocks(room)) + "\n").encode()
        if len(text) + beside < LIMIT:
            break
    return text


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[int] = ()) -> str:
    """Return a table, its cells as they are; figures to the right, but for ``left``."""
    rules = (" :-- " if i in left else " --: " for i in range(len(headings)))
    lines = (" | ".join(row) for row in (headings, *rows))
    first, *others = (f"| {line} |" for line in lines)
    return "\n".join([first, f"|{'|'.join(rules)}|", *others])


def bullets(lines: Iterable[str]) -> Iterator[str]:
    """Yield a list of lines as one block; nothing where there are none."""
    if text := "\n".join(f"- {line}" for line in lines):
        yield text


def folded(title: str, blocks: Iterable[str]) -> str:
    """Return blocks that a reader unfolds."""
    return "\n\n".join([f"<details><summary>{escaped(title)}</summary>", *blocks, "</details>"])
