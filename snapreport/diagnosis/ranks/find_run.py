"""Conclude everything about a run: groups, odd ranks with their causes, what is missing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from snapreport.diagnosis.ranks.holders import because, main_cause
from snapreport.diagnosis.ranks.odd_ranks import above, clock, peaks_text
from snapreport.diagnosis.ranks.one_kind import OneKind, find_copies, find_imbalances
from snapreport.diagnosis.ranks.rows import (
    Row,
    list_compared,
    list_rows,
    name_rows,
    ranks_in_words,
    rows_in_words,
    sentence,
    what_tells_apart,
)
from snapreport.ground.units import bytes_and_share, change_in_words, format_bytes, format_count
from snapreport.model.run import Group, Odd, Run, RunFindings

_ORDER = {"heavier": 0, "growth": 1, "failed": 2, "lighter": 3}


def find_run(run: Run) -> RunFindings:
    """Compare the ranks of a run with one another.

    Devices of different kinds are never compared, nor a rank with a history with one that only has
    the final state. Equal runs give equal findings.
    """
    rows = list_rows(run)
    first = _first_failure(rows)
    sets = list_compared(rows)
    words = what_tells_apart(sets)
    kinds = [OneKind(each, first, of) for each, of in zip(sets, words, strict=True)]
    groups: list[Group] = []
    odd: list[Odd] = []
    growth: list[int | None] = [None] * len(rows)
    for kind in kinds:
        odd += [replace(each, group=(each.group or 0) + len(groups)) for each in kind.odd()]
        groups += kind.groups()
        for row, grown in zip(kind.rows, kind.grown, strict=True):
            growth[row.place] = None if grown is None else grown.each
    odd.sort(key=lambda each: (_ORDER[each.code], -abs(each.bytes), each.row))
    found = RunFindings(
        headline="",
        rows=tuple(
            (at, place) for at, rank in enumerate(run.ranks) for place in range(len(rank.devices))
        ),
        groups=tuple(groups),
        odd=tuple(odd),
        imbalances=tuple(
            each
            for kind in kinds
            for each in find_imbalances(
                kind.rows, kind.table.allocated, kind.grouped, [some.core for some in kind.unlike]
            )
        ),
        missing=missing_ranks(run),
        broken=tuple(place for place, rank in enumerate(run.ranks) if rank.error),
        first_failure=first,
        growth=tuple(growth),
        replicated=tuple(each for kind in kinds for each in find_copies(kind.rows, kind.table)),
        notes=write_notes(run, kinds),
    )
    gains = kinds[0].everyone_gains() if kinds else None
    leading = len(kinds[0].grouped) if kinds else 0
    return replace(found, headline=write_headline(run, found, rows, gains, leading))


def _first_failure(rows: Sequence[Row]) -> tuple[int, int] | None:
    """Return the earliest failed request: its row, and its position in ``failed``.

    Times are by the clocks of the ranks' hosts. If a request has no time, None, unless all failures
    are of one device.
    """
    failed = [
        (request.time_us, row.place, place)
        for row in rows
        for place, request in enumerate(row.device.failed)
    ]
    if len({rows[row].unit for _, row, _ in failed}) == 1:
        return failed[0][1:]
    timed = [each for each in failed if each[0] is not None]
    if len(timed) < len(failed) or not timed:
        return None
    return min(timed, key=lambda each: (each[0] or 0, each[1], each[2]))[1:]


_HOSTS = 3
"""With fewer hosts none is called slow."""
_SLOW = 1.3
"""Each rank of a slow host must take this many times as long: steps vary by a tenth or two."""


def missing_ranks(run: Run) -> tuple[int, ...]:
    """Return the numbers of the ranks without a file.

    If the number of ranks is not known, these are the gaps below the highest number. Many gaps do
    not count: then only one rank per host, or a few chosen ranks, were recorded.
    """
    known = {rank.name.rank for rank in run.ranks if rank.name.rank is not None}
    if not known:
        return ()
    if run.expected is not None:
        return tuple(number for number in range(run.expected) if number not in known)
    gaps = tuple(number for number in range(max(known)) if number not in known)
    return gaps if len(gaps) < len(known) / 2 else ()


def write_notes(run: Run, kinds: Sequence[OneKind]) -> tuple[str, ...]:
    """Say what limits the comparison, and what is true of nearly all ranks."""
    notes = []
    for kind in kinds:
        if not kind.compared.recorded:
            notes.append(
                f"{name_rows(kind.rows)} recorded no history: the state when the snapshot was"
                " written is compared, and only with other ranks without a history"
            )
        gains = kind.everyone_gains()
        if gains is not None:
            who = "each rank" if len(kind.rows) > 1 else kind.rows[0].words
            notes.append(
                f"{who} gains memory from step to step, {format_bytes(gains)} at the median"
            )
        widths = [row.device.allocated_width for row in kind.rows]
        if max(widths) > 0.01 * max(row.allocated for row in kind.rows):
            notes.append(
                f"the sizes of some blocks are only known as ranges: peaks may be up to"
                f" {format_bytes(max(widths))} higher"
            )
        off = any((unlike.side != 0).any() for unlike in kind.unlike)
        several = len({row.unit[0] for row in kind.rows}) > 1
        if off and several and not any(row.coordinates for row in kind.rows):
            notes.append(
                "the parallel layout is not known, so a rank that differs by design, such as the"
                " only one of a pipeline stage, counts as odd; give the layout, such as tp=8,pp=4"
            )
    notes += _dumps(kinds)
    notes += _slow_hosts(kinds)
    unused = [rank for rank in run.ranks if not rank.devices and not rank.error]
    if unused:
        notes.append(f"{format_count(len(unused))} files hold no memory of any device")
    twice = Counter(
        (rank.name.rank, rank.name.dump) for rank in run.ranks if rank.name.rank is not None
    )
    double = sorted({rank for (rank, _), count in twice.items() if count > 1 and rank is not None})
    if double:
        notes.append(
            f"there are several files of one step for {ranks_in_words(double)}, and one of each is"
            " compared"
        )
    return tuple(sentence(note) for note in notes)


def _dumps(kinds: Sequence[OneKind]) -> list[str]:
    """Name ranks that are compared at an earlier dump than the others."""
    notes = []
    for kind in kinds:
        dumps = Counter(row.rank.name.dump for row in kind.rows)
        usual = dumps.most_common(1)[0][0]
        behind: dict[int, list[Row]] = {}
        for row in kind.rows:
            dump = row.rank.name.dump
            if usual is not None and dump is not None and dump < usual:
                behind.setdefault(dump, []).append(row)
        for dump, rows in sorted(behind.items()):
            verb = "has" if len(rows) == 1 else "have"
            notes.append(
                f"{name_rows(rows)} {verb} no file of step {format_count(usual or 0)}, so"
                f" {'it is' if len(rows) == 1 else 'they are'} compared at step"
                f" {format_count(dump)}"
            )
    return notes


def _slow_hosts(kinds: Sequence[OneKind]) -> list[str]:
    """Name hosts whose ranks take longer per event: not about memory, but worth knowing.

    Ranks that wait for one another take equally long, so this only shows work done without waiting.
    """
    notes = []
    for kind in kinds:
        hosts: dict[str, list[float]] = {}
        for row in kind.rows:
            cells = row.device.by_time
            if cells is not None and row.device.events and not row.device.failed:
                took = (len(cells.allocated) << cells.shift) / row.device.events
                hosts.setdefault(row.rank.name.host, []).append(took)
        if len(hosts) < _HOSTS or "" in hosts:
            continue
        middle = {host: median(each) for host, each in hosts.items()}
        usual = median(middle.values())
        notes += [
            f"the ranks of host {host} take {middle[host] / usual:.1f} times as long per event as"
            " those of the median host"
            for host in sorted(hosts)
            if min(hosts[host]) > _SLOW * usual > 0
        ]
    return notes


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
