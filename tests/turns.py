"""A small training loop, event by event: where its passes and its turns are is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.builders import KIB, MIB, TraceBuilder, frame, trace

_FRAMES = {
    "forward": ("forward", "torch/nn/modules/linear.py"),
    "backward": ("_engine_run_backward", "torch/autograd/graph.py"),
    "step": ("step", "torch/optim/adamw.py"),
    "clear": ("zero_grad", "torch/optim/optimizer.py"),
    "build": ("reset_parameters", "torch/nn/modules/linear.py"),
}


@dataclass
class Turns:
    """Builds the loop; bounds are counted in events, and lie before the event of that number."""

    layers: int = 3
    work: int = 12
    """Allocations that each optimizer's step makes and frees again."""
    clears: str = "late"
    """When gradients are dropped: ``first`` in the turn, ``late`` (after forward) or ``last``."""
    batch: bool = True
    """Whether each turn makes a batch and drops it in the end; else a turn ends with its step."""
    stages: bool = True
    builder: TraceBuilder = field(default_factory=trace)
    backward: list[tuple[int, int]] = field(default_factory=list)
    """First and last event of each backward pass."""
    steps: list[tuple[int, int]] = field(default_factory=list)
    """First event of each optimizer step, and the first after it."""
    forward: list[int] = field(default_factory=list)
    """The first event of each forward pass."""

    def build(self) -> Turns:
        """Make the parameters."""
        for layer in range(self.layers):
            self.builder.alloc(f"p{layer}", MIB, frames=self._stack("build", layer))
        return self

    def train(self, optimizers: tuple[str, ...] = ("AdamW",), layers: int | None = None) -> Turns:
        """One forward pass, one backward pass, and a step of each optimizer."""
        b, layers = self.builder, layers or self.layers
        if self.clears == "first":
            self._clear()
        if self.batch:
            b.alloc("batch", 64 * KIB, frames=[frame("main", line=1)])
        self.forward.append(len(b.events))
        for layer in range(layers):
            b.alloc(f"a{layer}", MIB, frames=self._stack("forward", layer))
        if self.clears == "late":
            self._clear()
        first = len(b.events)
        for layer in reversed(range(layers)):
            b.alloc(f"g{layer}", MIB, frames=self._stack("backward", layer))
            b.free(f"a{layer}", frames=self._stack("backward", layer))
        self.backward.append((first, len(b.events) - 1))
        for name in optimizers:
            self._step(name, layers)
        if self.batch:
            b.free("batch", frames=[frame("main", line=9)])
        if self.clears == "last":
            self._clear()
        return self

    def _step(self, name: str, layers: int) -> None:
        b, first = self.builder, len(self.builder.events)
        if f"{name}.state{layers}" not in b._places:
            b.alloc(f"{name}.state{layers}", layers * MIB, frames=self._stack("step", 0))
        for place in range(self.work + layers):
            b.alloc("work", KIB, frames=self._stack("step", place)).free(
                "work", frames=self._stack("step", place)
            )
        if self.stages:
            stage = f"Optimizer.step#{name}.step"
            b.start(stage, 10 * first - 1).end(stage, 10 * len(b.events) - 1)
        self.steps.append((first, len(b.events)))

    def _clear(self) -> None:
        b = self.builder
        for place in [place for place in b._places if place[0] == "g"]:
            if self._live(place):
                b.free(place, frames=self._stack("clear", 0))

    def _live(self, place: str) -> bool:
        addr = self.builder.address(place)
        of_it = [event["action"] for event in self.builder.events if event["addr"] == addr]
        return bool(of_it[-1] == "alloc")

    def _stack(self, part: str, line: int) -> list[dict[str, Any]]:
        name, file = _FRAMES[part]
        outer = [*_FRAMES].index(part) + 2
        return [frame("kernel", "??", line), frame(name, file, line), frame("main", line=outer)]
