"""Requests that fail, each for one reason that its making guarantees."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace

from dev.simulator.allocator import OutOfMemoryError
from dev.simulator.diseases.case import Case, Expected
from dev.simulator.diseases.program import SIDE_STREAM, Program, draw_program, fail, fill
from dev.simulator.settings import MIB
from dev.simulator.simulator import GIB

_ALSO = frozenset(
    ["fragmentation", "unused-reserved", "slack", "allocator-retries", "dumped-early"]
)
"""What a device that is full may be told, too: a failed request returns all that it can."""


_KEEPS = ("leak", "outlives-step")
"""True of a loop that keeps a tensor in every turn, which here has another purpose."""


def full(seed: int) -> Case:
    """Live tensors take up all; whole segments, so that nothing is free in between."""
    rng = random.Random(f"full {seed}")  # noqa: S311
    program = _started(rng)
    fill(program, rng, rng.randrange(1, 8) * GIB)
    size = 2 * MIB * rng.randrange(100, 200)
    program.driver.leave_free(rng.randrange(20, 60) * MIB)
    return _case("full", seed, program, "full", fail(program, size))


def giant(seed: int) -> Case:
    """One request beyond all that the device has, as of a shape that was mistaken."""
    rng = random.Random(f"giant {seed}")  # noqa: S311
    program = _started(rng)
    fill(program, rng, rng.randrange(200, 3000) * MIB)
    driver = program.driver
    driver.leave_free(rng.randrange(1, 6) * GIB)
    size = (driver.taken + driver.free_bytes) * rng.randrange(2, 40)
    return _case("giant", seed, program, "giant", fail(program, size + rng.randrange(4096)))


def fragmented(seed: int) -> Case:
    """Enough is inactive, but each segment still holds a live tensor, and no hole is large."""
    rng = random.Random(f"fragmented {seed}")  # noqa: S311
    program = _started(rng, expandable=False, trained=False)
    hole = 2 * MIB * rng.randrange(50, 120)
    segments = rng.randrange(6, 14)
    program.keep("variable", 20, *[hole] * segments)
    program.release("variable")
    program.driver.leave_free(rng.randrange(10, 40) * MIB)
    holes = []
    for _ in range(segments):
        # Too large for what is left of other segments, so it goes into one of these; what is left
        # of that is filled, so that the next goes into another one.
        kept = rng.randrange(21, 31) * MIB
        program.keep("statistics", 21, kept)
        program.keep("rest", 22, hole - kept - 2 * MIB)
        holes.append(hole - kept)
    program.release("rest")
    figures = fail(program, hole + 2 * MIB) | {"largest hole": max(holes)}
    case = _case("fragmented", seed, program, "fragmented", figures)
    return _with(case, *_KEEPS)


def locked(seed: int) -> Case:
    """What a captured graph has reserved is free now, but only its graph may use it."""
    rng = random.Random(f"locked {seed}")  # noqa: S311
    program = _started(rng)
    fill(program, rng, rng.randrange(500, 2000) * MIB)
    allocator = program.simulator.allocators[0]
    allocator.begin_pool((rng.randrange(1, 4), 0))
    size = 2 * MIB * rng.randrange(60, 150)
    program.keep("capture", 55, *[size] * rng.randrange(4, 8))
    allocator.end_pool()
    program.release("capture")
    program.driver.leave_free(rng.randrange(10, 40) * MIB)
    case = _case("locked", seed, program, "locked", fail(program, size + MIB * rng.randrange(8)))
    return _with(case, "locked-pool")


def waiting(seed: int) -> Case:
    """During a capture, what another stream uses stays taken though the program freed it."""
    rng = random.Random(f"waiting {seed}")  # noqa: S311
    program = _started(rng, expandable=False)
    fill(program, rng, rng.randrange(500, 2000) * MIB)
    allocator = program.simulator.allocators[0]
    allocator.begin_pool((1, 0))
    size = 2 * MIB * rng.randrange(60, 150)
    blocks = program.keep("gather", 60, *[size] * rng.randrange(3, 6))
    for block in blocks:
        allocator.record_stream(block, SIDE_STREAM)
    program.release("gather")
    program.driver.leave_free(rng.randrange(10, 40) * MIB)
    case = _case("waiting", seed, program, "waiting", fail(program, size))
    return _with(case, "pending-free", "locked-pool")


def other_stream(seed: int) -> Case:
    """What is free was made on another stream, whose blocks do not serve this one."""
    rng = random.Random(f"other stream {seed}")  # noqa: S311
    program = _started(rng, expandable=False)
    fill(program, rng, rng.randrange(500, 2000) * MIB)
    size = 2 * MIB * rng.randrange(40, 80)
    program.stream = SIDE_STREAM
    for _ in range(rng.randrange(4, 8)):
        program.keep("side", 70, size)
    program.release("side")
    for _ in range(len(program.simulator.allocators[0].large.free[SIDE_STREAM])):
        program.keep("anchor", 71, rng.randrange(11, 15) * MIB)
        program.keep("side", 72, size - 17 * MIB)
    program.release("side")
    program.stream = 0
    program.driver.leave_free(rng.randrange(10, 30) * MIB)
    wanted = size - 20 * MIB
    case = _case("other-stream", seed, program, "other-stream", fail(program, wanted))
    return _with(case, *_KEEPS)


def foreign(seed: int) -> Case:
    """Others took memory that this process had had, and gave back."""
    rng = random.Random(f"foreign {seed}")  # noqa: S311
    program = _started(rng)
    size = 2 * MIB * rng.randrange(100, 300)
    program.keep("warm_up", 80, *[size] * rng.randrange(4, 9))
    program.release("warm_up")
    program.empty_cache()
    fill(program, rng, rng.randrange(100, 400) * MIB)
    program.driver.leave_free(rng.randrange(10, 60) * MIB)
    return _case("foreign", seed, program, "foreign", fail(program, size))


def limit(seed: int) -> Case:
    """The device has room, but the process may not take more of it."""
    rng = random.Random(f"limit {seed}")  # noqa: S311
    program = _started(rng)
    fill(program, rng, rng.randrange(500, 2000) * MIB)
    size = 2 * MIB * rng.randrange(60, 150)
    program.simulator.allocators[0].limit = program.driver.taken + rng.randrange(size // 2)
    return _case("limit", seed, program, "limit", fail(program, size))


def first_step(seed: int) -> Case:
    """The first forward pass of a deep model does not fit: layer by layer, but no leak."""
    rng = random.Random(f"first step {seed}")  # noqa: S311
    program = draw_program(rng)
    program.model = replace(program.model, layers=rng.randrange(16, 40), length=256, batch=8)
    program.build()
    program.driver.leave_free(rng.randrange(5, 13) * program.model.scores)
    with suppress(OutOfMemoryError):
        program.train(1)
    counters = program.simulator.allocators[0].counters
    figures = {
        "free on the device": program.driver.free_bytes,
        "allocated": counters.allocated,
        "reserved": counters.reserved,
    }
    expected = Expected("oom", figures=figures, least="critical")
    snapshot = program.simulator.snapshot()
    return Case("first-step", seed, snapshot, (expected,), _ALSO, frozenset(["leak"]))


def late(seed: int) -> Case:
    """The program frees all and goes on before it writes the file."""
    rng = random.Random(f"late {seed}")  # noqa: S311
    program = _started(rng)
    fill(program, rng, rng.randrange(2, 6) * GIB)
    program.driver.leave_free(rng.randrange(20, 60) * MIB)
    figures = fail(program, 2 * MIB * rng.randrange(100, 200))
    trace = program.simulator.allocators[0].trace
    failed = trace.recorded
    program.release("activations")
    program.evaluate(1)
    case = _case("late", seed, program, "full", figures)
    later = {
        "allocated at the failure": figures["allocated"],
        "allocated at the end": program.simulator.allocators[0].counters.allocated,
        "events after the failure": trace.recorded - failed,
    }
    expected = Expected("dumped-late", figures=later)
    return Case(case.name, seed, case.snapshot, (*case.expected, expected), case.also)


FAILURES = (
    full,
    giant,
    fragmented,
    locked,
    waiting,
    other_stream,
    foreign,
    limit,
    first_step,
    late,
)


def _started(
    rng: random.Random, *, expandable: bool | None = None, trained: bool | None = None
) -> Program:
    """Build a model, and train a little; not where what training leaves would be in the way."""
    program = draw_program(rng, expandable=expandable)
    program.build()
    if rng.random() < 0.5 if trained is None else trained:
        program.train(1)
        program.empty_cache()
    return program


def _case(name: str, seed: int, program: Program, cause: str, figures: dict[str, int]) -> Case:
    expected = Expected("oom", cause, figures, "critical")
    return Case(name, seed, program.simulator.snapshot(), (expected,), _ALSO)


def _with(case: Case, *codes: str) -> Case:
    return Case(case.name, case.seed, case.snapshot, case.expected, case.also | set(codes))
