"""A plan reaches its target at the least cost, or says that nothing does."""

from __future__ import annotations

import pytest

from snapreport.diagnosis.advice.planning import make_plan
from snapreport.diagnosis.advice.situation import look_at
from tests.builders import MIB
from tests.unit.diagnosis.advice.test_program_changes import training


def plan_for(target: int, **options: bool) -> tuple[str, list[str], list[int]]:
    """Return whether it is reached, the changes, and the peaks expected in MiB."""
    # Where all blocks can be split, none is larger than its request.
    file = training(**options).settings(expandable_segments=True).file()
    device = file.devices[0]
    plan = make_plan(look_at(file, device), target * MIB)
    assert all(step.expected <= step.most for step in plan.steps)
    codes = [f"{step.suggestion.code}{step.suggestion.number or ''}" for step in plan.steps]
    return plan.reached, codes, [step.expected // MIB for step in plan.steps]


def test_what_fits_needs_no_plan() -> None:
    assert plan_for(22) == ("yes", [], [])


def test_the_cheapest_change_that_is_enough_comes_first() -> None:
    # Clearing gradients earlier costs nothing and frees 2 of 24.
    assert plan_for(22, clear_first=False) == ("yes", ["free-earlier"], [22])


def test_changes_multiply() -> None:
    reached, codes, peaks = plan_for(8)
    assert reached in ("yes", "expected")
    assert peaks[-1] <= 8
    assert len(codes) == 2


@pytest.mark.parametrize("target", [0, 1, 2])
def test_what_nothing_reaches_is_said(target: int) -> None:
    reached, _, peaks = plan_for(target)
    assert reached == "no"
    assert peaks[-1] > target


@pytest.mark.parametrize("target", [1, 8, 16, 22])
def test_what_is_left_adds_up_to_the_expected_peak(target: int) -> None:
    file = training().file()
    device = file.devices[0]
    plan = make_plan(look_at(file, device), target * MIB)
    assert sum(each.bytes for each in plan.left) == plan.expected <= plan.most
    assert [each.bytes for each in plan.left] == sorted(
        (each.bytes for each in plan.left), reverse=True
    )
    if target == 22:
        assert (plan.left[0].role, plan.left[0].bytes) == ("activation", 16 * MIB)
