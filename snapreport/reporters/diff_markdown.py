"""The comparison of two recordings as Markdown, short enough for an issue comment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import BinaryIO

from snapreport.diagnosis.compare.diff_types import Change, Diff
from snapreport.diagnosis.compare.gate import Check, Raised, Verdict
from snapreport.ground.units import format_count
from snapreport.ground.version import __version__
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
from snapreport.reporters.markdown import bullets, first_that_fits, folded, table
from snapreport.reporters.plain_text import code_span, escaped
from snapreport.reporters.words import memory_name

# Rows of each table, tried in turn until the report fits.
_ROWS = (25, 12, 5, 2)
_NAME, _PLACE = 80, 90


class DiffMarkdownReporter:
    """Writes a comparison as Markdown of less than LIMIT bytes."""

    def render(self, diff: Diff, out: BinaryIO) -> None:
        """Write the Markdown in UTF-8; long parts are folded."""
        out.write(first_that_fits(partial(_report, diff), _ROWS))


def _report(diff: Diff, most: int) -> Iterator[str]:
    memory = memory_name(side.figures.device for side in (diff.base, diff.new))
    new, base = escaped(diff.new.source.name), escaped(diff.base.source.name)
    yield f"## {memory}: {new} against {base}"
    yield f"**{escaped(diff.conclusion)}**"
    yield from bullets(
        f"{name}: {code_span(side.source.name, _PLACE)}, {side_text(side, diff.curve)}"
        for name, side in (("BASE", diff.base), ("NEW", diff.new))
    )
    for note in diff.notes:
        yield f"> ⚠️ {escaped(note)}"
    rows = [
        (escaped(name), *cells)
        for *cells, name in (figure_row(name, figure) for name, figure in shown_figures(diff))
    ]
    yield table(("memory", "BASE", "NEW", "change", "in percent"), rows, left=(0,))
    yield f"### {escaped(groups_title(diff, diff.by))}"
    yield from _changes(diff.groups, diff.by, most)
    yield from _parts(diff)
    if diff.by == "site":
        yield f"### {escaped(groups_title(diff, 'category'))}"
        yield from _changes(diff.categories, "category", most)
    yield from _stages(diff, most)
    yield folded("About this comparison", bullets(_about(diff)))


def _changes(changes: Sequence[Change], by: str, most: int) -> Iterator[str]:
    shown, rest = split_rows(changes, most)
    rows = [
        (
            _name(change),
            *sizes_of(change),
            f"{format_count(change.base_count)} → {format_count(change.new_count)}",
            escaped(match_text(change, _PLACE)),
        )
        for change in shown
    ]
    yield table(
        (GROUP_WORDS[by], "change", "BASE", "NEW", "count", "matched by"), rows, left=(0, 5)
    )
    if rest:
        yield f"{rest[0].upper()}{rest[1:]}."


def _name(change: Change) -> str:
    if change.kind in ("no stack", "unused"):
        return escaped(change.name)
    name = code_span(change.name, _NAME)
    place = place_text(place_of(change), _PLACE)
    return f"{name} {code_span(place)}" if place else name


def _parts(diff: Diff) -> Iterator[str]:
    """Yield the parts that the change adds up from, to the byte."""
    rows = [
        (
            part.name,
            f"{part.change:+,}",
            format_count(part.base_bytes),
            format_count(part.new_bytes),
        )
        for part in diff.parts
    ]
    total = (f"{diff.change:+,}", format_count(diff.base.bytes), format_count(diff.new.bytes))
    yield table(("bytes", "change", "BASE", "NEW"), [*rows, ("in all", *total)], left=(0,))


def _stages(diff: Diff, most: int) -> Iterator[str]:
    if not diff.stages:
        return
    rows = [(code_span(each.name, _NAME), *stage_row(each)) for each in diff.stages[:most]]
    yield "### Peaks inside stages, in allocated bytes"
    yield table(("stage", "change", "BASE", "NEW", "matched by"), rows, left=(0, 4))
    if len(diff.stages) > most:
        yield f"{format_count(len(diff.stages) - most)} more stages."


def _about(diff: Diff) -> Iterator[str]:
    for name, side in (("BASE", diff.base), ("NEW", diff.new)):
        size = format_count(side.source.size)
        yield (
            f"{name}: {code_span(side.source.name, _PLACE)}, {size} bytes,"
            f" SHA-256 `{side.source.sha256}`"
        )
    for key, base, new in diff.settings:
        yield (
            f"Setting {code_span(key)}: {code_span(setting_text(base), 200)} in BASE,"
            f" {code_span(setting_text(new), 200)} in NEW"
        )
    yield (
        "Call sites match if their file, function and line do; lines may have moved in an edit,"
        " and files to another installation folder."
    )
    yield f"Made with snapreport {__version__}"


# A verdict as Markdown for the summary of a CI job.


# Rows of each table, tried in turn until the report fits.
_GATE_ROWS = (10, 5, 2, 1)
_MARKS = {"passed": "✅", "failed": "❌", "unknown": "❔"}


class VerdictMarkdownReporter:
    """Writes a verdict as Markdown of less than LIMIT bytes."""

    def render(self, verdict: Verdict, out: BinaryIO) -> None:
        """Write the Markdown in UTF-8."""
        out.write(first_that_fits(partial(_gate_report, verdict), _GATE_ROWS))


def _gate_report(verdict: Verdict, most: int) -> Iterator[str]:
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
    yield from _gate_about(verdict)


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


def _gate_about(verdict: Verdict) -> Iterator[str]:
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
