"""Holds what was found of a made run against what was planted in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from snapreport.diagnosis.ranks.holders import main_cause
from snapreport.model.run import Run, RunFindings

_CODES = {"heavy rank": "heavier", "failure": "failed", "leak": "growth"}


def mistakes(truth: Mapping[str, Any], run: Run, findings: RunFindings) -> list[str]:
    """Return what was not found, is told wrongly, or was found though nothing is there.

    Args:
        truth: as ``Plan.truth()`` has it, or the file that was written with a run.
        run: the run.
        findings: of it.
    """
    planted = truth["planted"]
    rank_of = [run.ranks[place].name.rank for place, _ in findings.rows]
    groups = [{rank_of[row] for row in group.rows} for group in findings.groups]
    absent = {rank for p in planted if p["what"] in ("missing", "broken") for rank in p["ranks"]}
    expected = {
        (rank, _CODES[p["what"]]): p for p in planted if p["what"] in _CODES for rank in p["ranks"]
    }
    wrong = []
    for odd in findings.odd:
        rank = rank_of[odd.row]
        one = expected.pop((rank, odd.code), None)
        if one is None:
            wrong.append(f"called odd for nothing: {odd.sentence}")
            continue
        if odd.group is None or rank not in groups[odd.group]:
            wrong.append(f"in no group: {odd.sentence}")
        told = (
            [run.ranks[findings.rows[odd.row][0]].devices[0].failed[0].site]
            if odd.code == ("failed")
            else [d.key for d in odd.differences if d.kind == "site" and d.key][:1]
        )
        if one["site"] not in told:
            wrong.append(f"{one['site']} is the cause, not as told: {odd.sentence}")
    wrong += [f"not found: {code} of rank {rank}" for rank, code in expected]
    for one in planted:
        ranks = set(one["ranks"])
        if one["what"] == "heavy stage" and (ranks - absent) not in groups:
            wrong.append(f"no group: {one['group']}")
        elif one["what"] == "heavy stage":
            group = findings.groups[groups.index(ranks - absent)]
            cause = main_cause(group.differences, 1)
            if cause is None or cause.key != one["site"]:
                wrong.append(f"{one['site']} is the cause, not as told: {group.sentence}")
            if findings.imbalances and truth.get("known_layout") and group.name != one["group"]:
                wrong.append(f"{one['group']} is called {group.name}")
        elif one["what"] == "missing" and set(findings.missing) != ranks:
            wrong.append(f"missing: {findings.missing}")
        elif one["what"] == "broken":
            broken = {run.ranks[place].name.rank for place in findings.broken}
            if broken != ranks:
                wrong.append(f"broken: {broken}")
        elif one["what"] == "failure" and (
            findings.first_failure is None or rank_of[findings.first_failure[0]] not in ranks
        ):
            wrong.append(f"first failure: {findings.first_failure}")
    return wrong
