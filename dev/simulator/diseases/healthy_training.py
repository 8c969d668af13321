"""Training that nothing is wrong with, of many shapes: a finding to act on is a false alarm."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace

from dev.simulator.diseases.case import MID_WAY, Case
from dev.simulator.diseases.program import draw_program, healthy, vary_length
from dev.simulator.settings import MIB


def training(seed: int) -> Case:
    """Training, of a small or a larger model."""
    rng = random.Random(f"training {seed}")  # noqa: S311
    program = draw_program(rng, large=rng.random() < 0.3)
    program.build()
    program.train(rng.randrange(2, 9))
    return healthy("training", seed, program)


def warm_up(seed: int) -> Case:
    """Training with larger batches in its first steps, in which workspaces are tried out."""
    rng = random.Random(f"warm-up {seed}")  # noqa: S311
    program = draw_program(rng)
    program.build()
    model = program.model
    for number in range(rng.randrange(5, 10)):
        if number < 2:
            program.model = replace(model, batch=2 * model.batch)
            for _ in range(rng.randrange(3, 8)):
                program.keep("tune", 9, 2 * MIB * rng.randrange(5, 20))
                program.release("tune")
        elif number == 2:
            program.model = model
        program.train(1, first=number)
    return healthy("warm-up", seed, program)


def accumulation(seed: int) -> Case:
    """Gradients gathered over several batches."""
    rng = random.Random(f"accumulation {seed}")  # noqa: S311
    program = draw_program(rng)
    program.micro_batches = rng.randrange(2, 5)
    program.build()
    program.train(rng.randrange(3, 6))
    return healthy("accumulation", seed, program)


def late_optimizer(seed: int) -> Case:
    """Gradients gathered for some steps before the optimizer's first, which makes its state."""
    rng = random.Random(f"late optimizer {seed}")  # noqa: S311
    program = draw_program(rng)
    program.build()
    period = rng.randrange(2, 5)
    for number in range(period * rng.randrange(2, 4)):
        program.optimizes = number % period == period - 1
        program.train(1, first=number)
    return healthy("late-optimizer", seed, program)


def with_evaluation(seed: int) -> Case:
    """Training with an evaluation every few steps."""
    rng = random.Random(f"evaluation {seed}")  # noqa: S311
    program = draw_program(rng)
    program.build()
    every = rng.randrange(2, 4)
    for number in range(3 * every):
        program.train(1, first=number)
        if number % every == every - 1:
            program.evaluate(rng.randrange(1, 4))
    return healthy("with-evaluation", seed, program)


def variable_length(seed: int) -> Case:
    """Training on batches of varying length."""
    rng = random.Random(f"variable length {seed}")  # noqa: S311
    program = draw_program(rng)
    program.build()
    for number in range(rng.randrange(6, 14)):
        vary_length(program, rng)
        program.train(1, first=number)
    # Segments of other lengths are in nobody's use: that is the price, and true.
    return healthy("variable-length", seed, program, "fragmentation", "unused-reserved", "slack")


def growing_length(seed: int) -> Case:
    """A curriculum: every batch is longer than the last, all is freed in time."""
    rng = random.Random(f"growing length {seed}")  # noqa: S311
    program = draw_program(rng)
    program.build()
    for number in range(rng.randrange(6, 10)):
        program.model = replace(program.model, length=64 + 16 * number)
        program.train(1, first=number)
    also = ("fragmentation", "unused-reserved", "slack", "dumped-early")
    return healthy("growing-length", seed, program, *also)


def average_weights(seed: int) -> Case:
    """A running average of the weights, begun after some steps and kept."""
    rng = random.Random(f"average {seed}")  # noqa: S311
    program = draw_program(rng)
    program.build()
    steps, begun = rng.randrange(6, 12), rng.randrange(1, 5)
    for number in range(steps):
        program.train(1, first=number)
        if number == begun:
            sizes = [block.requested for block in program.parameters.values()]
            program.keep("update_average", 27, *sizes)
    return healthy("average-weights", seed, program)


def deep(seed: int) -> Case:
    """One or two steps of a deep model, whose layers come one after the other, all alike."""
    rng = random.Random(f"deep {seed}")  # noqa: S311
    program = draw_program(rng)
    program.model = replace(program.model, layers=rng.randrange(16, 33))
    program.build()
    program.train(rng.randrange(1, 3))
    return healthy("deep", seed, program)


def some_annotated(seed: int) -> Case:
    """A profiler with a schedule: stages in a few steps in the middle only."""
    rng = random.Random(f"some annotated {seed}")  # noqa: S311
    program = draw_program(rng)
    program.build()
    first, steps = rng.randrange(2, 5), rng.randrange(7, 12)
    for number in range(steps):
        program.stages = first <= number < first + 3
        program.train(1, first=number)
    return healthy("some-annotated", seed, program)


def mid_way(seed: int) -> Case:
    """Recording switched on while the program trains."""
    rng = random.Random(f"mid-way {seed}")  # noqa: S311
    program = draw_program(rng, record=False)
    program.build()
    program.train(rng.randrange(1, 4))
    program.simulator.start_recording()
    program.train(rng.randrange(3, 7), first=4)
    return healthy("mid-way", seed, program, *MID_WAY)


def cut_anywhere(seed: int) -> Case:
    """Recording switched on and the file written in the middle of anything."""
    rng = random.Random(f"cut anywhere {seed}")  # noqa: S311
    program = draw_program(rng, record=False)
    program.build()
    before = program.made
    program.train(1)
    per_step = program.made - before
    first = program.made + rng.randrange(per_step)
    program.before[first] = program.simulator.start_recording
    program.before[first + rng.randrange(per_step // 3, 6 * per_step)] = _stop
    with suppress(_Stop):
        program.train(9, first=1)
    return healthy("cut-anywhere", seed, program, *MID_WAY, "dumped-early")


class _Stop(Exception):  # noqa: N818
    """The end of the recording."""


def _stop() -> None:
    raise _Stop


TRAINING = (
    training, warm_up, accumulation, late_optimizer, with_evaluation, variable_length,
    growing_length, average_weights, deep, some_annotated, mid_way, cut_anywhere,
)  # fmt: skip
