"""The memory of each step of a program, by hand: which are alike, and which the peak is in."""

from __future__ import annotations

import numpy as np
import pytest

from snapreport.diagnosis.conclude import find_figures
from snapreport.figures.curves import find_curves
from snapreport.figures.uses import _steady, find_steps, measure_steps
from snapreport.model.roles import Iterations, Steps, runs_of, step_range
from tests.builders import KIB, MIB, TraceBuilder, trace


def step(builder: TraceBuilder, number: int, *, state: bool = False, keep: int = 0) -> None:
    """Six events: an activation of 4 MiB, a gradient of 1 MiB."""
    builder.start(f"ProfilerStep#{number}", 10 * len(builder.events) - 5)
    builder.alloc(f"activation{number}", 4 * MIB).alloc(f"gradient{number}", MIB)
    builder.free(f"activation{number}")
    if state:
        builder.alloc("state", 2 * MIB)
    if keep:
        builder.alloc(f"kept{number}", keep)
    builder.free(f"gradient{number}")
    builder.end(f"ProfilerStep#{number}", 10 * len(builder.events) - 5)


def steps_of(builder: TraceBuilder) -> Steps:
    file = builder.file()
    found = find_figures(file, 0).steps
    assert found is not None
    return found


def training(*, keep: int = 0) -> TraceBuilder:
    builder = trace().alloc("weights", 8 * MIB)
    for number in range(4):
        step(builder, number, state=number == 0, keep=keep)
    return builder


def test_each_step_has_what_it_began_with_its_peak_and_what_it_keeps() -> None:
    found = steps_of(training())
    rows = [
        (each.start_bytes, each.peak_bytes, each.end_bytes, each.kept_bytes, each.allocated_bytes)
        for each in found.steps
    ]
    assert rows[0] == (8 * MIB, 13 * MIB, 10 * MIB, 2 * MIB, 7 * MIB)
    assert rows[1:] == [(10 * MIB, 15 * MIB, 10 * MIB, 0, 5 * MIB)] * 3
    assert [each.name for each in found.steps] == [f"ProfilerStep#{i}" for i in range(4)]
    assert [each.allocations for each in found.steps] == [3, 2, 2, 2]
    assert [each.change for each in found.steps] == [2 * MIB, 0, 0, 0]


def test_steps_follow_one_another_and_their_peaks_are_first_attained_there() -> None:
    # Weights at 0; allocs at 1 and 2, a free at 3 and 4, state at 5, a free at 6 and 7; and so on.
    found = steps_of(training())
    assert [(each.start_event, each.end_event) for each in found.steps] == [
        (1, 8), (8, 14), (14, 20), (20, 26),
    ]  # fmt: skip
    assert [each.peak_event for each in found.steps] == [2, 9, 15, 21]


def test_the_step_that_made_the_state_is_a_warm_up_and_the_others_are_steady() -> None:
    found = steps_of(training())
    assert [each.kind for each in found.steps] == ["warm-up", "steady", "steady", "steady"]
    assert found.peak == 2
    assert not found.peak_before


def test_steps_that_all_leak_as_much_are_alike_though_their_peaks_rise() -> None:
    found = steps_of(training(keep=64 * KIB))
    assert [each.kind for each in found.steps] == ["warm-up", "steady", "steady", "steady"]
    assert [each.kept_bytes for each in found.steps] == [2 * MIB + 64 * KIB, *[64 * KIB] * 3]
    assert found.peak == 4


def test_a_peak_before_or_after_the_steps_is_in_none_of_them() -> None:
    before = trace().alloc("loading", 99 * MIB).free("loading")
    after = trace()
    for number in range(3):
        step(before, number)
        step(after, number)
    after.alloc("saving", 99 * MIB)
    early, late = steps_of(before), steps_of(after)
    assert (early.peak, early.peak_before) == (None, True)
    assert (late.peak, late.peak_before) == (None, False)


def test_a_peak_before_the_steps_is_in_none_though_one_gets_as_high() -> None:
    builder = trace().alloc("loading", 5 * MIB).free("loading")
    for number in range(3):
        step(builder, number)
    found = steps_of(builder)
    assert (found.peak, found.peak_before, found.as_high) == (None, True, 1)


def alike(rise: list[int], made: list[int] | None = None, change: list[int] | None = None) -> str:
    columns = (rise, made or [9] * len(rise), change or [0] * len(rise))
    found = _steady(*(np.array(column, np.int64) for column in columns))
    return "".join("s" if each else "-" for each in found.tolist())


@pytest.mark.parametrize(
    ("rise", "expected"),
    [
        ([100, 200, 200, 200], "-sss"),
        ([200, 200, 500, 200], "ss-s"),
        ([1000, 1009, 1010, 1021], "sss-"),  # within 1 % of the least of them
        ([100, 200], "--"),
        ([200, 200], "ss"),
        ([100, 200, 300, 300, 500, 600], "------"),  # two of five are too few
        ([0, 0, 0], "sss"),
    ],
)
def test_the_most_steps_that_are_alike_are_steady(rise: list[int], expected: str) -> None:
    assert alike(rise) == expected


def test_steps_that_allocate_or_keep_something_else_are_not_alike() -> None:
    assert alike([100] * 4, made=[900, 500, 500, 500]) == "-sss"
    assert alike([100] * 4, change=[50, 0, 1, 0]) == "-sss"


def test_what_the_last_step_keeps_is_not_held_against_it() -> None:
    # Gradients that the next zero_grad() would have freed.
    assert alike([100] * 4, change=[50, 0, 0, 25]) == "-sss"


def test_a_step_without_events_of_this_device_has_figures_too() -> None:
    history = trace().alloc("a", MIB).free("a").history()
    turns = Iterations("stages", 1, np.array([0, 1]), 2, ("x", "y"), "by hand")
    found = measure_steps(history, turns, find_curves(history)["allocated"])
    assert [(each.peak_bytes, each.kept_bytes) for each in found.steps] == [(MIB, MIB), (MIB, 0)]
    assert found.steps[1].peak_event == 0, "what it began with"


def test_steady_steps_in_a_row_are_one_run() -> None:
    found = steps_of(training())
    assert [step_range(run) for run in runs_of(found.steps)] == ["1", "2 to 4"]
    assert step_range(found.steps[1:3]) == "2 and 3"


def test_no_repetition_is_no_steps() -> None:
    file = trace().alloc("a", MIB).free("a").file()
    device = file.devices[0]
    assert find_steps(device, file, find_curves(device)["allocated"]) is None
