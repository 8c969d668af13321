"""A verdict as Markdown for the summary of a CI job."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import BinaryIO

from snapreport.compare.diff_types import Diff
from snapreport.compare.gate_types import Check, Raised, Verdict
from snapreport.ground.version import __version__
from snapreport.reporters.markdown.markdown_parts import bullets, first_that_fits, folded, table
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
from snapreport.reporters.words.plain_text import code_span, escaped
from snapreport.reporters.words.summary_rows import memory_name

# Rows of each table, tried in turn until the report fits.
_ROWS = (10, 5, 2, 1)
_NAME, _PLACE = 80, 90
_MARKS = {"passed": "✅", "failed": "❌", "unknown": "❔"}


class VerdictMarkdownReporter:
    """Writes a verdict as Markdown of less than LIMIT bytes."""

    def render(self, verdict: Verdict, out: BinaryIO) -> None:
        """Write the Markdown in UTF-8."""
        out.write(first_that_fits(partial(_report, verdict), _ROWS))


def _report(verdict: Verdict, most: int) -> Iterator[str]:
    mark = _MARKS["passed" if verdict.passed else "failed"]
    yield f"### {mark} {memory_name(verdict.devices)} of {escaped(verdict.source.name)}"
    yield f"**{escaped(conclusion(verdict))}.**"
    if verdict.checks:
        yield table(HEADINGS, [_check_cells(each) for each in verdict.checks], left=(0, 1, 2))
    for check in verdict.checks:
        if not check.passed:
            yield from _failed(check, most)
        elif check.text.count(". "):
            yield f"> {escaped(check.device)}: {escaped(check.text)}"
    yield from _findings(verdict, most)
    for diff in verdict.comparisons:
        yield from _comparison(diff, most)
    yield from _about(verdict)


def _check_cells(check: Check) -> list[str]:
    _, device, name, *figures = check_row(check)
    return [_MARKS[check.outcome], device, code_span(name, _NAME), *figures]


def _failed(check: Check, most: int) -> Iterator[str]:
    yield f"**{escaped(check.device)}**: {escaped(check.text)}"
    if check.sites and not check.changes:
        rows = [
            (size, count, _place(name, place))
            for size, count, name, place in (site_row(site, _PLACE) for site in check.sites[:most])
        ]
        yield table(("bytes", "count", "held then, by call site"), rows, left=(2,))


def _findings(verdict: Verdict, most: int) -> Iterator[str]:
    found, lines = failing(verdict), []
    for each in found[: 2 * most]:
        lines.append(f"❌ {_line(each)}\n  {escaped(each.finding.explanation)}")
        lines[-1] += "".join(f"\n  - {escaped(text)}" for text in advice(each.finding))
    if len(found) > 2 * most:
        lines.append(f"and {len(found) - 2 * most:,} more")
    yield from bullets(lines)
    if rest := others(verdict):
        yield folded("Other findings", bullets(map(_line, rest[: 2 * most])))


def _line(raised: Raised) -> str:
    finding = raised.finding
    where = f"{escaped(raised.device)}: " if raised.device else ""
    return f"{finding.severity}: {where}{escaped(finding.title)} ({code_span(finding.id)})"


def _comparison(diff: Diff, most: int) -> Iterator[str]:
    yield f"**{escaped(comparison_title(diff))}**: {escaped(diff.conclusion)}"
    rows = []
    for *figures, name, place, match in (
        change_row(change, _PLACE) for change in changed(diff.sites, most)
    ):
        rows.append((*figures, _place(name, place), escaped(match)))
    if rows:
        yield table(("change", "before", "now", "call site", "matched by"), rows, left=(3, 4))


def _place(name: str, place: str) -> str:
    span = code_span(name, _NAME)
    return f"{span} {code_span(place)}" if place else span


def _about(verdict: Verdict) -> Iterator[str]:
    facts = [f"SHA-256 `{verdict.source.sha256}`"]
    if verdict.budget is not None:
        facts.append(f"budgets from {code_span(verdict.budget, _PLACE)}")
    if verdict.fail_on:
        facts.append(f"fails on {', '.join(map(code_span, verdict.fail_on))}")
    if verdict.ignored:
        ids = dict.fromkeys(each.finding.id for each in verdict.ignored)
        facts.append(f"ignored: {', '.join(map(code_span, ids))}")
    facts.append(f"made with snapreport {__version__}")
    yield f"<sub>{' · '.join(facts)}</sub>"
