"""The headline of a run, one sentence: which ranks are unlike the others, and why."""

from __future__ import annotations

import re
from collections.abc import Sequence

from snapreport.compare.among_ranks.cause_words import because, main_cause
from snapreport.compare.among_ranks.compared_rows import Row, name_rows
from snapreport.compare.among_ranks.odd_words import above, clock, peaks_text, sentence
from snapreport.compare.among_ranks.rank_words import ranks_in_words, rows_in_words
from snapreport.ground.units import bytes_and_share, change_in_words, format_bytes, format_count
from snapreport.model.run.rank_facts import Run
from snapreport.model.run.run_findings import Group, Odd, RunFindings

_MOST_GROUPS = 3
_MOST_CAUSES = 3
_ALIKE = 0.06
"""Ranks are called alike if their peaks differ by at most this part of the lowest one."""
_PLURAL = re.compile(r"\d|[A-Za-z ]*s [a-z ]*\d|.* and ")


def write_headline(
    run: Run,
    findings: RunFindings,
    rows: Sequence[Row],
    everyone_gains: int | None,
    leading: int,
) -> str:
    """Write it: odd ranks with causes, groups, the first failure, missing and broken files.

    Args:
        run: the files.
        findings: all but the headline.
        rows: every row of the run.
        everyone_gains: bytes per step, if nearly all ranks gain memory.
        leading: how many of the first groups are of the set that is compared first. Groups of
            another kind, or without a history, cannot be listed beside these.
    """
    if not rows:
        return _no_figures(run)
    parts = [
        *_peaks(findings, rows),
        *_growth(findings, rows),
        *name_groups(findings.groups[:leading]),
        *_failure(findings, rows),
        *_absent(run, findings),
    ]
    if everyone_gains is not None and len(rows) > 1:
        parts.insert(0, f"each rank gains {format_bytes(everyone_gains)} a step at the median")
    if not findings.odd:
        parts.insert(0, _nothing_odd(findings, rows, leading))
    return sentence("; ".join(parts))


def _no_figures(run: Run) -> str:
    if not run.ranks:
        return "The run has no files."
    broken = [rank for rank in run.ranks if rank.error]
    if not broken:
        return "No file holds memory of any device."
    count = len(run.ranks)
    whose = "The only file" if count == 1 else f"None of the {format_count(count)} files"
    verb = "could not" if count == 1 else "could"
    return f"{whose} {verb} be read; the reason for {broken[0].label}: {broken[0].error}"


def _peaks(findings: RunFindings, rows: Sequence[Row]) -> list[str]:
    """Name ranks with unusual peaks, those with the same cause together."""
    causes: dict[tuple[str, str | None, int], list[Odd]] = {}
    for odd in findings.odd:
        if odd.code in ("heavier", "lighter"):
            cause = main_cause(odd.differences, odd.bytes)
            key = (odd.code, cause.key, odd.group or 0) if cause else (odd.code, None, odd.row)
            causes.setdefault(key, []).append(odd)
    parts = []
    for some in list(causes.values())[:_MOST_CAUSES]:
        alone = len(some) == 1
        most = max(some, key=lambda odd: abs(odd.bytes))
        row = rows[most.row]
        verb = peaks_text(row).removesuffix("" if alone else "s")
        amount = _amounts([abs(odd.bytes) for odd in some])
        median = "the median"
        if len(findings.groups) > 1:
            median += " of its group" if alone else " of their group"
        cause_text = because(most.differences, most.bytes, "" if alone else row.words)
        parts.append(f"{_who(some, rows)} {verb} {amount} {above(most.bytes)} {median}{cause_text}")
    left = [odd for some in list(causes.values())[_MOST_CAUSES:] for odd in some]
    if left:
        are = "is" if len(left) == 1 else "are"
        parts.append(f"{_who(left, rows)} {are} unlike the others, too")
    return parts


def _growth(findings: RunFindings, rows: Sequence[Row]) -> list[str]:
    some = [odd for odd in findings.odd if odd.code == "growth"]
    if not some:
        return []
    amount = _amounts([findings.growth[odd.row] or 0 for odd in some])
    return [f"{_who(some, rows)} gain{'s' * (len(some) == 1)} {amount} a step"]


def _who(some: Sequence[Odd], rows: Sequence[Row]) -> str:
    return name_rows([rows[odd.row] for odd in some])


def _amounts(sizes: Sequence[int]) -> str:
    low, high = format_bytes(min(sizes)), format_bytes(max(sizes))
    return low if low == high else f"{low} to {high}"


def name_groups(groups: Sequence[Group]) -> list[str]:
    """Name all groups but the largest, those that peak highest first."""
    if len(groups) < 2:
        return []
    usual = max(groups, key=lambda group: (len(group.rows), -group.rows[0]))
    others = sorted(
        (group for group in groups if group is not usual), key=lambda group: -group.allocated
    )
    if len(others) > _MOST_GROUPS:
        low = min(group.allocated for group in groups)
        high = max(groups, key=lambda group: group.allocated)
        span = f"{format_bytes(low)} to {format_bytes(high.allocated)} on {high.name}"
        return [f"there are {format_count(len(groups))} groups, with median peaks from {span}"]
    parts = []
    for group in others:
        cause = main_cause(group.differences, group.allocated - usual.allocated)
        forms = "form" if _PLURAL.match(group.name) else "forms"
        text = f"{group.name} {forms} a group at {format_bytes(group.allocated)}"
        if len(group.rows) == 1:
            text = f"{group.name} peaks at {format_bytes(group.allocated)}"
        if cause is not None and group is others[0]:
            text += because(group.differences, group.allocated - usual.allocated)
        parts.append(text)
    return [", ".join(parts)] if len(parts) == 1 else parts


def _failure(findings: RunFindings, rows: Sequence[Row]) -> list[str]:
    failed = [rows[odd.row] for odd in findings.odd if odd.code == "failed"]
    if not failed:
        return []
    if findings.first_failure is None:
        return [f"{name_rows(failed)} ran out of memory"]
    row, place = findings.first_failure
    first, request = rows[row], rows[row].device.failed[place]
    at = "" if request.time_us is None else f", at {clock(request.time_us)}"
    if len(failed) == 1:
        return [f"{first.words} ran out of memory{at}"]
    others = [each for each in failed if each.unit != first.unit]
    words = name_rows(others)
    if words[:1].isdigit():
        words = f"{format_count(len(others))} others"
    return [f"{first.words} ran out of memory first{at}, and then {words}"]


def _absent(run: Run, findings: RunFindings) -> list[str]:
    parts = []
    if findings.missing:
        are = "are" if len(findings.missing) > 1 else "is"
        parts.append(f"{ranks_in_words(findings.missing)} {are} missing")
    if findings.broken:
        broken = [run.ranks[place] for place in findings.broken]
        whose = rows_in_words([each.name.rank for each in broken], [each.label for each in broken])
        files = "file" if len(broken) == 1 else "files"
        parts.append(f"the {files} of {whose} could not be read")
    return parts


def _nothing_odd(findings: RunFindings, rows: Sequence[Row], leading: int) -> str:
    """Say that no rank is odd; of two ranks, how they differ."""
    groups = findings.groups[:leading]
    latest = {rows[place].unit: rows[place] for group in groups for place in group.rows}
    some = list(latest.values())
    every = {rows[place].unit: rows[place] for group in findings.groups for place in group.rows}
    apart = len({row.device.recorded for row in every.values()}) > 1
    peak, at = ("peak", "at ") if some[0].device.recorded else ("hold", "")
    if len(some) == 1 and apart:
        return (
            f"{some[0].words} {peak}s {at}{format_bytes(some[0].allocated)}; no other rank can be"
            " compared with it"
        )
    if len(some) == 1:
        return f"there is only {some[0].words}, with a peak of {format_bytes(some[0].allocated)}"
    if len(groups) > 1:
        return f"no rank of {format_count(len(some))} is unlike its group"
    least, most = (pick(some, key=lambda row: row.allocated) for pick in (min, max))
    apart_by = most.allocated - least.allocated
    share = change_in_words(apart_by, least.allocated)
    if len(some) == 2 and apart_by:
        amount = bytes_and_share(apart_by, least.allocated)
        return f"{most.words} {peak}s {amount} above {least.words}"
    who = "both ranks" if len(some) == 2 else f"all {format_count(len(some))} ranks"
    if apart:
        who += " with a history" if some[0].device.recorded else " without a history"
    if not apart_by:
        return f"{who} behave alike: each {peak}s {at}{format_bytes(most.allocated)}"
    between = f"between {format_bytes(least.allocated)} and {format_bytes(most.allocated)}"
    if apart_by <= _ALIKE * least.allocated:
        return f"{who} behave alike: they {peak} {between}, {share} apart"
    return (
        f"no rank stands out, though the peaks of {who} are {between},"
        f"{share and f' {share} apart,'} the highest on {most.words}"
    )
