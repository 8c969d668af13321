"""The cheapest combination of changes that keeps the peak below a target.

A combination is tried on the history, as a single change is; the shares that several changes take
from one block multiply. A combination sure to reach the target is preferred to one expected to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from snapreport.diagnosis.advice.edits import Change, sizes_left
from snapreport.diagnosis.advice.program_advice import as_suggestion
from snapreport.diagnosis.advice.program_changes import find_changes
from snapreport.diagnosis.advice.situation import Situation, only_at
from snapreport.model.roles import ROLES
from snapreport.model.what_if import MOST_CHANGES, Plan, PlanStep, RoleLeft
from snapreport.native.sorting import sum_groups

_PARTS, _CHUNKS = (2, 4, 8, 16), (8,)
_WORTH = 0.01
"""A change that lowers the peak by less than this part of it is left out of a plan."""
_COMPARED = 8
"""If no combination reaches the target, how many of them are tried over all events."""
_EFFORT = {
    "leak": 1,
    "free-earlier": 1,
    "inference-mode": 1,
    "fused-optimizer": 1,
    "autocast-cache": 1,
    "low-precision-weights": 4,
    "attention-kernel": 2,
    "chunked-loss": 4,
    "checkpoint": 8,
    "accumulate": 8,
    "shard-state": 6,
    "offload-activations": 10,
    "low-bit-state": 12,
    "offload": 12,
    "smaller-batch": 16,
}
"""What a change costs in work, time and accuracy, only to rank the changes; no unit."""

_INSTEAD = {
    "accumulate": "smaller-batch",
    "offload-activations": "checkpoint",
    "offload": "low-bit-state",
    "low-precision-weights": "autocast-cache",
}
"""Changes that exclude another: a batch is cut in only one way."""


def make_plan(situation: Situation, target: int) -> Plan:
    """Find the cheapest changes that bring the allocated peak down to a target.

    Where no combination reaches it, the plan is the one with the lowest peak.

    Args:
        target: in bytes.
    """
    peak = situation.peak
    if peak <= target:
        return _plan(situation, target, (), "yes")
    found = [
        change
        for change in find_changes(situation, _PARTS, _CHUNKS)
        if peak - situation.left(change.expected) >= _WORTH * peak
    ]
    # Trying a combination at the recorded peak alone is quick, and what exceeds the target there
    # exceeds it.
    there = only_at(situation, situation.event)
    expected: Sequence[Change] | None = None
    too_much: list[tuple[int, Sequence[Change]]] = []
    for chosen in sorted(_combinations(found), key=_cost):
        if expected is None:
            edits = [each.expected for each in chosen]
            left = there.left(*edits)
            if left <= target:
                left = situation.left(*edits)
            if left > target:
                too_much.append((left, chosen))
                continue
            expected = chosen
        if situation.at_most(chosen) <= target:
            return _plan(situation, target, chosen, "yes")
    if expected is not None:
        return _plan(situation, target, expected, "expected")
    lowest = sorted(too_much, key=lambda each: each[0])[:_COMPARED]
    tried = [(situation.left(*(each.expected for each in chosen)), chosen) for _, chosen in lowest]
    best = min(tried, key=lambda each: each[0], default=(peak, ()))[1]
    return _plan(situation, target, best, "no")


def _combinations(found: Sequence[Change]) -> Iterator[tuple[Change, ...]]:
    """Yield all combinations of at most MOST_CHANGES changes, with at most one of each kind."""
    kinds: dict[str, list[Change | None]] = {}
    for change in found:
        kind = _INSTEAD.get(change.code, change.code)
        kinds.setdefault(f"{kind} {change.about}", [None]).append(change)
    for choice in product(*kinds.values()):
        chosen = tuple(each for each in choice if each is not None)
        if 0 < len(chosen) <= MOST_CHANGES:
            yield chosen


def _cost(chosen: Sequence[Change]) -> tuple[int, int]:
    effort = sum(_EFFORT[each.code] + each.number.bit_length() for each in chosen)
    return effort, len(chosen)


def _plan(situation: Situation, target: int, chosen: Sequence[Change], reached: str) -> Plan:
    edits = [edit for each in chosen for edit in each.expected]
    event = situation.edited(edits)[1]
    sizes = sizes_left(situation.history, edits, event)
    held = sum_groups(situation.roles.role, sizes, len(ROLES))
    left = sorted(zip(held.tolist(), ROLES, strict=True), reverse=True)
    return Plan(
        target,
        situation.peak,
        _steps(situation, chosen),
        reached,
        tuple(RoleLeft(role, size) for size, role in left if size),
    )


def _steps(situation: Situation, chosen: Sequence[Change]) -> tuple[PlanStep, ...]:
    in_order = sorted(chosen, key=lambda each: situation.left(each.expected))
    steps = []
    for i, change in enumerate(in_order):
        so_far = in_order[: i + 1]
        expected = situation.left(*(each.expected for each in so_far))
        most = max(situation.at_most(so_far), expected)
        steps.append(PlanStep(as_suggestion(situation, change), expected, most))
    return tuple(steps)
