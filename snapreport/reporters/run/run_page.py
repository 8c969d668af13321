"""A run as one HTML file that opens offline: which ranks are odd and why, and all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO

from snapreport.model.run.rank_facts import Run
from snapreport.model.run.run_findings import Group, Odd, RunFindings
from snapreport.reporters.page.payload import shown_data
from snapreport.reporters.page.terms import coded
from snapreport.reporters.page.whole_page import data_for_script, json_for_script, write_page
from snapreport.reporters.run import run_words
from snapreport.reporters.run.heat_svg import draw_heat
from snapreport.reporters.run.run_json import run_summary
from snapreport.reporters.run.run_payload import FORMAT, pack_run
from snapreport.reporters.run.run_rows import RunRow, of_commonest_kind, rows_of
from snapreport.reporters.run.run_words import (
    ODD_WORDS,
    balance,
    extent,
    heading,
    missing_text,
    parting_text,
    peak_text,
    peak_title,
)

ROWS_WITHOUT_SCRIPT = 50
"""Ranks in the HTML itself; with JavaScript the page lists them all."""
_CARDS = 8
"""Odd ranks and groups shown at once; the others are folded."""
_DIFFERENCES = 6


@dataclass(frozen=True)
class Card:
    """An odd rank."""

    odd: Odd
    row: RunRow
    word: str
    severity: str
    parting: str


class RunHtmlReporter:
    """Writes a run as one self-contained HTML page."""

    def render(
        self,
        run: Run,
        findings: RunFindings,
        out: BinaryIO,
        pages: Mapping[str, str] | None = None,
    ) -> None:
        """Write the page as UTF-8.

        Args:
            run: the run's figures.
            findings: the conclusions from them.
            out: the file to write to.
            pages: links to pages of single files, by ``RankFacts.source``.
        """
        rows = rows_of(run, findings, pages)
        cards = [_card(odd, rows[odd.row]) for odd in findings.odd]
        write_page(
            out,
            "run.html.j2",
            style="run.css",
            script="run.js",
            format=FORMAT,
            run=run,
            findings=findings,
            title=heading(run),
            extent=extent(run, findings),
            figures=_figures(rows),
            cards=cards[:_CARDS],
            more_cards=cards[_CARDS:],
            groups=_with_names(findings.groups[:_CARDS], rows),
            more_groups=_with_names(findings.groups[_CARDS:], rows),
            differences_shown=_DIFFERENCES,
            missing=missing_text(findings),
            balance=balance(findings),
            broken=[run.ranks[at] for at in findings.broken],
            picture=draw_heat(rows),
            rows=rows[:ROWS_WITHOUT_SCRIPT],
            more_rows=max(len(rows) - ROWS_WITHOUT_SCRIPT, 0),
            words=run_words,
            coded=coded,
            payload=data_for_script(pack_run(findings, rows)),
            # The payload holds the rows.
            summary=json_for_script(shown_data(run_summary(run, findings, rows))),
        )


def _card(odd: Odd, row: RunRow) -> Card:
    severity = "critical" if odd.code == "failed" else "warning"
    return Card(odd, row, ODD_WORDS[odd.code], severity, parting_text(odd))


def _with_names(groups: tuple[Group, ...], rows: list[RunRow]) -> list[tuple[Group, int, int]]:
    """Return each group with its lowest and its highest peak."""
    return [
        (
            group,
            min((rows[k].device.allocated for k in group.rows), default=0),
            max((rows[k].device.allocated for k in group.rows), default=0),
        )
        for group in groups
    ]


def _figures(rows: list[RunRow]) -> list[tuple[str, str, str]]:
    """Return the median, highest and lowest peak of the commonest kind of memory."""
    if not rows:
        return []
    ordered = sorted(of_commonest_kind(rows), key=lambda row: row.device.allocated)
    picked = {
        "Median peak": ordered[(len(ordered) - 1) // 2],
        "Highest": ordered[-1],
        "Lowest": ordered[0],
    }
    return [
        (label, peak_text(row.device), f"{row.name}: {peak_title(row.device)}")
        for label, row in picked.items()
    ]
