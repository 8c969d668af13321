"""Other settings of the allocator in Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from snapreport.model.replay.replays import OtherSettings
from snapreport.reporters.markdown.markdown_parts import folded, table
from snapreport.reporters.words.allocator_words import (
    asked_text,
    cells,
    floor_text,
    headings,
    how_text,
)
from snapreport.reporters.words.plain_text import code_span, escaped


def settings_lines(found: OtherSettings) -> Iterator[str]:
    """Yield the table of settings, folded; nothing where none were compared."""
    if not found.outcomes:
        return
    rows = [
        (f"{code_span(each.settings)}{' (recorded)' if each.recorded else ''}", *cells(each, found))
        for each in found.outcomes
    ]
    blocks = [
        f"{floor_text(found).capitalize()}.",
        f"{asked_text(found)}.",
        table(("settings", *headings(found)), rows, left=(0,)),
        escaped(how_text(found)),
    ]
    if found.capacity is None:
        del blocks[1]
    yield folded("Other settings of the allocator", blocks)
