"""A diagnosis as text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from snapreport.model.diagnoses import Figure, Finding, Suggestion, Table
from snapreport.model.findings import Findings
from snapreport.reporters.terminal.text_tables import Page
from snapreport.reporters.words.finding_words import (
    cells_of,
    conditions,
    figure_text,
    frees_text,
    reasons,
    tally,
    texts_of,
)
from snapreport.reporters.words.plain_text import one_line

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
