"""The findings in the ranks of a run, each kind once, with the ranks that have it."""

from __future__ import annotations

from snapreport.ground.units import format_count
from snapreport.model.diagnoses import SEVERITIES
from snapreport.model.run.rank_facts import RankFinding, Run
from snapreport.reporters.terminal.text_tables import Page
from snapreport.reporters.words.plain_text import one_line

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
