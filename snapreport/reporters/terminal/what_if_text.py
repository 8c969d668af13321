"""What the peak would be without some allocations, as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from snapreport.ground.units import format_bytes, format_count, plural
from snapreport.model.what_if import PeakWithout, WhatIf
from snapreport.reporters.terminal.answers_text import groups
from snapreport.reporters.terminal.text_tables import Page
from snapreport.reporters.words.plain_text import one_line
from snapreport.reporters.words.summary_rows import event_name

_NAMED = 3
"""The most removed groups that are named."""


def peak_as_it_was(device: str, curve: str, peak: int, event: int) -> str:
    """Say where the peak is before any allocation is removed."""
    return f"{device}: {format_bytes(peak)} {curve} at the peak, {_at(event)}"


def table(page: Page, every: Sequence[WhatIf], by: str, most: int | None) -> None:
    """Write the peak without each group, the lowest first."""
    shown = every[:most]
    page.table(
        ("peak without", "lower by", "held there", "then at event", by),
        [
            (
                format_bytes(each.peak_bytes),
                format_bytes(each.falls),
                format_bytes(each.held),
                event_name(each.peak_event),
                each.name,
            )
            for each in shown
        ],
    )
    if rest := every[len(shown) :]:
        falls = format_bytes(max(each.falls for each in rest))
        page.say(
            f"and {format_count(len(rest))} more, each lower by {falls} at most; --full shows all"
        )


def without(page: Page, left: PeakWithout, by: str, most: int | None) -> None:
    """Write the peak that remains without some groups, and what holds it."""
    found = left.what_if
    names = [one_line(name) for name in left.taken[:_NAMED]]
    more = len(left.taken) - len(names)
    page.say(
        f"without {plural(found.count, 'allocation')} of {', '.join(names)}"
        + (f" and {format_count(more)} more" if more else "")
    )
    page.say(
        f"{format_bytes(found.peak_bytes)} at the peak, {_at(found.peak_event)}: lower by"
        f" {format_bytes(found.falls)} (they held {format_bytes(found.held)} at the peak as it was)"
    )
    if left.held:
        page.say()
        page.say("Held then")
        groups(page, by, left.held, found.peak_bytes, most)


def _at(event: int) -> str:
    return "at the start" if event < 0 else f"event {event_name(event)}"
