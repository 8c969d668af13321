"""The figures of steps agree with the curve and with each other, wherever the steps lie."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapreport.diagnosis.conclude import find
from snapreport.diagnosis.step_words import steps_sentence
from snapreport.figures.step_use import ALIKE, measure_steps
from snapreport.model.findings import DeviceFigures
from snapreport.model.iterations import Iterations, Steps, runs_of
from snapreport.reporters.words.step_rows import step_rows
from snapreport.roles.repeating_step import find_iterations
from tests.programs import Plan, Program
from tests.property.simulated import Simulated, for_simulations
from tests.turns import Turns


def check(device: DeviceFigures, found: Steps) -> None:
    """Hold the figures against those that are added up one by one."""
    rows, curve = device.history.allocations, device.curves["allocated"]
    for one, two in itertools.pairwise(found.steps):
        assert (one.end_event, one.end_bytes) == (two.start_event, two.start_bytes)
    for step in found.steps:
        begin, end = step.start_event, step.end_event
        inside = curve[begin : end + 1]
        assert (step.start_bytes, step.end_bytes) == (inside[0], inside[-1])
        assert step.peak_bytes == inside.max()
        assert step.peak_event == begin - 1 + int(inside.argmax())
        made = (begin <= rows.alloc_event) & (rows.alloc_event < end)
        freed = (begin <= rows.free_requested_event) & (rows.free_requested_event < end)
        assert step.allocations == made.sum()
        assert step.allocated_bytes == rows.block_size[made].sum()
        assert step.kept_bytes == rows.block_size[made & (rows.free_requested_event >= end)].sum()
        assert step.change == step.allocated_bytes - rows.block_size[freed].sum()
    peak = int(curve.argmax()) - 1
    as_high = [
        step.number
        for step in found.steps
        if curve[step.start_event + 1 : step.end_event + 1].max() == curve.max()
    ]
    assert found.peak == (as_high[0] if as_high else None)
    assert found.peak_before == (not as_high and peak < found.steps[0].start_event)
    steady = found.of_kind("steady")
    for name in ("rise", "allocated_bytes"):
        values = [
            step.peak_bytes - step.start_bytes if name == "rise" else step.allocated_bytes
            for step in steady
        ]
        assert not values or max(values) <= min(values) * (1 + ALIKE)
    assert sum(map(len, runs_of(found.steps))) == len(found)
    shown, left = step_rows(found, 3)
    assert len(shown) <= 4
    assert 0 <= left < len(found)
    assert steps_sentence(found).startswith("The peak is ")


@for_simulations(60)
def test_steps_add_up_wherever_they_lie(simulation: Simulated) -> None:
    for device in simulation.findings.devices:
        events = device.history.events
        for count in (1, 3, 7):
            bounds = np.unique(np.linspace(events // 9, events - events // 7, count + 1, dtype=int))
            if len(bounds) > 1:
                names = tuple(f"step {i}" for i in range(1, len(bounds)))
                turns = Iterations("stages", 1, bounds[:-1], int(bounds[-1]), names, "by hand")
                check(device, measure_steps(device.history, turns, device.curves["allocated"]))


@st.composite
def loops(draw: st.DrawFn) -> tuple[Turns, int]:
    """Return a loop and the number of its optimizers."""
    turns = Turns(
        layers=draw(st.integers(1, 5)),
        work=draw(st.integers(0, 40)),
        clears=draw(st.sampled_from(("first", "late", "last"))),
        batch=draw(st.booleans()),
        stages=draw(st.booleans()),
    ).build()
    optimizers = draw(st.sampled_from((("AdamW",), ("SGD", "AdamW"))))
    for _ in range(draw(st.integers(2 if turns.stages else 8, 12))):
        turns.train(optimizers)
    return turns, len(optimizers)


@settings(max_examples=80, deadline=None)
@given(loops())
def test_no_step_is_parted_within_a_pass(loop: tuple[Turns, int]) -> None:
    turns, optimizers = loop
    file = turns.builder.file()
    found = find_iterations(file.devices[0], file)
    if found is None:  # a turn may be too short, or too much the same, to be told without stages
        assert not turns.stages
        return
    bounds = found.bounds
    assert (np.diff(bounds) > 0).all()
    assert bounds[0] >= 0
    assert bounds[-1] <= file.devices[0].events
    for bound in bounds.tolist():
        assert not any(first < bound < end for first, end in turns.steps)
        assert not any(first < bound <= last for first, last in turns.backward)
    ends = [end for _, end in turns.steps[optimizers - 1 :: optimizers]]
    if turns.stages:  # they cover the loop: a bound after each, and before the next forward pass
        assert bounds[0] == 0
        assert len(bounds) == len(ends) + 1
    following = np.append(turns.forward, file.devices[0].events)
    for bound in bounds[1:].tolist():
        end = max(end for end in ends if end <= bound)
        assert bound <= following[np.searchsorted(following, end)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("stages", [True, False])
@pytest.mark.parametrize("varied", [True, False])
def test_a_healthy_training_has_a_first_step_and_steady_ones(
    seed: int, stages: bool, varied: bool
) -> None:
    program = Program(Plan(seed=seed, stages=stages, varied=varied)).run()
    (device,) = find(program.history()).devices
    assert device.steps is not None
    check(device, device.steps)
    assert "The peak is in step" in device.answer
    kinds = [step.kind for step in device.steps.steps]
    if not varied:
        assert kinds[0] == "warm-up"
        assert set(kinds[1:]) == {"steady"}
        assert device.steps.steps[0].kept_bytes > device.steps.steps[1].kept_bytes
