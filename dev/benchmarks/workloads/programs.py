"""Programs for the simulator whose recordings are hard in one way or another."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dev.simulator.blocks import Block
from dev.simulator.callstacks import Frame, make_frame
from dev.simulator.simulator import Simulator
from dev.simulator.training import TrainingRun, Transformer

KEYS = ("compile_context", "user_metadata")
"""What PyTorch 2.10 writes on every event."""
BRANCHES = 24
"""Of the tree of calls, at each level."""
MOST_DEEP = 2048
"""How many calls of a round have deep stacks: each costs a list of that many frames."""
NESTING = 4
LARGEST = 1 << 16


@dataclass(frozen=True)
class Shape:
    """What a round has besides training steps; numbers are per device unless said otherwise."""

    layers: int = 12
    """Of the transformer in training; a step has about 400 events for each two of them."""
    steps: int = 2
    devices: int = 1
    live: int = 0
    """Allocations that are live at the same time, on top of the training's."""
    stacks: int = 0
    """Distinct call stacks, on top of the training's."""
    depth: int = 0
    """Frames of the deepest stacks, of a recursion."""
    annotations: int = 0
    """Spans, nested in one another up to four deep."""


def play(shape: Shape, seed: int = 1) -> dict[str, Any]:
    """Run one round's program on fresh devices, and return its snapshot."""
    simulator = Simulator(devices=shape.devices, optional_keys=KEYS, seed=seed)
    simulator.start_recording()
    model = Transformer(layers=shape.layers, width=512, heads=8, batch=4)
    for device in range(shape.devices):
        rng = random.Random(seed * 1000 + device)
        run = TrainingRun(simulator, model, device)
        run.build()
        crowd = _Crowd(simulator, shape, device, rng)
        crowd.fill()
        run.train(shape.steps)
        crowd.empty()
    return simulator.snapshot()


class _Crowd:
    """Many allocations, from many places, in many spans."""

    def __init__(self, simulator: Simulator, shape: Shape, device: int, rng: random.Random) -> None:
        self.simulator, self.shape, self.device, self.rng = simulator, shape, device, rng
        self.kept: list[Block] = []
        self.open: list[str] = []
        self.calls = max(shape.live, shape.stacks, shape.annotations, 512 if shape.depth else 0)
        self._shared: dict[tuple[str, str, int], Frame] = {}

    def fill(self) -> None:
        """Allocate; what is more than ``live`` is freed at once."""
        spans = self.shape.annotations / max(self.calls, 1)
        due = 0.0
        stacks = self._stacks()
        for number in range(self.calls):
            due += spans
            if due >= 1:
                due -= 1
                self._begin(f"part {number % 97}")
            self.simulator.set_stack(next(stacks))
            self.simulator.recorder.clock.advance(self.rng.randrange(12))
            block = self.simulator.malloc(self._size(), device=self.device)
            if number < self.shape.live:
                self.kept.append(block)
            else:
                self.simulator.free(block, device=self.device)
        while self.open:
            self._end()

    def empty(self) -> None:
        """Free what was kept, in another order."""
        self.rng.shuffle(self.kept)
        self.simulator.set_stack([self._frame("clear", "data/cache.py", 88)])
        for block in self.kept:
            self.simulator.recorder.clock.advance(self.rng.randrange(6))
            self.simulator.free(block, device=self.device)
        self.kept = []

    def _size(self) -> int:
        return int(LARGEST ** self.rng.uniform(0.3, 1.0))

    def _stacks(self) -> Iterator[list[Frame]]:
        """Yield the stack of one call after another, innermost frame first."""
        distinct = self.shape.stacks or 64
        every = max(self.calls // MOST_DEEP, 1)
        for number in range(self.calls):
            stack = self._branch(number % distinct)
            missing = self.shape.depth - len(stack)
            if number % every == 0 and missing > 0:
                stack = self._recursion(max(missing - number % 7, 0), number % 5) + stack
            yield stack

    def _branch(self, number: int) -> list[Frame]:
        """Return one leaf of the tree of calls."""
        stack = [self._frame("main", "train.py", 57), self._frame("<module>", "train.py", 88)]
        level = 0
        while True:
            number, turn = divmod(number, BRANCHES)
            file = f"model/part_{level}.py"
            stack.insert(0, self._frame(f"call_{turn}", file, 11 + 7 * turn))
            level += 1
            if not number:
                return [self._frame("at::_ops::empty::call", "??", 0), *stack]

    def _recursion(self, depth: int, turn: int) -> list[Frame]:
        inner = self._frame("visit", "model/tree.py", 31 + turn)
        outer = self._frame("_call_impl", "torch/nn/modules/module.py", 1786)
        return ([inner, outer] * (depth // 2 + 1))[:depth]

    def _begin(self, name: str) -> None:
        if len(self.open) == NESTING:
            for _ in range(self.rng.randrange(1, NESTING + 1)):
                self._end()
        self.simulator.recorder.annotate(name, "START", self.device)
        self.open.append(name)

    def _end(self) -> None:
        self.simulator.recorder.annotate(self.open.pop(), "END", self.device)

    def _frame(self, name: str, filename: str, line: int) -> Frame:
        key = (name, filename, line)
        if key not in self._shared:
            self._shared[key] = make_frame(*key)
        return self._shared[key]
