"""The words and rows of a verdict, the same in text, Markdown and JSON."""

from __future__ import annotations

from collections.abc import Sequence

from snapreport.compare.diff_types import Change, Diff
from snapreport.compare.gate_types import Check, Raised, Verdict
from snapreport.ground.units import format_bytes, format_count, plural
from snapreport.model.diagnoses import Finding
from snapreport.model.findings import CallSite
from snapreport.reporters.words.diff_rows import match_text, place_of, place_text, sizes_of
from snapreport.reporters.words.plain_text import location
from snapreport.reporters.words.summary_rows import amount, signed

HEADINGS = ("result", "device", "check", "is", "budget", "over")
"""The columns of ``check_row``."""

_RESULTS = {"passed": "pass", "failed": "FAIL", "unknown": "FAIL"}


def conclusion(verdict: Verdict) -> str:
    """Say in one line how the check ended."""
    checks = len(verdict.checks)
    failed = sum(not each.passed for each in verdict.checks)
    raised = len(failing(verdict))
    parts = []
    if failed:
        parts.append(f"{format_count(failed)} of {plural(checks, 'budget')} not kept")
    if raised:
        parts.append(f"{plural(raised, 'finding')} that {'fails' if raised == 1 else 'fail'} it")
    if parts:
        return f"Failed: {', and '.join(parts)}"
    kept = f"{plural(checks, 'budget')} kept" if checks else "no budget was given"
    return f"Passed: {kept}, {no_findings(verdict)}"


def no_findings(verdict: Verdict) -> str:
    """Say which findings were looked for and not found."""
    if not verdict.fail_on:
        return "findings were not checked"
    return f"no {' or '.join(verdict.fail_on)} finding"


def check_name(check: Check) -> str:
    """Return the check's option with what it is about: ``max-stage backward``."""
    return f"{check.name} {check.subject}" if check.subject else check.name


def check_row(check: Check) -> tuple[str, ...]:
    """Return the cells under HEADINGS."""
    return (
        _RESULTS[check.outcome],
        check.device,
        check_name(check),
        "not known" if check.value is None else format_bytes(check.value),
        amount(check.limit),
        signed(check.over),
    )


def site_row(site: CallSite, limit: int = 0) -> tuple[str, str, str, str]:
    """Return a call site's bytes, count, function and place."""
    place = location(site.filename, site.line, limit)
    return format_bytes(site.bytes), format_count(site.count), site.name, place


def change_row(change: Change, limit: int = 0) -> tuple[str, str, str, str, str, str]:
    """Return a call site's change, bytes before and now, function, place and how it was matched."""
    return (
        *sizes_of(change),
        change.name,
        place_text(place_of(change), limit),
        match_text(change, limit),
    )


def failing(verdict: Verdict) -> list[Raised]:
    """Return the findings that fail the check."""
    return [each for each in verdict.findings if each.fails]


def others(verdict: Verdict) -> list[Raised]:
    """Return the findings that do not fail the check, except notes."""
    return [each for each in verdict.findings if not each.fails and each.finding.severity != "note"]


def changed(changes: Sequence[Change], most: int) -> list[Change]:
    """Return the changes that explain a difference, largest first."""
    return [each for each in changes if each.change][:most]


def comparison_title(diff: Diff) -> str:
    """Say what is compared with what."""
    return f"{diff.new.device} against {diff.base.source.name}"


def advice(finding: Finding, most: int = 3) -> list[str]:
    """Return a finding's first ``most`` suggestions."""
    return [each.text for each in finding.suggestions[:most]]
