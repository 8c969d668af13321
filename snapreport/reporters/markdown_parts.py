"""Parts of Markdown that several reports share: tables and folded sections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from snapreport.reporters.plain_text import escaped


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
