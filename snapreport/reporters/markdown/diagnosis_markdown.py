"""A diagnosis as Markdown for an issue comment."""

from __future__ import annotations

from collections.abc import Iterator

from snapreport.ground.units import format_count
from snapreport.model.diagnoses import Diagnosis, Finding, Suggestion, Table
from snapreport.reporters.markdown.markdown_parts import folded, table
from snapreport.reporters.words.finding_words import (
    cells_of,
    conditions,
    figure_text,
    frees_text,
    texts_of,
)
from snapreport.reporters.words.plain_text import code_span, escaped, one_line

_MARKS = {"critical": "🔴", "warning": "🟠", "note": "🔵"}
_CELL = 80
_ROWS = 8


def diagnosis_blocks(diagnosis: Diagnosis, most: int) -> Iterator[str]:
    """Yield the findings to act on, then the notes, folded.

    Args:
        diagnosis: the device's.
        most: the most findings to act on, and the most notes.
    """
    first = [each for each in diagnosis.findings if each.leads]
    notes = [each for each in diagnosis.findings if not each.leads]
    for each in first[:most]:
        yield from finding_blocks(each)
    if len(first) > most:
        more = format_count(len(first) - most)
        yield f"{more} more findings; `snapreport summary --findings` lists them all."
    if notes:
        blocks = [block for each in notes[:most] for block in finding_blocks(each)]
        if len(notes) > most:
            blocks.append(f"And {format_count(len(notes) - most)} more.")
        yield folded(f"Notes ({format_count(len(notes))})", blocks)
    if diagnosis.silenced:
        yield f"Silenced: {', '.join(map(code_span, diagnosis.silenced))}."


def finding_blocks(finding: Finding) -> Iterator[str]:
    """Yield a finding in full."""
    yield f"{_MARKS[finding.severity]} **{escaped(finding.title)}** `{finding.id}`"
    yield escaped(finding.explanation)
    if finding.suggestions:
        yield "\n".join(map(_item, finding.suggestions)).rstrip("\n")
    evidence = [*_figures(finding), *(block for each in finding.tables for block in _table(each))]
    if evidence:
        yield folded("Evidence", evidence)


def _item(offered: Suggestion) -> str:
    frees = frees_text(offered.frees)
    parts = (escaped(offered.text), f"**{frees}**" if frees else "", escaped(conditions(offered)))
    text = f"- {' '.join(filter(None, parts))}"
    if not offered.change:
        return text
    # Indented, because a line in it could end a fence.
    return "\n".join(
        [text, "", *(f"      {one_line(line)}" for line in offered.change.splitlines()), ""]
    )


def _figures(finding: Finding) -> Iterator[str]:
    if finding.evidence:
        rows = [
            (escaped(each.label), escaped(figure_text(each)), escaped(each.meaning))
            for each in finding.evidence
        ]
        yield table(("figure", "value", "meaning"), rows, left=(0, 2))


def _table(of: Table) -> Iterator[str]:
    yield f"**{escaped(of.title)}**"
    left = texts_of(of)
    rows = [
        [code_span(cell, _CELL) if i in left else cell for i, cell in enumerate(row)]
        for row in cells_of(of, _ROWS)
    ]
    yield table([escaped(column.title) for column in of.columns], rows, left)
    rest = max(len(of.rows) - _ROWS, 0) + of.left_out
    if rest:
        yield f"{format_count(rest)} more."
