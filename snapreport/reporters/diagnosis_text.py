"""A diagnosis as text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from snapreport.model.diagnosis import Finding, Suggestion, Table
from snapreport.reporters.finding_words import (
    SEVERITY_WORDS,
    figure_text,
    frees_text,
    value_text,
)
from snapreport.reporters.plain_text import one_line
from snapreport.reporters.tables import Page

_INDENT = "  "
_ROWS = 6
"""Rows of a table without ``--full``."""


def findings(page: Page, found: Sequence[Finding], *, full: bool) -> None:
    """Write findings, the worst first; notes as a line each unless ``full``."""
    for finding in found:
        if finding.severity == "note" and not full:
            continue
        page.say()
        _finding(page, finding, None if full else _ROWS)
    notes = [each for each in found if each.severity == "note"]
    if notes and not full:
        page.say()
        page.say("Good to know (--full explains)")
        for note in notes:
            _indented(page, f"{one_line(note.title)}  [{note.id}]", "- ")


def _finding(page: Page, finding: Finding, most: int | None) -> None:
    head = f"{SEVERITY_WORDS[finding.severity].upper()}: {one_line(finding.title)}  [{finding.id}]"
    for line in textwrap.wrap(head, page.width, subsequent_indent=_INDENT):
        page.say(line)
    _indented(page, one_line(finding.explanation))
    if finding.evidence:
        page.say()
        page.table(
            ("", "", ""),
            [
                (
                    _INDENT + one_line(each.label),
                    one_line(figure_text(each)),
                    one_line(each.meaning),
                )
                for each in finding.evidence
            ],
            figures=(False, True, False),
        )
    for table in finding.tables:
        _table(page, table, most)
    if finding.suggestions:
        page.say()
        page.say(f"{_INDENT}What would help")
        for each in finding.suggestions:
            _suggestion(page, each)


def _table(page: Page, table: Table, most: int | None) -> None:
    page.say()
    page.say(_INDENT + one_line(table.title))
    shown = table.rows if most is None else table.rows[:most]
    text = [column.unit == "text" for column in table.columns]
    # A text in the last column may be cut; the others stand whole.
    room = max(page.width // 2, 24)
    page.table(
        [(_INDENT if i == 0 else "") + column.title for i, column in enumerate(table.columns)],
        [
            [
                (_INDENT if i == 0 else "") + _cell(value_text(value, column.unit), room, is_text)
                for i, (value, column, is_text) in enumerate(
                    zip(row, table.columns, text, strict=True)
                )
            ]
            for row in shown
        ],
        figures=[not each for each in text],
    )
    rest = len(table.rows) - len(shown) + table.left_out
    if rest:
        page.say(f"{_INDENT}and {rest:,} more")


def _cell(text: str, room: int, is_text: bool) -> str:
    return one_line(text, room) if is_text else text


def _suggestion(page: Page, suggestion: Suggestion) -> None:
    frees = frees_text(suggestion.frees, suggestion.most)
    _indented(page, f"{one_line(suggestion.text)}{f' ({frees})' if frees else ''}", "- ")
    for line in suggestion.change.splitlines():
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
