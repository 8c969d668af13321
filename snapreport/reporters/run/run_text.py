"""A run as text for a terminal: what is odd and why, the groups, and the ranks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from snapreport.ground.units import format_bytes, format_count
from snapreport.model.run.rank_facts import RankFacts, Run
from snapreport.model.run.run_findings import RunFindings
from snapreport.reporters.run.run_rows import rows_of, rows_of_file
from snapreport.reporters.run.run_words import (
    ODD_WORDS,
    balance,
    difference_text,
    extent,
    failed_text,
    missing_text,
    parting_text,
    peak_text,
)
from snapreport.reporters.terminal.text_tables import Page
from snapreport.reporters.words.plain_text import cut

_DIFFERENCES = 3
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
