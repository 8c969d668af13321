"""A verdict as text for a terminal or a job's log."""

from __future__ import annotations

from collections.abc import Sequence

from snapreport.compare.diff_types import Change
from snapreport.compare.gate_types import Check, Raised, Verdict
from snapreport.ground.units import plural
from snapreport.reporters.terminal.text_tables import Page
from snapreport.reporters.words.gate_rows import (
    HEADINGS,
    advice,
    change_row,
    changed,
    check_row,
    comparison_title,
    conclusion,
    failing,
    others,
    site_row,
)
from snapreport.reporters.words.plain_text import one_line


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
        _changes(page, changed(diff.sites, most))


def _failed(page: Page, check: Check, most: int) -> None:
    page.say()
    page.say(f"{check.device}: {one_line(check.text)}")
    if check.changes or not check.sites:
        return  # the comparison below has them
    rows = [_joined(row[:2], *row[2:]) for row in map(site_row, check.sites[:most])]
    page.table(("bytes", "count", "held then, by call site"), rows)


def _changes(page: Page, changes: Sequence[Change]) -> None:
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
