"""Mistakes in recording, each with the figures that tell it."""

from __future__ import annotations

import random

from dev.simulator.diseases.case import Case, Expected
from dev.simulator.diseases.program import NATIVE, PYTHON, Program, draw_program

_FROM_BEFORE = frozenset(["missing-stacks", "unmatched-frees", "inferred-sizes"])
"""What may be told, too, where a part of the history is missing."""


def ring_too_small(seed: int) -> Case:
    """Recording from the start, but only the newest events are kept.

    Of a round number of events one can tell that the ring was full, and where the file says so;
    of another it is only known that events are missing.
    """
    rng = random.Random(f"ring {seed}")  # noqa: S311
    program = draw_program(rng, record=False)
    sign = rng.choice(["round", "stated", "neither"])
    entries = rng.choice([500, 1000, 2000]) if sign == "round" else rng.randrange(150, 1500)
    program.simulator.start_recording(max_entries=entries)
    program.build()
    trace, steps = program.simulator.allocators[0].trace, 0
    while trace.recorded < entries * rng.randrange(2, 4):
        program.train(1, first=steps)
        steps += 1
    least = "note" if sign == "neither" else "warning"
    expected = Expected("ring-overflowed", figures={"events": entries}, least=least)
    case = _case("ring-too-small", seed, program, expected, "started-late", *_FROM_BEFORE)
    if sign == "stated":
        settings = case.snapshot["allocator_settings"]
        settings["trace_alloc_max_entries"] = entries
        settings["trace_alloc_overflowed"] = rng.choice([True, [True]])
    return case


def ring_of_one(seed: int) -> Case:
    """``enabled="state"``: the final state and one event."""
    rng = random.Random(f"ring of one {seed}")  # noqa: S311
    program = draw_program(rng, record=False)
    program.simulator.start_recording(enabled="state")
    program.build()
    program.train(rng.randrange(1, 3))
    return _case("ring-of-one", seed, program, _no_history(program))


def off(seed: int) -> Case:
    """History was never switched on."""
    rng = random.Random(f"off {seed}")  # noqa: S311
    program = draw_program(rng, record=False)
    program.build()
    program.train(rng.randrange(1, 3))
    return _case("history-off", seed, program, _no_history(program), "missing-stacks")


def late_start(seed: int) -> Case:
    """Recording began when the model was built, and perhaps trained."""
    rng = random.Random(f"late start {seed}")  # noqa: S311
    program = draw_program(rng, record=False)
    program.build()
    program.train(rng.randrange(3))
    # What is live already is a visible part of what this small model comes to.
    program.keep("load_more", 5, 4 * program.model.scores + 8 * program.model.logits)
    before = program.simulator.allocators[0].counters.allocated
    program.simulator.start_recording()
    program.train(rng.randrange(2, 5), first=2)
    expected = Expected("started-late", figures={"allocated before the first event": before})
    return _case("late-start", seed, program, expected, *_FROM_BEFORE)


def early(seed: int) -> Case:
    """The file was written in the middle of the first forward pass."""
    rng = random.Random(f"early {seed}")  # noqa: S311
    program = draw_program(rng, large=True)
    program.build()
    with program.call("<module>", "train.py", 88), program.stage("forward"):
        program._forward()
    end = program.simulator.allocators[0].counters.allocated
    expected = Expected("dumped-early", figures={"allocated at the end": end})
    return _case("dumped-early", seed, program, expected)


def native_only(seed: int) -> Case:
    """Stacks with C++ frames alone."""
    return _languages(seed, "native-only", NATIVE, Expected("native-stacks-only"))


def python_only(seed: int) -> Case:
    """Stacks with Python frames alone: none on autograd's threads."""
    return _languages(seed, "python-only", PYTHON, Expected("python-stacks-only"))


def no_stacks(seed: int) -> Case:
    """``context=None``: events without stacks."""
    rng = random.Random(f"no stacks {seed}")  # noqa: S311
    program = draw_program(rng, record=False)
    program.simulator.start_recording(context=None)
    program.build()
    program.train(rng.randrange(2, 4))
    return _case("no-stacks", seed, program, Expected("missing-stacks", least="warning"))


RECORDINGS = (
    ring_too_small, ring_of_one, off, late_start, early, native_only, python_only, no_stacks,
)  # fmt: skip


def _languages(seed: int, name: str, language: str, expected: Expected) -> Case:
    rng = random.Random(f"{name} {seed}")  # noqa: S311
    program = draw_program(rng)
    program.languages = frozenset([language])
    program.build()
    program.train(rng.randrange(2, 5))
    # Without C++ frames autograd's threads have none at all.
    return _case(name, seed, program, expected, "missing-stacks")


def _no_history(program: Program) -> Expected:
    allocated = program.simulator.allocators[0].counters.allocated
    return Expected("no-history", figures={"allocated when it was written": allocated})


def _case(name: str, seed: int, program: Program, expected: Expected, *also: str) -> Case:
    snapshot = program.simulator.snapshot()
    return Case(name, seed, snapshot, (expected,), frozenset(also), frozenset(["oom", "leak"]))
