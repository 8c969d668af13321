"""The rows of a comparison, the same in text, Markdown and on the page."""

from __future__ import annotations

from collections.abc import Sequence

from snapreport.diagnosis.compare.diff_types import (
    EXACT,
    MOVED_FILE,
    MOVED_LINE,
    ONLY_BASE,
    Change,
    Diff,
    DiffSide,
    Figure,
    Place,
    StageChange,
)
from snapreport.diagnosis.compare.gate import Check, Raised, Verdict
from snapreport.ground.units import (
    format_bytes,
    format_change,
    format_count,
    format_signed_bytes,
    plural,
)
from snapreport.model.diagnoses import Finding
from snapreport.model.findings import CallSite
from snapreport.reporters.plain_text import location
from snapreport.reporters.words import amount, moment_text, signed

_WHEN = {"peak": "peak", "start": "at the start", "average": "on average", "end": "at the end"}

_AMOUNTS = ("reserved", "slack", "inactive", "fragmentation")

GROUP_WORDS = {
    "site": "call site",
    "file": "file",
    "function": "function",
    "module": "module",
    "category": "category",
    "role": "role",
    "stage": "stage it was made in",
    "stream": "stream",
    "pool": "pool",
    "context": "compile context",
    "layer": "layer (the forward line behind a gradient, else the call site)",
    "forward": "forward line",
    "metadata": "metadata",
    "size": "requested size",
}
"""What one row is when changes are grouped by this key."""


def side_text(side: DiffSide, curve: str) -> str:
    """Say which moment of a recording is compared, and what is live there."""
    held = moment_text(side.device, side.event, side.time_us, curve, side.bytes)
    return f"{held} in {plural(side.count, 'allocation')}"


def shown_figures(diff: Diff) -> list[tuple[str, Figure]]:
    """Return the figures that a table shows, with their names; not every curve at every moment."""
    found = []
    for figure in diff.figures:
        if figure.when == "peak":
            found.append((f"{figure.name}, its own peak", figure))
        elif figure.when in _WHEN and figure.name == diff.curve:
            found.append((f"{figure.name} {_WHEN[figure.when]}", figure))
    there = "then" if "against" in diff.moment else diff.moment
    found += [
        (f"{figure.name} {there}", figure)
        for figure in diff.figures
        if figure.when == "moment" and figure.name in _AMOUNTS and figure.base is not None
    ]
    return found


def figure_row(name: str, figure: Figure) -> tuple[str, str, str, str, str]:
    """Return a figure's BASE, NEW, change, percent and name."""
    return (
        amount(figure.base),
        amount(figure.new),
        signed(figure.change),
        format_change(figure.change, figure.base),
        name,
    )


def sizes_of(change: Change) -> tuple[str, str, str]:
    """Return the change in bytes, and the bytes in BASE and in NEW."""
    return (
        format_signed_bytes(change.change),
        format_bytes(change.base_bytes),
        format_bytes(change.new_bytes),
    )


def stage_row(stage: StageChange) -> tuple[str, str, str, str]:
    """Return the change of a stage's peak, its peak in BASE and in NEW, and how it was matched."""
    match = "" if stage.match == EXACT else stage.match
    return signed(stage.change), amount(stage.base_peak), amount(stage.new_peak), match


def place_text(place: Place | None, limit: int = 0) -> str:
    """Return ``file:line``, folders shortened first; empty where there is no file."""
    return "" if place is None else location(place.filename, place.line, limit)


def place_of(change: Change) -> Place | None:
    """Return where a call site is: in NEW, or in BASE if NEW has none."""
    return change.new_place or change.base_place


def match_text(change: Change, limit: int = 0) -> str:
    """Say how a row was matched, empty for an exact match."""
    before = change.base_place
    if change.match == MOVED_LINE and before is not None:
        return f"was line {'unknown' if before.line is None else before.line}"
    if change.match == MOVED_FILE:
        return f"was {place_text(before, limit)}"
    if change.kind == "site" or change.match == EXACT:
        return "" if change.match == EXACT else change.match
    return "nothing in NEW" if change.match == ONLY_BASE else "nothing in BASE"


def split_rows(changes: Sequence[Change], most: int | None) -> tuple[Sequence[Change], str]:
    """Return the rows to show, and a sentence about those left out, empty if there are none.

    Args:
        changes: largest change first.
        most: the most rows, all with a change; None for all rows, changed or not.
    """
    if most is None:
        return changes, ""
    changed = [change for change in changes if change.change]
    rest = changed[most:]
    same = [change for change in changes if not change.change]
    texts = []
    if rest:
        texts.append(f"{len(rest):,} more changed by {signed(sum(c.change for c in rest))} in all")
    if same:
        held = amount(sum(change.new_bytes for change in same))
        texts.append(f"{len(same):,} did not change, with {held}")
    return changed[:most], "; ".join(texts)


def groups_title(diff: Diff, by: str) -> str:
    """Return the title of the changes grouped by ``by``."""
    return f"{diff.curve.capitalize()} bytes {diff.moment}, by {GROUP_WORDS[by]}"


def setting_text(value: object) -> str:
    """Write the value of an allocator setting."""
    return "not set" if value is None or value == "" else str(value)


# The words and rows of a verdict, the same in text, Markdown and JSON.


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
