"""Training runs with one fault planted among what is as it should be, and what is to be found.

Each fault looks, from its call site and at the peak, like what the other steps do rightly: it takes
two moments, or a look into segments, to tell it apart.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from pathlib import Path

from dev.simulator.blocks import Block
from dev.simulator.settings import MIB
from dev.simulator.simulator import Simulator
from dev.simulator.training import TrainingRun, Transformer

STEPS, LEAKS_IN = 8, 5
MODEL = Transformer(layers=2, width=512, heads=8, vocabulary=8_000, batch=4)


@dataclass(frozen=True)
class Planted:
    """A recording, and the answer that is true of it."""

    name: str
    asked: str
    """What a newcomer wants to know."""
    stage: str
    """The stage that it happens in; empty where no stage tells."""
    site: str
    """The call site at fault, as ``function  file:line``."""
    bytes: int
    """Requested bytes that should not be there; of a segment, what is free in it."""
    count: int
    """The allocations at fault."""
    simulator: Simulator
    segment: int = 0
    """The address of the segment at fault, if it is one."""

    def write(self, folder: Path) -> Path:
        """Write the snapshot into a folder, and return its path."""
        path = folder / f"{self.name}.pickle"
        path.write_bytes(pickle.dumps(self.simulator.snapshot(), 4))
        return path


def _run() -> TrainingRun:
    run = TrainingRun(Simulator(seed=7), replace(MODEL))
    run.build()
    run.simulator.start_recording()
    return run


def leak_in_one_iteration() -> Planted:
    """Each step keeps three tensors to log them, and lets go of them; one step does not."""
    run, sizes = _run(), (9 * MIB, 5 * MIB, 640 * 1024)
    with run.call("<module>", "train.py", 88):
        for number in range(STEPS):
            with run.simulator.annotation(f"ProfilerStep#{number}"):
                with run.call("log", "metrics.py", 23):
                    logged = [run.new(size, "at::_ops::clone::call") for size in sizes]
                run.step()
                with run.call("flush", "metrics.py", 31):
                    run.drop(*(() if number == LEAKS_IN else logged))
                run.simulator.recorder.clock.advance(9)  # or the last free may be the next step's
    asked = "Which step leaves memory behind, how much, and which line made it?"
    stage = f"ProfilerStep#{LEAKS_IN}"
    return Planted(
        "leak_in_one_iteration", asked, stage, "log  metrics.py:23", sum(sizes), 3, run.simulator
    )


def stage_that_keeps_too_much() -> Planted:
    """Two stages run the same batches after each step; the second time, one keeps its outputs."""
    run, kept = _run(), list[Block]()
    size, batches = 12 * MIB, 6
    with run.call("<module>", "train.py", 88):
        for number in range(3):
            with run.simulator.annotation(f"ProfilerStep#{number}"):
                run.step()
            for stage, line in (("validate", 14), ("calibrate", 27)):
                with run.simulator.annotation(stage), run.call("evaluate", "evaluate.py", line):
                    for _ in range(batches):
                        with run.module("model/transformer.py", 65):
                            output = run.new(size, "at::_ops::linear::call")
                        if stage == "calibrate" and number == 1:
                            kept.append(output)
                        else:
                            run.drop(output)
    asked = "After which stage is there more memory than before it, and what is it?"
    return Planted(
        "stage_that_keeps_too_much", asked, "calibrate[2]", "forward  model/transformer.py:65",
        size * batches, batches, run.simulator,
    )  # fmt: skip


def fragmenting_segment() -> Planted:
    """A table is made where a large batch was: its segment stays, and nothing can be given back."""
    run, large, small = _run(), 256 * MIB, 30 * MIB
    run.train(2)
    run.simulator.empty_cache()
    with run.call("<module>", "train.py", 88):
        with run.call("collate", "data/loader.py", 52):
            batch = run.new(large, "at::_ops::cat::call")
            run.drop(batch)
        with run.call("lookup", "data/tables.py", 14):
            table = run.new(small, "at::_ops::empty_memory_format::call")
    run.train(1, first=2)
    run.simulator.empty_cache()
    asked = "Why is memory reserved that empty_cache() does not give back, and who holds it?"
    return Planted(
        "fragmenting_segment", asked, "", "lookup  data/tables.py:14", large - small, 1,
        run.simulator, table.address,
    )  # fmt: skip


PLANTED = (leak_in_one_iteration, stage_that_keeps_too_much, fragmenting_segment)
