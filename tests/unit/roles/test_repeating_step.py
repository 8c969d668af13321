"""The program's repeating step: from stages, from the rhythm of allocations, or honestly none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from snapreport.model.history import History
from snapreport.model.roles import Iterations
from snapreport.roles.passes import BACKWARD, Passes
from snapreport.roles.steps import Period, _from_period, find_iterations
from tests.builders import FIRST_US, MIB, TraceBuilder, frame, trace
from tests.clock import took
from tests.programs import TINY, Plan, Program
from tests.turns import Turns


def iterations(builder: TraceBuilder) -> Iterations | None:
    return iterations_in(builder.file())


def iterations_in(file: History) -> Iterations | None:
    return find_iterations(file.devices[0], file)


def loop(turns: int, *, jitter: int = 0) -> TraceBuilder:
    """Twelve events a turn, ten microseconds apart: four allocations, then their frees."""
    builder = trace()
    for turn in range(turns):
        for place in range(4):
            frames = [frame("work", line=place), frame("main", line=1)]
            builder.alloc(f"{turn}.{place}", MIB, frames=frames)
        for extra in range(jitter * (turn % 2)):
            builder.alloc(f"{turn}+{extra}", MIB, frames=[frame("extra")]).free(f"{turn}+{extra}")
        for place in range(4):
            builder.free(f"{turn}.{place}")
    return builder


def test_profiler_steps_are_believed_and_named() -> None:
    builder = loop(3)  # twelve events a turn
    for turn in range(3):
        builder.start(f"ProfilerStep#{turn + 7}", 120 * turn - 5).end(
            f"ProfilerStep#{turn + 7}", 120 * turn + 115
        )
    found = iterations(builder)
    assert found is not None
    assert found.source == "profiler"
    assert found.confidence == 1
    assert found.names == ("ProfilerStep#7", "ProfilerStep#8", "ProfilerStep#9")
    assert found.starts.tolist() == [0, 12, 24]
    assert found.end == 36


def test_a_profiler_step_still_running_at_the_end_is_no_complete_turn() -> None:
    builder = loop(3)
    for turn in range(3):
        builder.start(f"ProfilerStep#{turn}", 120 * turn - 5)
        if turn < 2:
            builder.end(f"ProfilerStep#{turn}", 120 * turn + 115)
    found = iterations(builder)
    assert found is not None
    assert found.starts.tolist() == [0, 12]
    assert found.end == 24


def test_a_turn_ends_with_the_optimizer_however_often_backward_ran() -> None:
    builder = loop(8)
    for turn in range(1, 8, 2):  # two turns of the loop for each step of the optimizer
        name = "Optimizer.step#AdamW.step"
        builder.start(name, 120 * turn + 90).end(name, 120 * turn + 115)
    found = iterations(builder)
    assert found is not None
    assert found.source == "optimizer"
    assert found.bounds.tolist() == [0, 24, 48, 72, 96]


def test_two_optimizers_of_one_step_are_one_turn() -> None:
    builder = loop(4)
    for turn in range(4):
        for at in (70, 90):
            name = "Optimizer.step#SGD.step"
            builder.start(name, 120 * turn + at).end(name, 120 * turn + at + 15)
    found = iterations(builder)
    assert found is not None
    assert len(found) == 4


def test_the_pattern_of_allocations_is_found_without_stages() -> None:
    found = iterations(loop(9))
    assert found is not None
    assert found.source == "pattern"
    assert 0.8 < found.confidence < 1


def test_a_pattern_begins_with_the_first_turn_and_ends_with_the_last() -> None:
    found = iterations(loop(9))
    assert found is not None
    assert found.bounds.tolist() == list(range(0, 109, 12))
    assert "the same 4 come 9 times in a row" in found.how


def test_what_comes_before_a_loop_is_no_turn_and_a_cut_turn_at_its_end_is_none() -> None:
    builder = trace()
    for number in range(5):
        builder.alloc(f"load {number}", MIB, frames=[frame("load", line=number)])
    begin = len(builder.events)
    for turn in range(8):
        for place in range(6):  # 18 events a turn
            builder.alloc(f"{turn}.{place}", MIB, frames=[frame("work", line=place), frame("main")])
            if (turn, place) == (7, 3):
                break
            builder.free(f"{turn}.{place}")
    found = iterations(builder)
    assert found is not None
    assert found.bounds.tolist() == list(range(begin, begin + 7 * 18 + 1, 18))


def test_one_line_that_makes_several_sizes_in_each_turn_is_a_pattern() -> None:
    builder = trace()
    for turn in range(7):
        for size in (3, 1, 4, 1, 5, 9, 2, 6):  # 24 events a turn
            name = f"{turn}.{size}"
            builder.alloc(name, size * MIB, frames=[frame("work"), frame("main")]).free(name)
    found = iterations(builder)
    assert found is not None
    assert found.bounds.tolist() == list(range(0, 7 * 24 + 1, 24))


def test_memory_that_grows_does_not_move_the_bounds_of_a_pattern() -> None:
    builder = trace().alloc("weights", MIB, frames=[frame("build")])
    for turn in range(8):
        for place in range(4):
            stack = [frame("work", line=place), frame("main")]
            builder.alloc(f"{turn}.{place}", MIB, frames=stack)
        for place in (0, 2, 3):  # one is kept
            builder.free(f"{turn}.{place}")
    found = iterations(builder)
    assert found is not None
    assert found.bounds.tolist() == list(range(1, 8 * 10 + 2, 10))


def test_turns_of_uneven_length_are_found_with_no_more_confidence() -> None:
    even, uneven = iterations(loop(12)), iterations(loop(12, jitter=1))
    assert even is not None
    assert uneven is not None
    assert uneven.confidence <= even.confidence


@pytest.mark.parametrize("turns", [1, 2, 4])
def test_too_few_turns_are_no_pattern(turns: int) -> None:
    assert iterations(loop(turns)) is None


def test_the_layers_of_a_model_are_no_steps_of_a_program() -> None:
    builder = trace()
    call = frame("_call_impl", "torch/nn/modules/module.py", 1786)
    for layer in range(24):
        for place in range(4):
            inner = [frame("forward", "block.py", place), call]
            outer = [frame("forward", "model.py", 63), call, frame("main", "serve.py")]
            builder.alloc(f"{layer}.{place}", MIB, frames=[*inner, *outer])
    assert iterations(builder) is None


def test_a_loop_that_does_nothing_but_call_a_model_is_one() -> None:
    builder = trace()
    call = frame("_call_impl", "torch/nn/modules/module.py", 1786)
    for turn in range(8):
        for line in (61, 63, 65):
            frames = [frame("forward", "model.py", line), call, frame("main", "serve.py")]
            builder.alloc(f"{turn}.{line}", MIB, frames=frames)
        for line in (61, 63, 65):
            builder.free(f"{turn}.{line}")
    found = iterations(builder)
    assert found is not None
    assert found.source == "pattern"


def test_events_without_stacks_and_without_a_rhythm_show_nothing() -> None:
    builder = trace()
    for number in range(60):
        builder.alloc(f"{number}", 512 * (1 + number * number % 37))
    assert iterations(builder) is None
    assert iterations(trace()) is None
    assert FIRST_US  # times do not matter: the index is the clock


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("varied", [False, True])
def test_the_steps_of_a_training_are_found_from_its_allocations(seed: int, varied: bool) -> None:
    plan = Plan(seed, 12, model=replace(TINY, layers=3), varied=varied)
    staged = iterations_in(Program(plan).run().history())
    bare = iterations_in(Program(replace(plan, stages=False)).run().history())
    assert staged is not None
    assert bare is not None
    assert (staged.source, bare.source) == ("profiler", "pattern")
    assert len(staged) == 12
    # All but the first, which also makes the optimizer's state.
    wanted = staged.starts[2:]
    assert set(wanted.tolist()) & set(bare.bounds.tolist())
    assert len(bare) >= 10
    assert bare.confidence > 0.7


def turns_of(turns: Turns) -> Iterations:
    found = iterations(turns.builder)
    assert found is not None
    return found


def test_a_turn_ends_with_the_optimizer_though_the_next_one_is_shorter_than_its_step() -> None:
    turns = Turns(work=100, batch=False).build()
    for _ in range(4):
        turns.train()
    # A step makes 103 allocations, and the rest of a turn 6. Between two steps as much is live as
    # within the second, after the old gradients have gone and the new ones have come.
    assert turns_of(turns).bounds.tolist() == [0, *(end for _, end in turns.steps)]


def test_what_the_program_frees_in_the_end_is_in_no_turn() -> None:
    turns = Turns(work=40).build()
    for _ in range(4):
        turns.train()
    for layer in range(3):
        turns.builder.free(f"p{layer}")
    assert turns_of(turns).end == turns.steps[-1][1] + 2


@pytest.mark.parametrize("count", [2, 3, 7])
def test_of_two_optimizers_the_one_that_comes_last_ends_the_turn(count: int) -> None:
    turns = Turns(work=30).build()
    for _ in range(count):
        turns.train(("SGD", "AdamW"))
    found = turns_of(turns)
    assert found.how == "by the stage Optimizer.step#AdamW.step, which ends each"
    assert found.bounds.tolist() == [0, *(end + 2 for _, end in turns.steps[1::2])]


def test_optimizers_that_take_turns_make_one_together() -> None:
    turns = Turns().build()
    for _ in range(5):
        turns.train(layers=2).train(layers=2).train(layers=3)
    found = turns_of(turns)
    assert found.how == "by the stages Optimizer.step, of which 3 make one"
    assert found.bounds.tolist() == [0, *(end + 2 for _, end in turns.steps[2::3])]


def test_a_recording_that_begins_within_a_step_begins_with_the_next_turn() -> None:
    turns = Turns(work=30).build()
    for _ in range(5):
        turns.train(("SGD", "AdamW"))
    cut = turns.steps[1][1] - 8
    late = trace()
    late.events = turns.builder.events[cut:]
    late._annotations = turns.builder._annotations
    found = iterations(late)
    assert found is not None
    assert found.bounds.tolist() == [end + 2 - cut for _, end in turns.steps[1::2]]


def test_passes_without_a_stage_are_parted_after_building_and_none_is_lost() -> None:
    builder = trace()
    init = [frame("__init__", "torch/nn/modules/linear.py"), frame("main", line=1)]
    for layer in range(3):
        builder.alloc(f"p{layer}", MIB, frames=init)
    for _ in range(12):
        for line in (4, 5, 6):
            frames = [frame("forward", "model.py", line), frame("main", line=3)]
            builder.alloc(f"a{line}", MIB, frames=frames)
        for line in (4, 5, 6):
            builder.free(f"a{line}")
    found = iterations(builder)
    assert found is not None
    assert found.bounds.tolist() == list(range(3, 3 + 9 * 13, 9))


def test_a_period_that_is_mostly_inside_one_pass_has_no_turns() -> None:
    made = np.arange(0, 40, 2)
    mark = np.repeat([9, 1, 7, 7, 7], 4)  # the turns beside the only one make something else
    period = Period(made[::4], 0.9, "", made, mark, None)
    one = np.array([BACKWARD], np.int8), np.array([15]), np.array([39])
    passes = Passes(np.full(len(made), BACKWARD, np.int8), *one)
    assert _from_period(period, passes, np.zeros(41, np.int64)) is None


def test_a_hundred_thousand_turns_before_a_disturbance_are_found_in_one_pass() -> None:
    n, odd = 200_000, 150_000
    mark = np.tile([1, 2], n)
    mark[2 * odd : 2 * odd + 2] = 2, 1  # two turns in one, as often as one looks back
    made = np.arange(2 * n) * 2
    turns = np.arange(2 * odd + 3, 2 * n - 2).reshape(-1, 1)[::2] + np.arange(2)
    period = Period(made[turns[:, 0]], 0.9, "", made, mark, turns)
    none = np.empty(0, np.int64)
    passes = Passes(np.zeros(len(made), np.int8), none.astype(np.int8), none, none)
    allocated = np.zeros(4 * n + 1, np.int64)
    found = _from_period(period, passes, allocated)
    assert found is not None
    assert len(found.starts) > (n - odd) + odd // 2 - 10
    assert took(lambda: _from_period(period, passes, allocated), most=1.5) <= 1.5
