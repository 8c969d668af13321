"""A run as text for a terminal: what is odd and why, the groups, and the ranks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from snapreport.diagnosis.ranks.two_runs import changed_alike
from snapreport.ground.units import format_bytes, format_count, format_signed_bytes
from snapreport.model.diagnoses import SEVERITIES
from snapreport.model.run import RankFacts, RankFinding, Run, RunDiff, RunFindings
from snapreport.reporters.plain_text import cut, one_line
from snapreport.reporters.run_words import (
    ODD_WORDS,
    balance,
    difference_text,
    extent,
    failed_text,
    missing_text,
    parting_text,
    peak_text,
    rows_of,
    rows_of_file,
)
from snapreport.reporters.text_tables import Page

# Two runs side by side, as text for a terminal.


_DIFFERENCES = 3


def write_run_diff(page: Page, diff: RunDiff, most: int | None) -> None:
    """Write how the ranks of two runs differ, and which allocations make the difference.

    Args:
        page: to write to.
        diff: from ``compare_runs()``.
        most: groups and ranks to list; None for all.
    """
    if most is None:
        most = max(len(diff.groups), len(diff.ranks))
    page.say(one_line(diff.headline), "title")
    if diff.groups:
        page.part("By group")
    for group in diff.groups[:most]:
        page.say(one_line(group.sentence))
        if group.change:
            for each in group.differences[:_DIFFERENCES]:
                page.say(f"  {cut(difference_text(each), page.width - 2)}")
    page.more(len(diff.groups) - most, "group")
    alike = changed_alike(diff.ranks)
    if alike:
        page.part("Ranks that changed alike")
    for some in alike[:most]:
        page.say(one_line(some.sentence))
    page.more(len(alike) - most, "change")
    changed = sorted(
        (each for each in diff.ranks if each.change),
        key=lambda each: (not each.odd, -abs(each.change)),
    )
    if changed:
        page.part()
        page.table(
            ("change", "before", "now", "rank", ""),
            [
                (
                    format_signed_bytes(each.change),
                    format_bytes(each.base),
                    format_bytes(each.new),
                    each.name,
                    "unlike its group" if each.odd else "",
                )
                for each in changed[:most]
            ],
            left=(3, 4),
        )
        page.more(len(changed) - most, "rank")
    for note in diff.notes:
        page.part()
        page.say(one_line(note))


# The findings in the ranks of a run, each kind once, with the ranks that have it.


_NAMED = 8
_FINDINGS = 30


def write_run_findings(page: Page, run: Run, *, full: bool = False) -> None:
    """Write the findings of all ranks, the worst first, then the most frequent.

    Findings with the same code are one; its title is that of one rank.
    """
    found: dict[str, list[tuple[str, RankFinding]]] = {}
    for rank in run.ranks:
        seen = set()
        for device in rank.devices:
            for each in device.findings:
                if each.code not in seen:
                    seen.add(each.code)
                    found.setdefault(each.code, []).append((rank.label, each))
    order = sorted(found.values(), key=lambda rows: (_worst(rows), -len(rows)))
    if not order:
        page.say("Nothing was found in any rank.")
    most = len(order) if full else _FINDINGS
    for rows in order[:most]:
        severity = SEVERITIES[_worst(rows)]
        label, first = min(rows, key=lambda row: SEVERITIES.index(row[1].severity))
        page.say(f"{severity}: {one_line(first.title)}", severity)
        names = [name for name, _ in rows]
        shown = names if full else names[:_NAMED]
        more = len(names) - len(shown)
        rest = f" and {format_count(more)} more" if more else ""
        page.say(f"  {first.code}, in {', '.join(shown)}{rest}; worded for {label}.")
    if len(order) > most:
        page.say(f"{format_count(len(order) - most)} more kinds of findings.")


def _worst(rows: list[tuple[str, RankFinding]]) -> int:
    return min(SEVERITIES.index(each.severity) for _, each in rows)


_ODD, _GROUPS, _RANKS, _BROKEN = 12, 16, 20, 10


def write_run(page: Page, run: Run, findings: RunFindings, *, full: bool = False) -> None:
    """Write the findings about a run.

    Args:
        page: to write to.
        run: the run's figures.
        findings: the conclusions from them.
        full: list everything, whatever its length.
    """

    def most(count: int) -> int:
        return 10**9 if full else count

    if run.title:
        page.say(run.title, "title")
    page.say(", ".join(extent(run, findings)))
    page.part(findings.headline)
    _write_odd(page, findings, most(_ODD))
    _write_groups(page, findings, most(_GROUPS))
    _write_ranks(page, run, findings, most(_RANKS))
    _write_lost(page, run, findings, most(_BROKEN))
    for sentence in balance(findings):
        page.part()
        page.say(sentence)


def write_files(page: Page, files: Sequence[RankFacts]) -> None:
    """Write a row for each of several files, which need not be of one run, in their order.

    A file of several devices has a row for each that holds memory.
    """
    rows = [rows_of_file(file) for file in files]
    cells = [
        (
            peak_text(row.device),
            "not known" if row.device.reserved is None else format_bytes(row.device.reserved),
            row.device.device,
            row.file.source,
            failed_text(row.device),
            "" if row.largest is None else f"{format_bytes(row.largest.bytes)} {row.largest.key}",
        )
        for row in chain.from_iterable(rows)
    ]
    headings = ("peak", "reserved", "device", "file", "out of memory", "most at the peak")
    several = any(len(each) > 1 for each in rows)
    shown = [at for at in range(len(headings)) if several or headings[at] != "device"]
    page.table(
        tuple(headings[at] for at in shown),
        [tuple(row[at] for at in shown) for row in cells],
        left=range(2, len(shown)),
    )
    if len({file.name.rank for file in files} - {None}) > 1:
        page.part()
        page.say("To compare the ranks of a run with one another, give their folder, or --name.")


def _write_odd(page: Page, findings: RunFindings, most: int) -> None:
    if not findings.odd:
        return
    page.part("Unlike the others")
    for each in findings.odd[:most]:
        style = "critical" if each.code == "failed" else "warning"
        page.say(f"{ODD_WORDS[each.code]}: {each.sentence}", style)
        for difference in each.differences[:_DIFFERENCES]:
            page.say(f"  {cut(difference_text(difference), page.width - 2)}")
        if parting := parting_text(each):
            page.say(f"  {parting}")
    page.more(len(findings.odd) - most, "odd rank")


def _write_groups(page: Page, findings: RunFindings, most: int) -> None:
    if not findings.groups:
        return
    page.part("Groups of ranks that behave alike")
    page.table(
        ("ranks", "median peak", "group"),
        [
            (format_count(len(each.rows)), format_bytes(each.allocated), each.name)
            for each in findings.groups[:most]
        ],
    )
    page.more(len(findings.groups) - most, "group")


def _write_ranks(page: Page, run: Run, findings: RunFindings, most: int) -> None:
    if not findings.rows:
        return
    rows = rows_of(run, findings)
    odd = {each.row: place for place, each in reversed(list(enumerate(findings.odd)))}
    order = sorted(range(len(rows)), key=lambda row: odd.get(row, len(odd)))
    cells = [
        (
            peak_text(row.device),
            row.versus,
            "" if row.device.reserved is None else format_bytes(row.device.reserved),
            row.name,
            row.group_name,
            failed_text(row.device),
        )
        for row in (rows[place] for place in order[:most])
    ]
    page.part("Ranks" + (", the odd ones first" if odd else ""))
    headings = ("peak", "vs. median", "reserved", "rank", "group", "out of memory")
    page.table(headings, cells, left=(3, 4, 5))
    page.more(len(rows) - most, "rank")


def _write_lost(page: Page, run: Run, findings: RunFindings, most: int) -> None:
    if missing := missing_text(findings):
        page.part()
        page.say(missing, "warning")
    if findings.broken:
        page.part("Files without figures")
        for at in findings.broken[:most]:
            page.say(f"  {run.ranks[at].source}: {run.ranks[at].error}")
        page.more(len(findings.broken) - most, "file")
