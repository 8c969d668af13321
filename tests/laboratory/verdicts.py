"""Counts how often the diagnosis names the disease of a made recording, and where it cries wolf.

The simulator makes each disease with a known cause and size, and healthy programs of many shapes.
The table says how often the right finding was made, with the right cause and the right figures,
and which findings to act on were made that are not true. Numbers only: the exit status is 0.

    python -m tests.laboratory.verdicts [--seeds 20] [--first 0] [--only leak,training] [--json]
"""

from __future__ import annotations

import argparse
import json
import pickle
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import snapreport
from dev.simulator.diseases import DISEASES, HEALTHY, SEVERITIES, Case, Expected
from snapreport.model.diagnoses import Finding

Maker = Callable[[int], Case]


@dataclass(frozen=True)
class Match:
    """How one expected finding was met."""

    expected: Expected
    found: bool
    """With at least the severity that it deserves."""
    cause: bool
    """True where none is expected."""
    figures: bool
    """All of them, to the byte; True where none are expected."""
    wrong: tuple[str, ...]
    """What was not as it should be, in words."""


@dataclass(frozen=True)
class Outcome:
    """What was made of one recording."""

    case: Case
    matches: tuple[Match, ...]
    alarms: tuple[str, ...]
    """Codes of findings that are not true of it."""
    seconds: float


@dataclass
class Row:
    """The outcomes of one maker, added up."""

    name: str
    runs: int = 0
    found: int = 0
    cause: int = 0
    figures: int = 0
    seconds: float = 0.0
    alarms: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    seeds: list[int] = field(default_factory=list)
    """Those at which anything was not as it should be."""


def diagnose(case: Case) -> tuple[Sequence[Finding], float]:
    """Return the findings about a case's device, and the seconds that the diagnosis took."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snap.pickle"
        path.write_bytes(pickle.dumps(case.snapshot))
        device = snapreport.load(path).device("cuda:0")
    began = time.perf_counter()
    return device.diagnosis.findings, time.perf_counter() - began


def judge(case: Case) -> Outcome:
    """Compare what is found in a recording with what is true of it."""
    findings, seconds = diagnose(case)
    wanted = {each.code for each in case.expected}
    alarms = [
        each.code
        for each in findings
        if each.code in case.never
        or (each.severity != "note" and each.code not in wanted | case.also)
    ]
    return Outcome(
        case=case,
        matches=tuple(_match(each, findings) for each in case.expected),
        alarms=tuple(alarms),
        seconds=seconds,
    )


def _match(expected: Expected, findings: Sequence[Finding]) -> Match:
    """Find the finding that meets an expected one best: of a code there may be several."""
    found = [each for each in findings if each.code == expected.code]
    tried = [_compare(expected, each) for each in found]
    if not tried:
        return Match(expected, False, False, False, (f"no {expected.code}",))
    return max(tried, key=lambda each: (each.found, each.cause, each.figures, -len(each.wrong)))


def _compare(expected: Expected, finding: Finding) -> Match:
    evidence = {each.label.lower(): each.value for each in finding.evidence}
    wrong = []
    severe = SEVERITIES.index(finding.severity) <= SEVERITIES.index(expected.least)
    if not severe:
        wrong.append(f"{expected.code}: a {finding.severity}")
    cause = not expected.cause or evidence.get("cause") == expected.cause
    if not cause:
        wrong.append(f"cause: {evidence.get('cause')} for {expected.cause}")
    figures = True
    for label, value in expected.figures.items():
        if label not in evidence:
            wrong.append(f"no figure {label!r}")
            figures = False
        elif evidence[label] != value:
            wrong.append(f"{label} is wrong")
            figures = False
    return Match(expected, severe, cause, figures, tuple(wrong))


def count(makers: Sequence[Maker], seeds: Sequence[int]) -> list[Row]:
    """Judge every maker's recordings of all seeds, and add up."""
    rows = []
    for make in makers:
        outcomes = [judge(make(seed)) for seed in seeds]
        row = Row(outcomes[0].case.name)
        for outcome in outcomes:
            row.runs += 1
            row.seconds = max(row.seconds, outcome.seconds)
            row.found += all(each.found for each in outcome.matches)
            row.cause += all(each.found and each.cause for each in outcome.matches)
            row.figures += all(each.found and each.figures for each in outcome.matches)
            row.alarms.update(set(outcome.alarms))
            row.wrong.update({word for each in outcome.matches for word in each.wrong})
            if outcome.alarms or any(each.wrong for each in outcome.matches):
                row.seeds.append(outcome.case.seed)
        rows.append(row)
    return rows


def _print(diseases: Sequence[Row], healthy: Sequence[Row]) -> None:
    console = Console(width=130)
    table = Table(title="Diseases: how often they are named", title_justify="left")
    for name in ("disease", "runs", "found", "right cause", "right figures", "slowest"):
        table.add_column(name, justify="left" if name == "disease" else "right")
    table.add_column("false alarms")
    table.add_column("what is wrong")
    for row in diseases:
        table.add_row(
            row.name, str(row.runs), str(row.found), str(row.cause), str(row.figures),
            f"{row.seconds * 1000:.0f} ms", _counts(row.alarms), _counts(row.wrong),
        )  # fmt: skip
    console.print(table)
    table = Table(title="Healthy programs: findings to act on", title_justify="left")
    table.add_column("program")
    for name in ("runs", "without alarm", "slowest"):
        table.add_column(name, justify="right")
    table.add_column("false alarms")
    table.add_column("seeds")
    for row in healthy:
        table.add_row(
            row.name, str(row.runs), str(row.runs - len(row.seeds)),
            f"{row.seconds * 1000:.0f} ms", _counts(row.alarms),
            ", ".join(map(str, row.seeds[:6])),
        )  # fmt: skip
    console.print(table)


def _counts(counted: Counter[str]) -> str:
    return ", ".join(f"{name} x{number}" for name, number in counted.most_common())


def _plain(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [vars(row) | {"alarms": dict(row.alarms), "wrong": dict(row.wrong)} for row in rows]


def main() -> None:
    """Print the table, or the numbers as JSON."""
    parser = argparse.ArgumentParser(description="Count hits and false alarms of the diagnosis.")
    parser.add_argument("--seeds", type=int, default=20, help="runs of each")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--only", help="makers by name, separated by commas")
    parser.add_argument("--json", action="store_true", help="numbers for scripts")
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + max(arguments.seeds, 1))
    only = arguments.only.replace("-", "_").split(",") if arguments.only else None
    diseases, healthy = (
        count([make for make in makers if only is None or make.__name__ in only], seeds)
        for makers in (DISEASES, HEALTHY)
    )
    if arguments.json:
        print(json.dumps({"diseases": _plain(diseases), "healthy": _plain(healthy)}, indent=2))
    else:
        _print(diseases, healthy)


if __name__ == "__main__":
    main()
