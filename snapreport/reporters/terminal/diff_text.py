"""The comparison of two recordings as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from snapreport.compare.diff_types import Change, Diff
from snapreport.ground.units import format_bytes, format_count, format_signed_bytes
from snapreport.reporters.terminal.text_tables import Page
from snapreport.reporters.words.diff_rows import (
    GROUP_WORDS,
    figure_row,
    groups_title,
    match_text,
    place_of,
    place_text,
    setting_text,
    shown_figures,
    side_text,
    sizes_of,
    split_rows,
    stage_row,
)
from snapreport.reporters.words.plain_text import cut, cut_place, cut_site, one_line

_MATCH = 24


def write_diff(page: Page, diff: Diff, most: int | None) -> None:
    """Write a comparison, its conclusion first.

    Args:
        page: to write on.
        diff: the comparison.
        most: the most rows of each table; None for all.
    """
    page.say(one_line(diff.conclusion), "title")
    page.say()
    for name, side in (("BASE", diff.base), ("NEW ", diff.new)):
        page.say(f"{name}  {one_line(side.source.name)}")
        page.say(f"      {side_text(side, diff.curve)}")
    for note in diff.notes:
        page.say(f"! {note}")
    page.say()
    page.table(
        ("BASE", "NEW", "change", "", ""),
        [figure_row(name, figure) for name, figure in shown_figures(diff)],
    )
    page.say()
    _changes(page, diff.groups, diff.by, diff, most)
    if diff.by == "site":
        page.say()
        _changes(page, diff.categories, "category", diff, most)
    page.say()
    _parts(page, diff)
    _stages(page, diff, most)
    if diff.settings:
        page.say()
        page.say("Allocator settings that differ")
        for key, base, new in diff.settings:
            page.say(f"  {one_line(key)}: {_setting(base)} in BASE, {_setting(new)} in NEW")


def _setting(value: object) -> str:
    return one_line(setting_text(value))


def _changes(page: Page, changes: Sequence[Change], by: str, diff: Diff, most: int | None) -> None:
    """Write a table of changes; a call site says how it was matched."""
    shown, rest = split_rows(changes, most)
    page.say(groups_title(diff, by))
    page.table(
        ("change", "BASE", "NEW", "count", GROUP_WORDS[by]),
        [
            (
                *sizes_of(change),
                _count(change.new_count - change.base_count),
                _row_name(change),
            )
            for change in shown
        ],
        cut=cut_place if by == "file" else cut_site,  # the end of a path says the most
    )
    if rest:
        page.say(f"{rest[0].upper()}{rest[1:]}; --full shows all.")


def _row_name(change: Change) -> str:
    match = match_text(change, _MATCH)
    place = place_text(place_of(change)) if change.kind == "site" else ""
    return "  ".join(filter(None, (change.name, place, match and f"({match})")))


def _count(change: int) -> str:
    return f"+{format_count(change)}" if change > 0 else format_count(change)


def _parts(page: Page, diff: Diff) -> None:
    """Write the parts that the change adds up from: what was matched, and what was not."""
    rows = [(*sizes_of(part), f"{part.change:+,}", part.name) for part in diff.parts]
    total = (
        format_signed_bytes(diff.change),
        format_bytes(diff.base.bytes),
        format_bytes(diff.new.bytes),
        f"{diff.change:+,}",
        "in all",
    )
    page.table(("change", "BASE", "NEW", "in bytes", "where"), [*rows, total])


def _stages(page: Page, diff: Diff, most: int | None) -> None:
    if not diff.stages:
        return
    stages = diff.stages[:most]
    page.say()
    page.say("Peaks inside stages, in allocated bytes")
    page.table(
        ("change", "BASE", "NEW", "", "stage"),
        [(*stage_row(each), "  " * min(each.depth, 8) + each.name) for each in stages],
        cut=cut,
    )
    if len(stages) < len(diff.stages):
        page.say(f"and {format_count(len(diff.stages) - len(stages))} more; --full shows all")
