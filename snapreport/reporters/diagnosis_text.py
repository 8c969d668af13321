"""A diagnosis as text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any, TypeVar

from snapreport.ground.units import (
    format_bytes,
    format_count,
    format_share,
)
from snapreport.model.diagnoses import (
    Check,
    Figure,
    Finding,
    Frees,
    ReservedParts,
    Suggestion,
    Table,
    Trust,
)
from snapreport.model.findings import Findings
from snapreport.reporters.plain_text import location, one_line
from snapreport.reporters.text_tables import Page
from snapreport.reporters.words import (
    PARTS,
    cells_of,
    conditions,
    difference_text,
    exactness,
    figure_text,
    frees_text,
    part_rows,
    reasons,
    reserved_moments,
    tally,
    texts_of,
)

_INDENT = "  "
_ROWS = 6
"""Rows of a table without ``--full``."""
_VALUE = 24
"""The widest value that the column of meanings makes room for."""
_MEANING = 20
"""The least columns for a meaning to be readable."""


def write_diagnoses(page: Page, found: Findings, full: bool, *, named: bool = False) -> None:
    """Write the findings about the file, and those of each device; ``named``: its name is said."""
    if found.warnings:
        if not named:
            page.say(one_line(found.history.source.name), "title")
        findings(page, found.warnings, full=True)
    for each in found.devices:
        if each.history.events or len(each.history.allocations) or len(found.devices) == 1:
            page.part(f"{each.device}: {tally(each.diagnosis.findings)}")
            findings(page, each.diagnosis.findings, full=full)
            if each.diagnosis.silenced:
                page.say()
                page.say(f"Silenced: {', '.join(each.diagnosis.silenced)}")


def findings(page: Page, found: Sequence[Finding], *, full: bool) -> None:
    """Write findings, the worst first; unless ``full``, those that do not lead as one line each."""
    for finding in found:
        if not (finding.leads or full):
            continue
        page.say()
        _finding(page, finding, None if full else _ROWS)
    notes = [each for each in found if not each.leads]
    if notes and not full:
        page.part("Notes (--full explains them)")
        for note in notes:
            _indented(page, f"{one_line(note.title)}  [{note.id}]", "- ")


def _finding(page: Page, finding: Finding, most: int | None) -> None:
    head = f"{finding.severity.upper()}: {one_line(finding.title)}  [{finding.id}]"
    for line in textwrap.wrap(head, page.width, subsequent_indent=_INDENT, break_on_hyphens=False):
        page.say(line, finding.severity)
    _indented(page, one_line(finding.explanation))
    _figures(page, finding.evidence)
    for table in finding.tables:
        _table(page, table, most)
    if finding.suggestions:
        page.part(f"{_INDENT}What would help")
        for each in finding.suggestions:
            suggestion(page, each, full=most is None)


def _figures(page: Page, figures: Sequence[Figure]) -> None:
    """Write each figure as a line, with what it means beside it."""
    if not figures:
        return
    page.say()
    labels = [one_line(each.label) for each in figures]
    values = [one_line(figure_text(each)) for each in figures]
    # A longer value, such as a cause, would leave no room for any meaning.
    wide = max((len(text) for text in values if len(text) <= _VALUE), default=0)
    left = max(map(len, labels))
    for figure, label, value in zip(figures, labels, values, strict=True):
        head = f"{_INDENT}{label:<{left}}  {value:>{wide}}"
        meaning = one_line(figure.meaning)
        if not meaning or page.width - len(head) < _MEANING:
            page.say(head)
            continue
        for line in textwrap.wrap(
            meaning,
            page.width,
            initial_indent=f"{head}  ",
            subsequent_indent=" " * (len(head) + 2),
            break_on_hyphens=False,
        ):
            page.say(line)


def _table(page: Page, table: Table, most: int | None) -> None:
    page.say()
    _indented(page, one_line(table.title))
    shown = cells_of(table, most)
    headings = [column.title for column in table.columns]
    page.table(headings, shown, texts_of(table), indent=_INDENT * 2)
    rest = len(table.rows) - len(shown) + table.left_out
    if rest:
        page.say(f"{_INDENT * 2}and {rest:,} more")


def suggestion(page: Page, offered: Suggestion, *, full: bool = False) -> None:
    """Write a suggestion and the change to make; ``full``: with the reasons for its figures."""
    frees = frees_text(offered.frees)
    text = f"{offered.text}{f' ({frees})' if frees else ''} {conditions(offered)}"
    _indented(page, one_line(text).rstrip(), "- ")
    for line in reasons(offered.frees) if full else ():
        _indented(page, one_line(line), "  ")
    for line in offered.change.splitlines():
        page.say(f"{_INDENT * 3}{one_line(line)}")


def _indented(page: Page, text: str, mark: str = "") -> None:
    wrapped = textwrap.wrap(
        text,
        page.width,
        initial_indent=_INDENT + mark,
        subsequent_indent=_INDENT + " " * len(mark),
        break_long_words=False,
        break_on_hyphens=False,
    )
    for line in wrapped:
        page.say(line)


# Whether a recording can be trusted, as text for a terminal.


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


# The summary stored in a page, as text for a terminal; a stranger may have made its JSON.


Plain = dict[str, Any]
_Kind = TypeVar("_Kind")
_LONGEST = 2000
"""Most letters of a text that are shown; texts from snapreport are shorter."""


def write_saved(page: Page, summary: Plain) -> None:
    """Write each device's answer, findings, peaks and call sites, or a run's conclusions."""
    page.say(_text(summary, "title"), "title")
    for warning in _rows(summary, "warnings"):
        page.say(f"! {_text(warning, 'text')}", "warning")
    for device in _rows(summary, "devices"):
        _device(page, device)
    if "headline" in summary:  # a run's page
        _run(page, summary)


def _run(page: Page, summary: Plain) -> None:
    page.say(_text(summary, "headline"))
    for part in ("odd", "groups", "imbalances", "replicated"):
        for row in _rows(summary, part):
            _saved_paragraph(page, _text(row, "sentence"), "- ")
    for row in _rows(summary, "broken"):
        _saved_paragraph(page, f"{_text(row, 'file')}: {_text(row, 'error')}", "- ")


def _device(page: Page, device: Plain) -> None:
    page.part()
    events, made = _number(device, "events"), _number(device, "allocations")
    about = f"{format_count(events)} events, {format_count(made)} allocations"
    page.say(f"{_text(device, 'device')}  {about}", "title")
    page.say(_text(device, "answer"))
    for finding in _rows(_row(device, "diagnosis"), "findings"):
        _saved_finding(page, finding)
    peaks = _row(device, "peaks")
    curves = [(name, peak) for name, peak in peaks.items() if isinstance(peak, dict)]
    if curves:
        page.part()
        rows = [
            (one_line(name), format_bytes(_number(peak, "bytes")), str(_number(peak, "event")))
            for name, peak in curves
        ]
        page.table(("memory", "peak", "event"), rows, left=(0,))
    _sites(page, device)


def _saved_finding(page: Page, finding: Plain) -> None:
    page.say()
    severity = _text(finding, "severity")
    title = f"{severity.upper()}: {_text(finding, 'title')}  [{_text(finding, 'id')}]"
    page.say(title, severity if severity in ("critical", "warning", "note") else "")
    _saved_paragraph(page, _text(finding, "explanation"), "")
    for each in _rows(finding, "suggestions"):
        promise = _promise(_row(each, "frees"))
        _saved_paragraph(page, f"{_text(each, 'text')} {promise}".rstrip(), "- ")


def _promise(frees: Plain) -> str:
    least, about, most = (_number(frees, name) for name in ("least", "expected", "most"))
    if not frees or not 0 <= least <= about <= most:
        return ""
    return f"({frees_text(Frees(least, about, most))})"


def _sites(page: Page, device: Plain) -> None:
    sites = _rows(device, "sites")
    if not sites:
        return
    peak = max(_number(_row(device, "peak"), "allocated"), 1)
    page.part("Held at the peak, by call site")
    rows, shares = [], []
    for site in sites:
        held, line = _number(site, "bytes"), _number(site, "line")
        place = location(_text(site, "file"), line or None)
        what = f"{_text(site, 'name')}  {place}".rstrip()
        shares.append(held / peak)
        share = format_share(held, peak)
        rows.append((format_bytes(held), share, format_count(_number(site, "count")), what))
    page.table(("bytes", "share", "count", "call site"), rows, shares=shares)


def _saved_paragraph(page: Page, text: str, mark: str) -> None:
    width = max(page.width - len(_INDENT), 1)
    for line in textwrap.wrap(
        text,
        width,
        initial_indent=_INDENT + mark,
        subsequent_indent=_INDENT + " " * len(mark),
        break_on_hyphens=False,
    ):
        page.say(line)


def _of(row: Plain, name: str, kind: type[_Kind], otherwise: _Kind) -> _Kind:
    value = row.get(name)
    return value if isinstance(value, kind) else otherwise


def _text(row: Plain, name: str) -> str:
    return one_line(_of(row, name, str, ""))[:_LONGEST]


def _number(row: Plain, name: str) -> int:
    value = _of(row, name, int, 0)
    return value if -(2**63) <= value < 2**63 else 0


def _row(row: Plain, name: str) -> Plain:
    return _of(row, name, dict, {})


def _rows(row: Plain, name: str) -> list[Plain]:
    return [each for each in _of(row, name, list, []) if isinstance(each, dict)]
