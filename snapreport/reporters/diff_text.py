"""The comparison of two recordings as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from snapreport.diagnosis.compare.diff_types import Change, Diff
from snapreport.diagnosis.compare.gate import Check, Raised, Verdict
from snapreport.ground.units import format_bytes, format_count, format_signed_bytes, plural
from snapreport.reporters.diff_rows import (
    GROUP_WORDS,
    HEADINGS,
    advice,
    change_row,
    changed,
    check_row,
    comparison_title,
    conclusion,
    failing,
    figure_row,
    groups_title,
    match_text,
    others,
    place_of,
    place_text,
    setting_text,
    shown_figures,
    side_text,
    site_row,
    sizes_of,
    split_rows,
    stage_row,
)
from snapreport.reporters.plain_text import cut, cut_place, cut_site, one_line
from snapreport.reporters.text_tables import Page

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


# A verdict as text for a terminal or a job's log.


def write_verdict(page: Page, verdict: Verdict, most: int) -> None:
    """Write a verdict, its conclusion first.

    Args:
        page: to write on.
        verdict: what ``check()`` returned.
        most: the most call sites for each budget that is not kept.
    """
    page.say(f"{conclusion(verdict)}.", "good" if verdict.passed else "critical")
    by = "" if verdict.budget is None else f", with budgets from {one_line(verdict.budget)}"
    page.say(f"{one_line(verdict.source.name)}, {', '.join(verdict.devices)}{by}")
    if verdict.checks:
        page.say()
        rows = map(check_row, verdict.checks)
        page.table(HEADINGS, rows, left=(0, 1, 2))
    for check in verdict.checks:
        if not check.passed:
            _failed(page, check, most)
        elif check.text.count(". "):  # it says more than the figures
            page.say()
            page.say(f"{check.device}: {one_line(check.text)}")
    _findings(page, verdict)
    for diff in verdict.comparisons:
        page.say()
        page.say(f"{comparison_title(diff)}: {one_line(diff.conclusion)}")
        _gate_changes(page, changed(diff.sites, most))


def _failed(page: Page, check: Check, most: int) -> None:
    page.say()
    page.say(f"{check.device}: {one_line(check.text)}")
    if check.changes or not check.sites:
        return  # the comparison below has them
    rows = [_joined(row[:2], *row[2:]) for row in map(site_row, check.sites[:most])]
    page.table(("bytes", "count", "held then, by call site"), rows)


def _gate_changes(page: Page, changes: Sequence[Change]) -> None:
    if not changes:
        return
    rows = []
    for *figures, name, place, match in map(change_row, changes):
        rows.append(_joined(figures, name, place, f"({match})" if match else ""))
    page.table(("change", "before", "now", "call site"), rows)


def _joined(figures: Sequence[str], *texts: str) -> list[str]:
    """Return the figures, then one cell with the texts, in the form that ``cut_site`` shortens."""
    return [*figures, "  ".join(filter(None, texts))]


def _findings(page: Page, verdict: Verdict) -> None:
    if found := failing(verdict):
        page.part("Findings that fail the check")
        for each in found:
            page.say(f"  {_line(each)}")
            page.say(f"    {one_line(each.finding.explanation)}")
            for text in advice(each.finding):
                page.say(f"    - {one_line(text)}")
    if rest := others(verdict):
        page.part("Other findings")
        for each in rest:
            page.say(f"  {_line(each)}")
    if verdict.ignored:
        page.say()
        ids = ", ".join(dict.fromkeys(each.finding.id for each in verdict.ignored))
        page.say(f"{plural(len(verdict.ignored), 'finding')} ignored: {ids}")


def _line(raised: Raised) -> str:
    finding = raised.finding
    where = f"{raised.device}: " if raised.device else ""
    return f"{finding.severity}  {where}{one_line(finding.title)}  [{finding.id}]"
