"""The program that falls ill: a training run whose shape, stages and stacks a seed decides."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace

from dev.simulator.allocator import OutOfMemoryError
from dev.simulator.blocks import Block
from dev.simulator.callstacks import Frame
from dev.simulator.diseases.case import NEVER, Case
from dev.simulator.driver import Driver
from dev.simulator.settings import MIB, AllocatorSettings
from dev.simulator.simulator import GIB, Simulator
from dev.simulator.training import FLOAT, INT, TrainingRun, Transformer

SIDE_STREAM = 0x55D0_4A20
PYTHON, NATIVE = "python", "native"


class Program(TrainingRun):
    """Trains or infers, with stages or without, gathering gradients over several batches."""

    def __init__(self, simulator: Simulator, model: Transformer, *, stages: bool = True) -> None:
        super().__init__(simulator, model)
        self.stages = stages
        self.languages = frozenset((PYTHON, NATIVE))
        """Whose frames are recorded."""
        self.micro_batches = 1
        self.kept: dict[str, list[Block]] = {}
        """What the program keeps, by the name of where it does."""
        self.each_step: tuple[str, int, tuple[int, ...]] | None = None
        """What ``keep`` is called with at the end of every step, inside it."""
        self.optimizes = True
        """Whether a step ends with the optimizer's; without, gradients gather."""
        self._gathered: dict[str, Block] = {}
        self.made = 0
        """Tensors so far."""
        self.before: dict[int, Callable[[], None]] = {}
        """What happens before the so manieth tensor is made."""

    @property
    def driver(self) -> Driver:
        """Of its device."""
        return self.simulator.allocators[self.device].driver

    def new(self, size: int, *native: str) -> Block:
        """Allocate a tensor from here, with the frames of the recorded languages."""
        if self.made in self.before:
            self.before[self.made]()
        self.made += 1
        inner = [self._frame(name, "??", 0) for name in native]
        self.simulator.set_stack(self._recorded(inner + self._frames[::-1]))
        self.simulator.recorder.clock.advance(9 + (size >> 18))
        return self.simulator.malloc(size, device=self.device, stream=self.stream)

    def drop(self, *blocks: Block) -> None:
        """Free tensors from here."""
        self.simulator.set_stack(self._recorded(self._frames[::-1]))
        for block in blocks:
            self.simulator.recorder.clock.advance(3)
            self.simulator.free(block, device=self.device)

    def _recorded(self, frames: Sequence[Frame]) -> list[Frame]:
        return [
            frame
            for frame in frames
            if (NATIVE if frame["filename"] == "??" else PYTHON) in self.languages
        ]

    def keep(self, where: str, line: int, *sizes: int) -> list[Block]:
        """Make tensors in a function of the user's, and keep them."""
        with self._from_script(), self.call(where, "helpers.py", line):
            made = [self.new(size, "at::_ops::empty_memory_format::call") for size in sizes]
        self.kept.setdefault(where, []).extend(made)
        return made

    def release(self, where: str) -> None:
        """Free all that was kept there."""
        with self._from_script(), self.call(where, "helpers.py", 99):
            self.drop(*self.kept.pop(where, []))

    @contextmanager
    def _from_script(self) -> Iterator[None]:
        """Be in the script itself, unless one of its functions is at work."""
        with nullcontext() if self._frames else self.call("<module>", "train.py", 88):
            yield

    def step(self) -> None:
        """Run one training step, and keep at its end what is kept each time."""
        super().step()
        self.gradients, self._gathered = self._gathered, {}
        if self.each_step is not None:
            where, line, sizes = self.each_step
            self.keep(where, line, *sizes)

    def empty_cache(self) -> None:
        """Return what is unused to the driver, as ``torch.cuda.empty_cache()``."""
        with (
            self._from_script(),
            self.call("main", "train.py", 75),
            self.call("empty_cache", "torch/cuda/memory.py", 222),
        ):
            self.simulator.set_stack(self._recorded(self._frames[::-1]))
            self.simulator.empty_cache()

    def evaluate(self, batches: int) -> None:
        """Run batches forward, each tensor freed once the next is made."""
        with self.call("<module>", "train.py", 90), self.stage("evaluate"):
            for _ in range(batches):
                self._infer()

    def _infer(self) -> None:
        model, hidden = self.model, self.model.hidden
        with self.call("evaluate", "evaluate.py", 12):
            batch = self.new(model.tokens * INT, "at::_ops::_to_copy::call")
        with self.call("evaluate", "evaluate.py", 14), self.module("model/transformer.py", 63):
            state = self.new(hidden, "at::_ops::embedding::call")
            for _ in range(model.layers):
                scores = self.new(model.scores, "at::_ops::bmm::call")
                mixed = self.new(hidden, "at::_ops::bmm::call")
                self.drop(scores, state)
                wide = self.new(4 * hidden, "at::_ops::linear::call")
                state = self.new(hidden, "at::_ops::linear::call")
                self.drop(wide, mixed)
            logits = self.new(model.logits, "at::_ops::linear::call")
        with self.call("evaluate", "evaluate.py", 15):
            loss = self.new(FLOAT, "at::_ops::mean::call")
            self.drop(logits, state, batch, loss)

    def train(self, steps: int, first: int = 0) -> None:
        """Run training steps, each over ``micro_batches`` batches."""
        with self.call("<module>", "train.py", 88):
            for number in range(first, first + steps):
                with self.stage(f"ProfilerStep#{number}"):
                    self.step()

    def _optimize(self) -> None:
        """Gather the gradients of further batches before the optimizer's step."""
        if not self.optimizes:
            self._gathered, self.gradients = self.gradients, {}  # which are not cleared, then
            return
        for _ in range(self.micro_batches - 1):
            loss = self._forward()
            self._backward(loss)
            self.drop(loss)
        super()._optimize()

    def _accumulate(self, name: str, node: str) -> None:
        if name not in self.gradients:
            super()._accumulate(name, node)
            return
        self.drop(self._node(self.parameters[name].requested, node))

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Annotate what happens inside, if this program does so."""
        with super()._stage(name) if self.stages else nullcontext():
            yield

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        with self.stage(name):
            yield


def draw_model(rng: random.Random, *, large: bool = False) -> Transformer:
    """Draw the sizes of a model."""
    width = rng.choice([256, 320, 384, 512] if not large else [768, 1024])
    return Transformer(
        layers=rng.randrange(2, 5) if not large else rng.randrange(5, 8),
        width=width,
        heads=8,
        vocabulary=rng.choice([4_000, 8_000, 11_003]),
        batch=rng.choice([2, 4, 8]),
        length=rng.choice([64, 128, 200, 256]),
    )


def draw_program(
    rng: random.Random,
    *,
    record: bool = True,
    expandable: bool | None = None,
    stages: bool | None = None,
    capacity: int = 80 * GIB,
    large: bool = False,
) -> Program:
    """Draw a program that has not begun.

    Args:
        rng: decides what is None.
        record: whether recording is on from the start.
        expandable: whether segments are.
        stages: whether it is annotated.
        capacity: bytes of the device.
        large: of a larger model.
    """
    chosen = rng.random() < 0.3 if expandable is None else expandable
    simulator = Simulator(
        AllocatorSettings(expandable_segments=chosen),
        capacity=capacity,
        others=rng.randrange(300, 700) * MIB,
        seed=rng.randrange(10**6),
    )
    if record:
        simulator.start_recording()
    annotated = rng.random() < 0.5 if stages is None else stages
    return Program(simulator, draw_model(rng, large=large), stages=annotated)


def vary_length(program: Program, rng: random.Random) -> None:
    """Give the next batch another length."""
    program.model = replace(program.model, length=rng.randrange(64, 257))


def fail(program: Program, size: int, where: str = "load_batch", line: int = 31) -> dict[str, int]:
    """Make the request that fails, and return the true figures of that moment.

    Raises:
        RuntimeError: the request was served; the case was made wrongly.
    """
    allocator = program.simulator.allocators[program.device]
    try:
        program.keep(where, line, size)
    except OutOfMemoryError:
        pass
    else:
        raise RuntimeError("the request was served")
    counters = allocator.counters
    return {
        "asked for": allocator.settings.round_size(size),
        "free on the device": program.driver.free_bytes,
        "allocated": counters.allocated,
        "reserved": counters.reserved,
        "slack": counters.active - counters.requested,
        "awaiting free": counters.active - counters.allocated,
        "inactive": counters.reserved - counters.active,
    }


def fill(program: Program, rng: random.Random, total: int, where: str = "activations") -> None:
    """Keep tensors of tens of MiB, whole segments each, until so many bytes are live."""
    held = 0
    while held < total:
        size = 2 * MIB * rng.randrange(8, 60)
        program.keep(where, rng.choice([11, 12, 13]), size)
        held += size


def healthy(name: str, seed: int, program: Program, *also: str) -> Case:
    """Return the recording of a program that nothing is wrong with."""
    return Case(name, seed, program.simulator.snapshot(), (), frozenset(also), NEVER)
