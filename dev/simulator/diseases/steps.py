"""Diseases of a program that repeats: what grows, what only seems to, what is made too often."""

from __future__ import annotations

import random

from dev.simulator.allocator import OutOfMemoryError
from dev.simulator.diseases.case import Case, Expected
from dev.simulator.diseases.program import SIDE_STREAM, Program, draw_program, vary_length
from dev.simulator.settings import MIB

_GROWS = frozenset(["leak", "oom"])


def leak(seed: int) -> Case:
    """Each step keeps so many more tensors of one size."""
    return _leak("leak", seed, inside=True)


def leak_between(seed: int) -> Case:
    """The same between the steps, where no stage is: after each, but for the last."""
    return _leak("leak-between", seed, inside=False)


def _leak(name: str, seed: int, *, inside: bool) -> Case:
    rng = random.Random(f"{name} {seed}")  # noqa: S311
    program = _built(rng)
    size, count = _size(rng), rng.randrange(1, 4)
    healthy = rng.choice([0, 0, 3])
    steps = healthy + rng.randrange(8, 13)
    noise = rng.random() < 0.5
    for number in range(steps):
        if noise:
            vary_length(program, rng)
        if number >= healthy:
            kept = ("log_metrics", 41, (size,) * count)
            if inside:
                program.each_step = kept
            elif number > healthy:
                program.keep(kept[0], kept[1], *kept[2])
        program.train(1, first=number)
    figures = {"requested per step": size * count, "allocations per step": count}
    expected = Expected("leak", figures=figures, least="warning")
    return _case(name, seed, program, expected, never=["oom"])


def leak_until_full(seed: int) -> Case:
    """The same until the device is full: then it is why the program failed."""
    rng = random.Random(f"leak until full {seed}")  # noqa: S311
    program = _built(rng)
    program.train(1)
    size = 2 * MIB * rng.randrange(20, 60)
    program.driver.leave_free(size * rng.randrange(8, 14) + rng.randrange(size))
    try:
        for number in range(1, 40):
            program.keep("log_metrics", 41, size)
            program.train(1, first=number)
    except OutOfMemoryError:
        pass
    expected = Expected("leak", figures={"requested per step": size}, least="critical")
    oom = Expected("oom", least="critical")
    also = frozenset(["fragmentation", "unused-reserved", "slack", "allocator-retries"])
    return Case("leak-until-full", seed, program.simulator.snapshot(), (expected, oom), also)


def settling_cache(seed: int) -> Case:
    """A cache fills in the first steps, and is full from then on."""
    rng = random.Random(f"cache {seed}")  # noqa: S311
    program = _built(rng)
    size, fills = max(_size(rng), 8 * MIB), rng.randrange(3, 6)
    for number in range(fills + rng.randrange(6, 10)):
        if number < fills:
            program.keep("rotary_table", 17, size)
        program.train(1, first=number)
    return _case("settling-cache", seed, program, Expected("settling-cache"), never=_GROWS)


def optimizer_state(seed: int) -> Case:
    """The optimizer makes its state in the first step, and keeps it."""
    rng = random.Random(f"optimizer {seed}")  # noqa: S311
    program = _built(rng)
    program.train(rng.randrange(3, 9))
    held = sum(block.size for block in program.optimizer_state)
    expected = Expected("optimizer-state", figures={"optimizer state kept": held})
    return _case("optimizer-state", seed, program, expected, never=_GROWS)


def thrash(seed: int) -> Case:
    """``empty_cache()`` after every step: each gets its segments from the driver again."""
    rng = random.Random(f"thrash {seed}")  # noqa: S311
    program = _built(rng)
    steps = rng.randrange(6, 12)
    for number in range(steps):
        program.train(1, first=number)
        program.empty_cache()
    # What the last call gives back is not got again.
    figures = {"times given back and fetched again": steps - 1, "by empty_cache()": steps - 1}
    expected = Expected("segment-thrash", figures=figures)
    return _case("segment-thrash", seed, program, expected, never=_GROWS)


def churn(seed: int) -> Case:
    """One line makes and frees a tensor over and over."""
    rng = random.Random(f"churn {seed}")  # noqa: S311
    program = _built(rng)
    size = _size(rng)
    for number in range(rng.randrange(3, 6)):
        for _ in range(rng.randrange(300, 500)):
            program.keep("accuracy", 63, size)
            program.release("accuracy")
        program.train(1, first=number)
    return _case("churn", seed, program, Expected("churn"), never=_GROWS)


def pending(seed: int) -> Case:
    """What another stream uses is freed late, and much of it waits at any time."""
    rng = random.Random(f"pending {seed}")  # noqa: S311
    program = _built(rng)
    allocator = program.simulator.allocators[0]
    size, most = 4 * max(program.model.scores, program.model.logits, 8 * MIB), 0
    for number in range(rng.randrange(5, 9)):
        blocks = program.keep("gather", 60, size, size)
        for block in blocks:
            allocator.record_stream(block, SIDE_STREAM)
        most = max(most, sum(block.size for block in blocks))
        program.release("gather")
        program.train(1, first=number)
        allocator.pass_events(SIDE_STREAM)
    expected = Expected("pending-free", figures={"waiting at most": most})
    return _case("pending-free", seed, program, expected, never=_GROWS)


def retries(seed: int) -> Case:
    """A request is served only once all that is cached went back to the driver."""
    rng = random.Random(f"retries {seed}")  # noqa: S311
    program = _built(rng, expandable=False)
    turns = rng.randrange(4, 8)
    for number in range(turns):
        small, large = 2 * MIB * rng.randrange(20, 40), 2 * MIB * rng.randrange(200, 300)
        program.keep("chunks", 30, *[small] * 20)
        program.release("chunks")
        program.driver.leave_free(large - 20 * MIB)
        program.keep("whole", 31, large)
        program.release("whole")
        program.empty_cache()
        program.driver.leave_free(20 * large)
        program.train(1, first=number)
    expected = Expected("allocator-retries", figures={"retries": turns})
    return _case("allocator-retries", seed, program, expected, never=_GROWS)


STEPS = (
    leak, leak_between, leak_until_full, settling_cache, optimizer_state, thrash, churn, pending,
    retries,
)  # fmt: skip


def _built(rng: random.Random, *, expandable: bool | None = None) -> Program:
    program = draw_program(rng, expandable=expandable)
    program.build()
    return program


def _size(rng: random.Random) -> int:
    """Draw a size between the small pool's and the largest segment's."""
    return rng.choice([512 * rng.randrange(1000, 2000), MIB * rng.randrange(2, 30)])


def _case(
    name: str, seed: int, program: Program, expected: Expected, *, never: frozenset[str] | list[str]
) -> Case:
    also = frozenset(["fragmentation", "unused-reserved", "slack", "segment-thrash"])
    return Case(name, seed, program.simulator.snapshot(), (expected,), also, frozenset(never))
