"""Leaks with their true size, and no leak where something only looks like one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dev.simulator import AllocatorSettings
from dev.simulator.training import Transformer
from snapreport.diagnosis.conclude import find
from snapreport.roles.steps import find_iterations
from tests.builders import MIB, trace
from tests.programs import (
    Each,
    Plan,
    Program,
    caches,
    clears_most,
    collects,
    figures,
    found,
    holds_over,
    keeps_last,
    leaks,
    of_code,
)
from tests.thorough import some

SEEDS = some(range(4), 2)


def codes(plan: Plan) -> list[str]:
    return sorted(each.code for each in found(Program(plan).run().analysed(), "growth"))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("size", [600, 100_000, 3 * MIB])
@pytest.mark.parametrize("stages", [True, False])
def test_a_leak_is_found_with_its_bytes_in_each_step(seed: int, size: int, stages: bool) -> None:
    device = Program(Plan(seed, stages=stages, each=leaks(size))).run().analysed()
    leak = of_code(device, "leak")
    said = figures(leak)
    assert said["requested per step"] == size
    blocks = device.history.allocations.block_size[device.history.allocations.size == size]
    assert said["growth per step"] == int(blocks[0])
    assert said["allocations per step"] == 1
    assert leak.subject == "log  metrics.py:12"
    assert said["grown in the recording"] == leak.bytes
    assert leak.suggestions[0].frees is None  # what was added is not what the peak falls by
    assert leak.id.startswith("leak/")


def test_a_small_leak_is_a_note_and_a_large_one_a_warning() -> None:
    small = Program(Plan(each=leaks(600))).run().analysed()
    large = Program(Plan(each=leaks(MIB))).run().analysed()
    assert of_code(small, "leak").severity == "note"
    assert of_code(large, "leak").severity == "warning"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_leak_among_batches_of_varying_length_keeps_its_size(seed: int) -> None:
    plan = Plan(seed, 16, stages=False, varied=True, each=leaks(MIB))
    assert figures(of_code(Program(plan).run().analysed(), "leak"))["requested per step"] == MIB


def test_a_leak_in_every_third_step_is_said_by_the_step() -> None:
    device = Program(Plan(iterations=24, each=leaks(3 * MIB, every=3))).run().analysed()
    rate = figures(of_code(device, "leak"))["growth per step"]
    assert isinstance(rate, int)
    assert 0.8 * MIB < rate < 1.3 * MIB


def test_a_leak_that_begins_late_says_since_when() -> None:
    file = Program(Plan(iterations=12, each=leaks(MIB, since=6))).run().history()
    device = find(file).devices[0]
    iterations = find_iterations(device.history, file)
    said = figures(of_code(device, "leak"))
    assert said["steps that grew"] == 6
    assert iterations is not None
    assert said["grows since event"] == int(iterations.starts[6])


def test_many_leaking_sites_are_one_finding_with_a_table() -> None:
    def each(program: Program, _: int) -> None:
        for line in range(20, 26):
            program.keep(MIB, line)

    device = Program(Plan(each=each)).run().analysed()
    leak = of_code(device, "leak")
    assert figures(leak)["growth per step"] == 6 * MIB
    assert len(leak.tables[0].rows) == 6


def test_two_leaking_sites_are_two_findings() -> None:
    def each(program: Program, _: int) -> None:
        program.keep(MIB, 20)
        program.keep(2 * MIB, 21)

    assert codes(Plan(each=each)).count("leak") == 2


HEALTHY = {
    "plain": Plan(),
    "without stages": Plan(stages=False),
    "recorded late": Plan(late=True, stages=False),
    "varied": Plan(iterations=30, varied=True),
    "varied without stages": Plan(iterations=30, varied=True, stages=False),
    "two steps": Plan(iterations=2),
    "five steps": Plan(iterations=5),
    "no stacks": Plan(context=None),
    "neither": Plan(context=None, stages=False),
    "large": Plan(iterations=6, model=Transformer()),
    "expandable": Plan(settings=AllocatorSettings(expandable_segments=True)),
}


@pytest.mark.parametrize("seed", some(range(2), 1))
@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_training_raises_no_alarm(name: str, seed: int) -> None:
    device = Program(replace(HEALTHY[name], seed=seed)).run().analysed()
    alarms = [
        each.id for each in found(device, "growth", "churn", "allocator") if each.severity != "note"
    ]
    assert alarms == []
    assert not [each for each in found(device, "growth") if each.code == "leak"]


@pytest.mark.parametrize("stages", [True, False])
def test_a_cache_that_fills_in_the_first_steps_is_no_leak(stages: bool) -> None:
    device = Program(Plan(iterations=20, stages=stages, each=caches(5))).run().analysed()
    assert not [each for each in found(device, "growth") if each.code == "leak"]
    cache = of_code(device, "settling-cache")
    assert cache.severity == "note"
    assert cache.tables[0].rows[0][0] == "log  metrics.py:30"


def test_optimizer_state_is_named_as_such() -> None:
    device = Program(Plan()).run().analysed()
    state = of_code(device, "optimizer-state")
    model = Plan().model
    wanted = sum(2 * size for _, size in model.parameters())
    assert wanted <= state.bytes <= wanted + 2 * 512 * len(model.parameters())


def test_a_result_held_over_says_how_far_the_peak_would_fall() -> None:
    device = Program(Plan(each=holds_over(20 * MIB))).run().analysed()
    held = of_code(device, "outlives-step")
    assert held.severity == "warning"
    assert held.suggestions[0].expected == 20 * MIB
    assert figures(held)["live between steps"] == 20 * MIB


def test_a_key_value_cache_that_is_freed_is_no_leak() -> None:
    program = Program(Plan(stages=False, iterations=12, each=leaks(300_000))).run_inference(
        free=True
    )
    assert [each.code for each in found(program.analysed(), "growth")] in ([], ["freed-later"])


def test_a_key_value_cache_that_is_not_freed_yet_is_a_note() -> None:
    def each(program: Program, _: int) -> None:
        with program.call("update", "transformers/cache_utils.py", 99):
            program.kept.append(program.new(3 * MIB, "at::_ops::cat::call"))

    device = Program(Plan(stages=False, iterations=12, each=each)).run_inference().analysed()
    assert [(f.code, f.severity) for f in found(device, "growth")] == [("growing-buffer", "note")]


def test_a_tensor_that_is_appended_to_is_a_growing_buffer() -> None:
    def each(program: Program, number: int) -> None:
        with program.call("collect", "eval.py", 7):
            larger = program.new((number + 1) * MIB, "at::_ops::cat::call")
        program.drop(*program.kept)
        program.kept = [larger]

    device = Program(Plan(stages=False, iterations=12, each=each)).run_inference().analysed()
    assert of_code(device, "growing-buffer").severity == "note"
    assert not [each for each in found(device, "growth") if each.code == "leak"]


def window(size: int) -> Each:
    """Keep the last results only."""

    def each(program: Program, _: int) -> None:
        program.keep(MIB)
        if len(program.kept) > size:
            program.drop(program.kept.pop(0))

    return each


@pytest.mark.parametrize("late", [True, False])
def test_a_buffer_of_the_last_results_is_no_leak(late: bool) -> None:
    plan = Plan(iterations=20, stages=False, late=late, each=window(4))
    assert "leak" not in codes(plan)


def test_a_leak_that_fills_the_device_is_critical() -> None:
    device = Program(Plan(iterations=60, each=leaks(40 * MIB), capacity=700 * MIB)).run().analysed()
    assert device.ooms
    assert of_code(device, "leak").severity == "critical"


def test_without_a_repeating_step_nothing_is_said_of_growth() -> None:
    builder = trace()
    for number in range(40):
        builder.alloc(f"{number}", MIB * (1 + number % 7))
    assert not found(find(builder.file()).devices[0], "growth")


@pytest.mark.parametrize("count", [3, 5, 8])
@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize("stages", [True, False])
def test_what_only_the_last_iterations_made_is_no_leak(
    count: int, late: bool, stages: bool
) -> None:
    plan = Plan(iterations=30, late=late, stages=stages, each=keeps_last(count, 2 * MIB))
    assert "leak" not in codes(plan)


@pytest.mark.parametrize("iterations", [50, 51, 54, 58])
@pytest.mark.parametrize("stages", [True, False])
def test_a_leak_now_and_then_has_its_bytes_wherever_the_recording_ends(
    iterations: int, stages: bool
) -> None:
    plan = Plan(iterations=iterations, stages=stages, each=leaks(4 * MIB, every=8))
    said = figures(of_code(Program(plan).run().analysed(), "leak"))
    assert said["growth per step"] == 4 * MIB // 8


def test_more_of_the_same_size_are_no_buffers_that_grow() -> None:
    plan = Plan(iterations=40, each=clears_most(5, 2 * MIB))
    leak = of_code(Program(plan).run().analysed(), "leak")
    assert figures(leak)["requested per step"] == 2 * MIB // 5


@pytest.mark.parametrize("iterations", [19, 27, 36])
@pytest.mark.parametrize("stages", [True, False])
def test_what_was_dropped_once_before_is_collected_and_no_leak(
    iterations: int, stages: bool
) -> None:
    plan = Plan(iterations=iterations, stages=stages, each=collects(10, 2 * MIB))
    assert "leak" not in codes(plan)
