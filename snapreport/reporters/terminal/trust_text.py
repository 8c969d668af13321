"""Whether a recording can be trusted, as text for a terminal."""

from __future__ import annotations

import textwrap

from snapreport.ground.units import format_bytes, format_count
from snapreport.model.findings import Findings
from snapreport.model.trust import Check, ReservedParts, Trust
from snapreport.reporters.terminal.diagnosis_text import suggestion
from snapreport.reporters.terminal.text_tables import Page
from snapreport.reporters.words.finding_words import figure_text
from snapreport.reporters.words.plain_text import one_line
from snapreport.reporters.words.trust_words import (
    PARTS,
    difference_text,
    exactness,
    part_rows,
    reserved_moments,
)

_TITLE = 28
"""Columns that a check's mark and title take before its text."""


def write_trust(page: Page, findings: Findings) -> None:
    """Write whether the recording of each device can be trusted."""
    for each in findings.devices:
        page.part()
        device_trust(page, str(each.device), each.trust)


def device_trust(page: Page, name: str, found: Trust) -> None:
    """Write the verdict, every check, what reserved memory consists of, and how to improve."""
    page.say(f"{name}: {found.sentence}", "title")
    if found.checks:
        page.say()
    for check in found.checks:
        _check(page, check)
    facts = found.facts
    _reserved(page, reserved_moments(found))
    recorded = found.verdict not in ("nothing", "no history")
    if recorded:
        page.part("How exact the peaks are")
        page.table(
            ("curve", "peak", ""),
            [
                (name, format_bytes(peak.bytes), exactness(peak))
                for name, peak in facts.peaks.items()
            ],
            left=(0, 2),
        )
    if facts.missing:
        page.part("Allocations without a call stack")
        page.table(
            ("at the peak" if recorded else "at the end", "count", "in all", "count", "reason"),
            [
                (
                    format_bytes(each.peak_bytes),
                    format_count(each.peak_count),
                    format_bytes(each.bytes),
                    format_count(each.count),
                    each.reason,
                )
                for each in facts.missing
            ],
        )
    if found.fixes:
        page.part("To record better")
        for fix in found.fixes:
            suggestion(page, fix)


def _check(page: Page, check: Check) -> None:
    figures = "; ".join(
        f"{one_line(each.label)} {one_line(figure_text(each))}" for each in check.figures
    )
    head = f"{check.mark:<9}{check.title}"
    text = " ".join((one_line(check.text), *(f"[{code}]" for code in check.findings)))
    lines = [*_wrapped(page, text), *_wrapped(page, figures)]
    for i, line in enumerate(lines):
        page.say(f"{head if i == 0 else '':<{_TITLE}}{line}")


def _wrapped(page: Page, text: str) -> list[str]:
    return textwrap.wrap(text, page.width - _TITLE, break_on_hyphens=False)


def _reserved(page: Page, moments: list[tuple[str, ReservedParts]]) -> None:
    if not moments:
        return
    page.part("What reserved memory consists of")
    columns = [part_rows(parts) for _, parts in moments]
    rows = [
        (title, *(cell for column in columns for cell in column[i]))
        for i, (_, title) in enumerate(PARTS)
    ]
    total = ["reserved"]
    for _, parts in moments:
        total += [format_bytes(parts.reserved), difference_text(parts) or "to the byte"]
    headings = ["", *(heading for title, _ in moments for heading in (title, "share"))]
    page.table(headings, [*rows, total], left=(0,))
