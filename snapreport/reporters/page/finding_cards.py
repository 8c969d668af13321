"""How the page shows findings: their order, which one is open, and links to their views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

from snapreport.model.diagnoses import SEVERITIES, Finding, Suggestion, View
from snapreport.model.recording_facts import OomEvent
from snapreport.reporters.words.finding_words import saving_text


@dataclass(frozen=True)
class FindingCard:
    """One finding."""

    finding: Finding
    lead: Suggestion | None
    """What to do first: the first change whose effect in bytes is known; None if there is none."""
    plan: Suggestion | None
    """Which changes make room together, beside the lead."""
    others: tuple[Suggestion, ...]
    """The other suggestions."""
    link: str
    """Fragment of the view that shows it, without ``#``; ``""`` if there is none."""
    shows: str
    """What stands on the link: the tab that it opens."""
    oom: int | None
    """The index of the failed request that it is about; None if it is about none."""
    hint: str
    """The biggest saving that it offers, readable while the finding is closed."""
    opens: bool
    """Whether it is open at first."""


def lay_out(
    findings: Sequence[Finding], device: int = 0, ooms: Sequence[OomEvent] = ()
) -> tuple[FindingCard, ...]:
    """Lay out findings for the page, the worst first; the most useful one is open.

    Args:
        findings: about one device.
        device: the device's index in the page.
        ooms: the device's failed requests.
    """
    events = [oom.event for oom in ooms]
    listed = sorted(findings, key=lambda each: SEVERITIES.index(each.severity))
    opened = _to_act_on(listed)
    return tuple(_card(each, device, events, each is opened) for each in listed)


def lay_out_of_file(findings: Sequence[Finding]) -> tuple[FindingCard, ...]:
    """Lay out the findings about the file; only critical ones are open."""
    return tuple(
        replace(each, opens=each.finding.severity == "critical") for each in lay_out(findings)
    )


def _to_act_on(findings: Sequence[Finding]) -> Finding | None:
    """Return a critical finding, else the one that frees the most, else the first warning."""

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
    view = finding.view
    oom = None
    if view is not None and view.oom and view.event in oom_events:
        oom = oom_events.index(view.event)
    link = "" if view is None else _fragment(view, device, oom)
    shows = "" if view is None else _SHOWS["then" if view.oom else view.tab]
    lead = next((each for each in finding.suggestions if each.expected), None)
    plan = next((each for each in finding.suggestions if lead and each.code == "plan"), None)
    others = tuple(each for each in finding.suggestions if each is not lead and each is not plan)
    return FindingCard(finding, lead, plan, others, link, shows, oom, _hint(finding), opens)


_SHOWS = {
    "then": "Show what was live then",
    "stacks": "Show the call stacks",
    "lines": "Show the lines",
    "live": "Show the allocations",
    "stages": "Show the stages",
    "steps": "Show the steps",
    "allocator": "Show the allocator",
    "events": "Show the events",
    "recording": "Show the recording",
}
"""The words of a link, by the tab that it opens; ``then`` where a request failed."""


def _hint(finding: Finding) -> str:
    if not finding.suggestions:
        return ""
    saving = saving_text(finding.suggestions)
    return f"biggest saving: {saving}" if saving else "with advice"


def _fragment(view: View, device: int, oom: int | None) -> str:
    """Write the view as ``lib/text/link.ts`` reads it."""
    parts = {
        "device": str(device),
        "curve": view.curve or "",
        "event": "" if view.event is None else str(view.event),
        "oom": "" if oom is None else str(oom),
        "tab": view.tab,
        "search": view.search,
    }
    return "&".join(f"{key}={quote(value, safe='')}" for key, value in parts.items() if value)
