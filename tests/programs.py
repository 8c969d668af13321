"""Simulated programs with a loop: training and inference, healthy or with one known fault."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace

from dev.simulator import AllocatorSettings, OutOfMemoryError, Simulator
from dev.simulator.blocks import Block
from dev.simulator.training import TrainingRun, Transformer
from snapreport.diagnosis.conclude import find
from snapreport.model.diagnoses import Finding
from snapreport.model.findings import DeviceFindings
from snapreport.model.history import History
from tests.builders import MIB, history_of

TINY = Transformer(layers=1, width=256, heads=4, vocabulary=2_000, batch=4, length=128)
LENGTHS = (64, 96, 128, 160)

Each = Callable[["Program", int], None]
"""What a program does at the end of an iteration, of a number from 0."""


@dataclass(frozen=True)
class Plan:
    """How a program runs; the default is a healthy training run recorded from its beginning."""

    seed: int = 0
    iterations: int = 10
    stages: bool = True
    model: Transformer = TINY
    varied: bool = False
    """Whether batches differ in length."""
    late: bool = False
    """Whether recording starts after two iterations."""
    context: str | None = "all"
    settings: AllocatorSettings | None = None
    each: Each | None = None
    capacity: int = 80 << 30
    max_entries: int = 1 << 40


class Program(TrainingRun):
    """A loop around the training run, with room for what goes wrong in it."""

    def __init__(self, plan: Plan) -> None:
        simulator = Simulator(plan.settings, seed=plan.seed, capacity=plan.capacity)
        # Without stages there is a loop over layers that could be taken for that of steps.
        layers = plan.model.layers if plan.stages else max(plan.model.layers, 3)
        super().__init__(simulator, replace(plan.model, layers=layers))
        self.plan = plan
        self.rng = random.Random(plan.seed)
        self.kept: list[Block] = []

    def run(self) -> Program:
        """Build the model and train it, until the end or until memory runs out."""
        with suppress(OutOfMemoryError):
            self._loop(self.step)
        return self

    def run_inference(self, free: bool = False) -> Program:
        """Build the model and run it; in the end drop what was kept, if so wanted."""
        self._loop(self.infer)
        if free:
            self.drop(*self.kept)
        return self

    def _loop(self, body: Callable[[], None]) -> None:
        plan = self.plan
        if not plan.late:
            self.simulator.start_recording(context=plan.context, max_entries=plan.max_entries)
        self.build()
        first = -2 if plan.late else 0
        for number in range(first, plan.iterations):
            if number == 0 and plan.late:
                self.simulator.start_recording(context=plan.context, max_entries=plan.max_entries)
            if plan.varied:
                self.model = replace(self.model, length=self.rng.choice(LENGTHS))
            with self.call("<module>", "train.py", 88), self._stage(f"ProfilerStep#{number}"):
                body()
                if plan.each is not None:
                    plan.each(self, number)

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        with super()._stage(name) if self.plan.stages else nullcontext():
            yield

    def keep(self, size: int, line: int = 12) -> None:
        """Make something and never drop it."""
        with self.call("main", "train.py", 80), self.call("log", "metrics.py", line):
            self.kept.append(self.new(size, "at::_ops::add_Tensor::call"))

    def infer(self) -> None:
        """Run the model forward alone, and drop everything at the end."""
        with self.call("main", "serve.py", 12):
            batch = self.new(self.model.tokens * 8, "at::_ops::_to_copy::call")
        with self.call("main", "serve.py", 14):
            loss = self._forward()
            for layer in self.saved:
                self.drop(*layer.values())
            self.saved = []
        with self.call("main", "serve.py", 15):
            self.drop(loss, batch)

    def history(self) -> History:
        """Read what was recorded."""
        return history_of(self.simulator.snapshot())

    def analysed(self) -> DeviceFindings:
        """Read and analyse what was recorded."""
        return find(self.history()).devices[0]


def leaks(size: int, every: int = 1, since: int = 0) -> Each:
    """Keep bytes in one iteration of several."""

    def each(program: Program, number: int) -> None:
        if number >= since and number % every == 0:
            program.keep(size)

    return each


def keeps_last(count: int, size: int) -> Each:
    """Keep what the last so many iterations made, and drop what is older."""

    def each(program: Program, number: int) -> None:
        program.keep(size, line=40)
        if len(program.kept) > count:
            program.drop(program.kept.pop(0))

    return each


def collects(count: int, size: int) -> Each:
    """Keep something of so many iterations, then drop all of it at once."""

    def each(program: Program, number: int) -> None:
        program.keep(size, line=60)
        if number % count == count - 1:
            program.drop(*program.kept)
            program.kept.clear()

    return each


def clears_most(every: int, size: int) -> Each:
    """Keep something in every iteration; now and then drop all of it but one."""

    def each(program: Program, number: int) -> None:
        program.keep(size, line=50)
        if number % every == every - 1:
            for _ in range(every - 1):
                program.drop(program.kept.pop())

    return each


def caches(until: int, size: int = 2 * MIB) -> Each:
    """Keep something in each of the first iterations."""

    def each(program: Program, number: int) -> None:
        if number < until:
            program.keep(size, line=30)

    return each


def holds_over(size: int) -> Each:
    """Make a result that replaces the last one only when it is there."""

    def each(program: Program, number: int) -> None:
        with program.call("main", "train.py", 90):
            result = program.new(size, "at::_ops::clone::call")
        program.drop(*program.kept)
        program.kept = [result]

    return each


def cycles(count: int, size: int, *, broken: bool = False) -> Each:
    """Make an object with a tensor that refers to itself, as if the collector ran now and then.

    It runs inside a later call of a layer, and leaves what the last iteration made. Broken, the
    object is freed as it is dropped.
    """

    def each(program: Program, number: int) -> None:
        program.keep(size, line=70)
        if broken:
            with program.call("main", "train.py", 82):
                program.drop(program.kept.pop())
        elif number % count == count - 1:
            layer_norm = program.call("layer_norm", "torch/nn/functional.py", 2935)
            with program.module("model.py", 14), layer_norm:
                program.drop(*program.kept[:-1])
            del program.kept[:-1]

    return each


def empties(program: Program, _: int) -> None:
    """Call ``empty_cache()``."""
    with (
        program.call("main", "train.py", 83),
        program.call("empty_cache", "torch/cuda/memory.py", 222),
    ):
        program.simulator.set_stack(program._frames[::-1])
        program.simulator.empty_cache()


def found(device: DeviceFindings, *named: str) -> list[Finding]:
    """Return the findings of some topics or codes."""
    return [
        each for each in device.diagnosis.findings if any(each.is_named_by(name) for name in named)
    ]


def of_code(device: DeviceFindings, code: str) -> Finding:
    """Return the only finding of a kind."""
    (finding,) = (each for each in device.diagnosis.findings if each.code == code)
    return finding


def figures(finding: Finding) -> dict[str, object]:
    """Return the evidence by its labels."""
    return {figure.label: figure.value for figure in finding.evidence}
