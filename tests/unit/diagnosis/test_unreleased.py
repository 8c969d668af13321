"""Memory that only the garbage collector frees, and what earlier attempts have left."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from dev.simulator import AllocatorSettings
from dev.simulator.allocator import OutOfMemoryError
from dev.simulator.blocks import Block
from snapreport.model.diagnoses import Finding
from snapreport.model.findings import DeviceFindings
from tests.builders import MIB, TraceBuilder, frame, trace
from tests.programs import (
    TINY,
    Each,
    Plan,
    Program,
    clears_most,
    collects,
    cycles,
    figures,
    found,
    keeps_last,
    of_code,
)


def peak(device: DeviceFindings) -> int:
    return device.peak.allocated


@pytest.mark.parametrize("stages", [True, False])
def test_what_the_collector_frees_is_told_with_its_line_and_what_breaking_the_cycles_frees(
    stages: bool,
) -> None:
    size, plan = 3 * MIB, Plan(iterations=40, stages=stages)
    device = Program(replace(plan, each=cycles(12, size))).run().analysed()
    broken = Program(replace(plan, each=cycles(12, size, broken=True))).run().analysed()
    finding = of_code(device, "reference-cycles")
    said = figures(finding)
    assert finding.severity == "warning"
    assert finding.subject == "log (metrics.py:70)"
    assert said["times"] == 3
    assert said["freed at once"] == finding.bytes
    assert said["made in steps"] == finding.bytes // size
    assert "layer_norm" in finding.explanation or "model.py:14" in finding.explanation
    (suggestion,) = finding.suggestions
    assert suggestion.frees is not None
    measured = peak(device) - peak(broken)
    assert suggestion.frees.least <= measured <= suggestion.frees.most
    assert measured > 10 * size
    assert not found(broken, "reference-cycles")


@pytest.mark.parametrize(
    "each", [collects(12, 3 * MIB), clears_most(12, 3 * MIB), keeps_last(6, 3 * MIB)]
)
def test_what_the_program_itself_collects_and_drops_is_no_cycle(each: Each) -> None:
    device = Program(Plan(iterations=40, each=each)).run().analysed()
    assert not found(device, "reference-cycles", "earlier-attempt")


def saw_tooth(lines: int, native: str = "", turns: int = 60) -> TraceBuilder:
    """Twelve turns at a time are freed, at so many lines one after the other."""
    builder = trace().alloc("weights", MIB, frames=[frame("build")])
    kept = []
    for turn in range(turns):
        for place in range(2):
            frames = [frame("work", line=place), frame("main")]
            builder.alloc(f"tmp {place}", MIB, frames=frames).free(f"tmp {place}", frames=frames)
        builder.alloc(f"{turn}", MIB, frames=[frame("hold", line=9), frame("main")])
        kept.append(f"{turn}")
        if turn % 12 == 11:
            at = [frame("anything", line=50 + turn // 12 % lines), frame("main")]
            inner = [frame(native, "??", 0)] if native else []
            for each in kept[:-1]:
                builder.free(each, frames=inner + at)
            del kept[:-1]
    return builder


def finding_in(builder: TraceBuilder) -> list[Finding]:
    from snapreport.diagnosis.conclude import find

    (device,) = find(builder.file()).devices
    return found(device, "reference-cycles")


def test_frees_at_ever_other_lines_and_frames_of_the_collector_show_it() -> None:
    assert not finding_in(saw_tooth(1)), "a list that is cleared at its line"
    assert not finding_in(saw_tooth(2))
    assert finding_in(saw_tooth(4))
    for name in ("gc_collect_main", "PyObject_GC_Del", "_Py_RunGC"):
        assert finding_in(saw_tooth(1, name)), name
    assert not finding_in(saw_tooth(1, "list_clear"))
    assert not finding_in(saw_tooth(1, "gc_collect_main", turns=20)), "once only"


class Attempts(Program):
    """Builds and trains a model again and again, and can drop all that it made."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.live: dict[int, Block] = {}

    def new(self, size: int, *native: str) -> Block:
        block = super().new(size, *native)
        self.live[id(block)] = block
        return block

    def drop(self, *blocks: Block) -> None:
        super().drop(*blocks)
        for block in blocks:
            del self.live[id(block)]

    def drop_all(self) -> None:
        with self.call("main", "train.py", 61):
            self.drop(*self.live.values())

    def attempt(self, batch: int) -> None:
        self.model = replace(self.model, batch=batch)
        with suppress(OutOfMemoryError):
            self.build()
            self.gradients, self.optimizer_state, self.saved = {}, [], []
            with self.call("<module>", "train.py", 88):
                self.step()


def attempts(batches: tuple[int, ...], *, keep: bool, capacity: int) -> DeviceFindings:
    program = Attempts(Plan(stages=False, capacity=capacity, settings=AllocatorSettings()))
    program.simulator.start_recording()
    for batch in batches:
        program.attempt(batch)
        if not keep:
            program.drop_all()
    return program.analysed()


def test_what_a_caught_exception_keeps_of_an_attempt_is_told() -> None:
    capacity, batches = 150 * MIB, (TINY.batch * 64, TINY.batch * 48, TINY.batch)
    device = attempts(batches, keep=True, capacity=capacity)
    assert len(device.ooms) >= 2
    finding = of_code(device, "earlier-attempt")
    said = figures(finding)
    assert finding.severity == "warning"
    assert "attempt that failed" in finding.title
    assert isinstance(said["live at a later failure"], int)
    assert said["live at a later failure"] > 0
    assert finding.suggestions[0].frees is not None
    assert "except" in finding.suggestions[0].change
    assert not found(attempts(batches, keep=False, capacity=capacity), "earlier-attempt")


def test_a_model_that_is_live_when_the_next_is_built_is_told() -> None:
    batches = (TINY.batch, TINY.batch)
    kept = attempts(batches, keep=True, capacity=80 << 30)
    freed = attempts(batches, keep=False, capacity=80 << 30)
    finding = of_code(kept, "earlier-attempt")
    assert "earlier model" in finding.title
    frees = finding.suggestions[0].frees
    assert frees is not None
    assert figures(finding)["peak falls by"] == frees.expected
    assert frees.least <= peak(kept) - peak(freed) <= frees.most < 1.02 * frees.expected
    assert not found(freed, "earlier-attempt")
