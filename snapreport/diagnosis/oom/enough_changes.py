"""The cheapest changes to the program with which a request that failed would have had room."""

from __future__ import annotations

from collections.abc import Iterator

from snapreport.diagnosis.advice.planning import make_plan
from snapreport.diagnosis.advice.situation import look_at, only_at
from snapreport.diagnosis.oom.verdict_types import OomVerdict
from snapreport.ground.units import format_bytes, list_of
from snapreport.model.diagnoses import Suggestion
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import History


def enough_changes(
    tables: History, device: DeviceFigures, verdict: OomVerdict
) -> Iterator[Suggestion]:
    """Yield the changes that would have freed what was missing, where some are expected to.

    Only of memory that was truly full: where it lay in pieces, less of it live need not help.

    Args:
        verdict: on the request.
    """
    if verdict.cause != "full" or not device.recorded:
        return
    missing = verdict.missing + verdict.needed_most - verdict.needed
    situation = look_at(tables, device.history, device.curves["allocated"])
    there = only_at(situation, verdict.event)
    plan = make_plan(there, there.peak - missing)
    if plan.reached == "no" or not plan.steps:
        return
    offered = [step.suggestion for step in plan.steps]
    names = [f"{each.code} ({each.number} parts)" if each.number else each.code for each in offered]
    which = f"{list_of(names)} {'together' if len(names) > 1 else 'alone'}"
    yield Suggestion(
        "plan",
        f"The cheapest changes that make room for this request: {which}. About"
        f" {format_bytes(plan.peak - plan.expected)} less would have been live when it failed;"
        f" {format_bytes(missing)} were missing. Other moments may need more: snapreport plan"
        " --fit SIZE looks at all of them.",
        "\n".join(each.change for each in offered if each.change),
    )
