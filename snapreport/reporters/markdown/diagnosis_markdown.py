"""A diagnosis as Markdown for an issue comment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from snapreport.ground.units import format_count
from snapreport.model.diagnoses import Diagnosis, Finding, Table
from snapreport.reporters.markdown.markdown_parts import folded, table
from snapreport.reporters.words.finding_words import (
    conditions,
    figure_text,
    frees_text,
    value_text,
)
from snapreport.reporters.words.plain_text import code_span, escaped, one_line

_MARKS = {"critical": "🔴", "warning": "🟠", "note": "🔵"}
_CELL = 80
_ROWS = 8


def diagnosis_lines(diagnosis: Diagnosis, most: int) -> Iterator[str]:
    """Yield the findings: those to act on as they are, the notes folded.

    Args:
        diagnosis: the device's.
        most: so many findings to act on, and as many notes.
    """
    first = [each for each in diagnosis.findings if each.leads]
    notes = [each for each in diagnosis.findings if not each.leads]
    for each in first[:most]:
        yield from _finding(each)
    if len(first) > most:
        more = format_count(len(first) - most)
        yield f"{more} findings more; `snapreport summary --findings` lists all."
        yield ""
    if notes:
        lines = [line for each in notes[:most] for line in _finding(each)]
        if len(notes) > most:
            lines += [f"And {format_count(len(notes) - most)} more.", ""]
        yield from folded(f"Notes ({format_count(len(notes))})", lines)
    if diagnosis.silenced:
        yield f"Silenced: {', '.join(map(code_span, diagnosis.silenced))}."
        yield ""


def finding_lines(found: Sequence[Finding]) -> Iterator[str]:
    """Yield findings in full, one after the other."""
    for each in found:
        yield from _finding(each)


def _finding(finding: Finding) -> Iterator[str]:
    yield f"{_MARKS[finding.severity]} **{escaped(finding.title)}** `{finding.id}`"
    yield ""
    yield escaped(finding.explanation)
    yield ""
    for each in finding.suggestions:
        frees = frees_text(each.frees)
        parts = (escaped(each.text), f"**{frees}**" if frees else "", escaped(conditions(each)))
        yield f"- {' '.join(filter(None, parts))}"
        if each.change:
            # Indented: no line in it can end the block, as it could a fence.
            yield from ("", *(f"      {one_line(line)}" for line in each.change.splitlines()), "")
    if finding.suggestions:
        yield ""
    evidence = [
        line
        for lines in ([*_figures(finding)], *([*_table(each)] for each in finding.tables))
        for line in lines
    ]
    if evidence:
        yield from folded("Evidence", evidence)


def _figures(finding: Finding) -> Iterator[str]:
    if finding.evidence:
        rows = [
            (escaped(each.label), escaped(figure_text(each)), escaped(each.meaning))
            for each in finding.evidence
        ]
        yield from table(("figure", "value", "meaning"), rows, left=(0, 2))


def _table(of: Table) -> Iterator[str]:
    yield f"**{escaped(of.title)}**"
    yield ""
    text = [column.unit == "text" for column in of.columns]
    rows = [
        [
            code_span(value_text(value, column.unit), _CELL)
            if is_text
            else value_text(value, column.unit)
            for value, column, is_text in zip(row, of.columns, text, strict=True)
        ]
        for row in of.rows[:_ROWS]
    ]
    left = [i for i, is_text in enumerate(text) if is_text]
    yield from table([escaped(column.title) for column in of.columns], rows, left)
    rest = max(len(of.rows) - _ROWS, 0) + of.left_out
    if rest:
        yield f"{format_count(rest)} more."
        yield ""
