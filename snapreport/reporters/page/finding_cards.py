"""Findings laid out for the page: their texts, figures, and the link to the view that shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

from markupsafe import Markup

from snapreport.model.diagnoses import SEVERITIES, Finding, Suggestion, Table
from snapreport.model.recording_facts import OomEvent
from snapreport.reporters.page.terms import Definitions
from snapreport.reporters.words.finding_words import (
    SEVERITY_WORDS,
    conditions,
    exact_text,
    figure_text,
    frees_text,
    reasons,
    saving_text,
    value_text,
)


@dataclass(frozen=True)
class FigureCard:
    """One figure of the evidence."""

    label: Markup
    value: str
    exact: str
    meaning: str


@dataclass(frozen=True)
class TableCard:
    """A table of the evidence, all its cells as text."""

    title: Markup
    headings: tuple[tuple[str, bool], ...]
    """Title, and whether the column holds figures."""
    rows: tuple[tuple[tuple[str, str], ...], ...]
    """Short and exact text of each cell."""
    left_out: int


@dataclass(frozen=True)
class SuggestionCard:
    """One thing to do."""

    text: Markup
    change: str
    frees: str
    reasons: str
    """What the figures rest on."""
    conditions: str
    """What it costs, and when it does not apply."""


@dataclass(frozen=True)
class FindingCard:
    """One finding."""

    code: str
    id: str
    severity: str
    word: str
    title: str
    explanation: Markup
    figures: tuple[FigureCard, ...]
    tables: tuple[TableCard, ...]
    suggestions: tuple[SuggestionCard, ...]
    link: str
    """Fragment of the view that shows it, without ``#``; ``""`` where there is none."""
    oom: int | None
    """Which failed request it is about."""
    hint: str
    """What the first thing that would help gives, for who does not open the finding."""
    leads: bool
    """Whether it is said at once, and not only on request."""
    opens: bool
    """Whether it is open from the start."""


def lay_out(
    findings: Sequence[Finding], device: int = 0, ooms: Sequence[OomEvent] = ()
) -> tuple[FindingCard, ...]:
    """Lay out findings for the page, the worst first; the one to act on first is open.

    Args:
        findings: about one device.
        device: the device's place in the page.
        ooms: the device's failed requests.
    """
    events = [oom.event for oom in ooms]
    listed = sorted(findings, key=lambda each: SEVERITIES.index(each.severity))
    opened = _to_act_on(listed)
    return tuple(_card(each, device, events, each is opened) for each in listed)


def lay_out_of_file(findings: Sequence[Finding]) -> tuple[FindingCard, ...]:
    """Lay out what concerns all devices: open where critical, else one line above the device."""
    return tuple(replace(each, opens=each.severity == "critical") for each in lay_out(findings))


def _to_act_on(findings: Sequence[Finding]) -> Finding | None:
    """The failure, else the finding whose advice frees the most, else the first that is no note."""

    def frees(finding: Finding) -> int:
        return max((each.expected for each in finding.suggestions), default=0)

    first = next(iter(findings), None)
    if first is None or first.severity == "critical":
        return first
    best = max((each for each in findings if each.leads), key=frees, default=None)
    if best is not None and frees(best):
        return best
    return None if first.severity == "note" else first


def _card(finding: Finding, device: int, oom_events: list[int], opens: bool) -> FindingCard:
    define = Definitions()
    view = finding.view
    oom = None
    if view is not None and view.oom and view.event in oom_events:
        oom = oom_events.index(view.event)
    return FindingCard(
        code=finding.code,
        id=finding.id,
        severity=finding.severity,
        word=SEVERITY_WORDS[finding.severity],
        title=finding.title,
        explanation=define.mark(finding.explanation),
        figures=tuple(
            FigureCard(
                define.mark(each.label),
                figure_text(each),
                exact_text(each.value, each.unit),
                each.meaning,
            )
            for each in finding.evidence
        ),
        tables=tuple(_table(each, define) for each in finding.tables),
        suggestions=lay_out_suggestions(finding.suggestions, define),
        link="" if view is None else _fragment(finding, device, oom),
        oom=oom,
        hint=_hint(finding),
        leads=finding.leads,
        opens=opens,
    )


def lay_out_suggestions(
    suggestions: Sequence[Suggestion], define: Definitions
) -> tuple[SuggestionCard, ...]:
    """Lay out what to do; ``define`` knows which words the page has explained already."""
    return tuple(
        SuggestionCard(
            define.mark(each.text),
            each.change,
            frees_text(each.frees),
            " ".join(reasons(each.frees)),
            conditions(each),
        )
        for each in suggestions
    )


def _hint(finding: Finding) -> str:
    if not finding.suggestions:
        return ""
    saving = saving_text(finding.suggestions)
    return f"biggest saving: {saving}" if saving else "with advice"


def _table(table: Table, define: Definitions) -> TableCard:
    return TableCard(
        title=define.mark(table.title),
        headings=tuple((each.title, each.unit != "text") for each in table.columns),
        rows=tuple(
            tuple(
                (value_text(value, column.unit), exact_text(value, column.unit))
                for value, column in zip(row, table.columns, strict=True)
            )
            for row in table.rows
        ),
        left_out=table.left_out,
    )


def _fragment(finding: Finding, device: int, oom: int | None) -> str:
    """Write the view as ``lib/link.ts`` reads it."""
    view = finding.view
    assert view is not None
    parts = {
        "device": str(device),
        "curve": view.curve or "",
        "event": "" if view.event is None else str(view.event),
        "oom": "" if oom is None else str(oom),
        "tab": view.tab,
        "search": view.search,
    }
    return "&".join(f"{key}={quote(value, safe='')}" for key, value in parts.items() if value)
