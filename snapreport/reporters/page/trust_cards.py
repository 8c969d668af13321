"""A recording's trust laid out for the page: the sentence, the checks, the bars, what to type."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from snapreport.ground.units import format_bytes, format_count
from snapreport.model.trust import Check, ReservedParts, Trust
from snapreport.reporters.page.finding_cards import SuggestionCard, lay_out_suggestions
from snapreport.reporters.page.terms import Definitions
from snapreport.reporters.words.finding_words import figure_text
from snapreport.reporters.words.trust_words import PARTS, difference_text, part_rows

_KINDS = {"awaiting_free": "pending", "fragmented": "fragmentation"}
"""CSS names of parts, where they differ from ours."""
MARKS = {"ok": "✓", "not ok": "✗", "unknown": "?"}


@dataclass(frozen=True)
class CheckCard:
    """One check."""

    code: str
    mark: str
    """``ok``, ``not-ok`` or ``unknown``, for the style."""
    sign: str
    word: str
    title: str
    text: Markup
    figures: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class PartCard:
    """One part of reserved memory."""

    kind: str
    title: str
    name: Markup
    """The title, with what its words mean."""
    percent: float
    start: float
    """Where it begins in the bar, in percent."""
    bytes: str
    exact: str
    share: str


@dataclass(frozen=True)
class BarCard:
    """What reserved memory consists of at one moment."""

    moment: str
    reserved: str
    sum: str
    """Whether the parts add up to it."""
    parts: tuple[PartCard, ...]


@dataclass(frozen=True)
class TrustCard:
    """All that the page says of a recording."""

    verdict: str
    sentence: Markup
    checks: tuple[CheckCard, ...]
    bars: tuple[BarCard, ...]
    fixes: tuple[SuggestionCard, ...]


def lay_out_trust(trust: Trust) -> TrustCard:
    """Lay out a device's trust for the page."""
    define = Definitions()
    moments = [("at the peak", trust.facts.at_peak), ("at the end", trust.facts.at_end)]
    # In the order of the page: a word is explained where it comes up first.
    return TrustCard(
        verdict=trust.verdict.replace(" ", "-"),
        sentence=define.mark(trust.sentence),
        bars=tuple(
            _bar(moment, parts, define) for moment, parts in moments if parts and parts.reserved
        ),
        checks=tuple(_check(each, define) for each in trust.checks),
        fixes=lay_out_suggestions(trust.fixes, define),
    )


def _check(check: Check, define: Definitions) -> CheckCard:
    return CheckCard(
        code=check.code,
        mark=check.mark.replace(" ", "-"),
        sign=MARKS[check.mark],
        word=check.mark,
        title=check.title,
        text=define.mark(check.text),
        figures=tuple((each.label, figure_text(each)) for each in check.figures),
    )


def _bar(moment: str, parts: ReservedParts, define: Definitions) -> BarCard:
    cards, start = [], 0.0
    for (name, title), (size, share) in zip(PARTS, part_rows(parts), strict=True):
        count = getattr(parts, name)
        percent = 100 * max(count, 0) / parts.reserved
        exact = f"{format_count(count)} bytes"
        kind = _KINDS.get(name, name)
        marked = define.mark(title)
        cards.append(PartCard(kind, title, marked, percent, start, size, exact, share))
        start += percent
    off = difference_text(parts)
    return BarCard(
        moment=moment,
        reserved=format_bytes(parts.reserved),
        sum=f"its parts are {off}" if off else "its parts add up, to the byte",
        parts=tuple(cards),
    )
