"""The figures of steps agree with the curve and with each other, wherever the steps lie."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from snapreport.diagnosis.answer import steps_sentence
from snapreport.diagnosis.conclude import find, find_figures
from snapreport.figures.uses import ALIKE, measure_steps
from snapreport.model.findings import DeviceFigures
from snapreport.model.roles import Iterations, Steps, runs_of
from snapreport.reporters.answers import step_rows
from snapreport.roles.steps import FEWEST, find_iterations
from tests.builders import KIB, MIB, TraceBuilder, frame, trace
from tests.corpus import corpus_files, findings_of, representative
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
    of_the_peak = [step.number for step in found.steps if step.start_event <= peak < step.end_event]
    assert found.peak == (of_the_peak[0] if of_the_peak else None)
    assert found.peak_before == (peak < found.steps[0].start_event)
    as_high = [
        step.number
        for step in found.steps
        if curve[step.start_event + 1 : step.end_event + 1].max() == curve.max()
    ]
    assert found.as_high == (as_high[0] if as_high else None)
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
    agrees(steps_sentence(found), found, peak)


def agrees(sentence: str, found: Steps, peak: int) -> None:
    """Hold what is said of steps against the table of them and the event of the peak."""
    said = _SAID.match(sentence)
    assert said is not None, sentence
    named, of, before, high, after = (
        None if text is None else int(text.replace(",", "")) for text in said.groups()
    )
    assert len(found) in (of, before, after)
    if named is not None:
        step = found.steps[named - 1]
        assert step.number == named
        assert step.start_event <= peak < step.end_event
        assert step.peak_event == peak or step.start_bytes == step.peak_bytes
    elif before is not None:
        assert peak < found.steps[0].start_event
    else:
        assert peak >= found.steps[-1].end_event
    most = max(step.peak_bytes for step in found.steps)
    if high is not None:
        assert found.steps[high - 1].peak_bytes == most
    steady = [step.number for step in found.of_kind("steady")]
    rest = sentence[said.end() :]
    alike = _ALIKE.search(rest)
    if alike is None:
        assert not steady
    elif alike[1] in ("all", "both"):
        assert len(steady) == len(found)
    elif alike[2]:
        assert len(steady) == int(alike[2].replace(",", ""))
    else:
        spans = re.findall(r"([\d,]+)(?: to ([\d,]+))?", alike[4])
        each = {
            number
            for first, last in spans
            for number in range(
                int(first.replace(",", "")), int((last or first).replace(",", "")) + 1
            )
        }
        every = {step.number for step in found.steps}
        assert set(steady) == (every - each if alike[3] else each)


_SAMPLES = sorted((Path(__file__).parents[2] / "sample_snapshots").glob("*_*.[jp][si]*"))
_SAID = re.compile(
    r"The peak is (?:in step ([\d,]+) of ([\d,]+)(?: \(.*?\))?"
    r"|before the first of ([\d,]+) steps(?: \(step ([\d,]+) gets as high\))?"
    r"|after the last of ([\d,]+) complete steps)"
)
_ALIKE = re.compile(
    r"(?:(all|both)|([\d,]+) of them|(all but )?steps? ([\d,]+(?:(?:, | and | to )[\d,]+)*))"
    r" are alike"
)


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
    assert steps_sentence(device.steps) in device.answer
    assert "The peak is in step" in device.answer
    kinds = [step.kind for step in device.steps.steps]
    if not varied:
        assert kinds[0] == "warm-up"
        assert set(kinds[1:]) == {"steady"}
        assert device.steps.steps[0].kept_bytes > device.steps.steps[1].kept_bytes


@dataclass(frozen=True)
class Loop:
    """A loop, event by event, with what comes before it and after it."""

    builder: TraceBuilder
    start: int
    """Its first event."""
    length: int
    """Events of each turn."""
    turns: int
    crosses: bool
    """Whether memory of one turn is freed in the next."""


@st.composite
def made_loops(draw: st.DrawFn) -> Loop:
    """Return a loop of any length, started after anything, with the stacks of any program."""
    each = draw(st.integers(2, draw(st.sampled_from((8, 30, 166)))))
    turns = draw(st.integers(FEWEST, max(FEWEST, min(30, 400 // each))))
    kind = draw(st.sampled_from(("a line each", "few lines", "one line", "none")))
    sizes = draw(st.lists(st.integers(1, 40), min_size=each, max_size=each, unique=each <= 20))
    lines = [{"few lines": k % 3, "one line": 0}.get(kind, k) for k in range(each)]
    # An allocation is freed before the next of a turn, at its end, or in the next turn.
    ends = draw(st.lists(st.integers(1, 3), min_size=each, max_size=each))
    crosses = draw(st.booleans())
    told = list(zip(sizes, lines if kind != "none" else [0] * each, strict=True))
    assume(not any(each % n == 0 and told == told[:n] * (each // n) for n in range(1, each)))

    def frames(line: int) -> list[dict[str, Any]]:
        return [] if kind == "none" else [frame("work", line=line), frame("main", line=1)]

    b = trace()
    for k in range(draw(st.sampled_from((0, 1, 7)))):
        b.alloc(f"weight {k}", MIB + 512 * k, frames=frames(1000 + k))
    for k in range(draw(st.sampled_from((0, 0, 1, 9)))):
        b.alloc("early", 3 * MIB + 512 * k, frames=frames(2000 + k)).free("early")
    begun, live = list[int](), list[str]()
    for turn in range(turns):
        begun.append(len(b.events))
        held = list[str]()
        for k in range(each):
            b.alloc(f"{turn % 2}.{k}", KIB * sizes[k], frames=frames(lines[k]))
            if ends[k] == 1:
                b.free(f"{turn % 2}.{k}")
            elif ends[k] == 2 or not crosses:
                held.append(f"{turn % 2}.{k}")
            else:
                live.append(f"{turn % 2}.{k}")
            if not k:
                for place in [place for place in live if place[0] != str(turn % 2)]:
                    b.free(place)
                    live.remove(place)
        for place in held:
            b.free(place)
    # The first turn has nothing of a turn before to free.
    return Loop(b, begun[0], begun[-1] - begun[-2], turns, crosses and 3 in ends)


@settings(max_examples=60, deadline=None)
@given(made_loops())
def test_a_loop_is_found_from_its_first_turn_to_its_last(loop: Loop) -> None:
    file = loop.builder.file()
    found = find_iterations(file.devices[0], file)
    assert found is not None
    bounds = found.bounds.tolist()
    inner = set(np.diff(bounds)[1:-1].tolist())
    assert inner <= {loop.length}, "each turn is as long as the loop's"
    if loop.crosses:  # where one ends and the next begins is a matter of taste
        assert loop.turns - 1 <= len(found) <= loop.turns
    else:
        assert bounds == list(
            range(loop.start, loop.start + loop.turns * loop.length + 1, loop.length)
        )
    device = find_figures(file, 0)
    assert device.steps is not None
    assert len(device.steps) == len(found)
    check(device, device.steps)


@pytest.mark.parametrize(
    "path",
    [*_SAMPLES, *representative(corpus_files())],
    ids=lambda path: path.name,
)
def test_what_is_said_of_steps_agrees_with_their_table_on_files(path: Path) -> None:
    for device in findings_of(path).devices:
        if device.steps is not None:
            check(device, device.steps)
