"""A program of the laboratory: real PyTorch, small, and the same in every run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from typing import Any

import torch

from tests.laboratory.truth import Watch


class Program:
    """A program, or the same with one change really made.

    A variant is named by the code of the suggestion that it takes, with its number where there is
    one: ``checkpoint``, ``chunked-loss:8``. Several go together: ``checkpoint+chunked-loss:8``.
    Where one number can be had, others can, too.
    """

    name = ""
    variants: tuple[str, ...] = ()
    autocasts = False
    """Whether all that has half of a parameter's size is autocast's copy of one."""

    def __init__(self, variant: str = "", watch: Watch | None = None) -> None:
        self._numbers: dict[str, int] = {}
        codes = {each.partition(":")[0] for each in self.variants}
        for change in variant.split("+") if variant else ():
            code, _, number = change.partition(":")
            if code not in codes:
                raise ValueError(f"{self.name} has no variant {change!r}")
            self._numbers[code] = int(number or 1)
        self.watch = watch or Watch()
        self.modules: list[torch.nn.Module] = []
        self.optimizers: list[Any] = []
        """Whatever holds its state in ``state``."""

    def on(self, code: str) -> bool:
        """Say whether a change is made."""
        return code in self._numbers

    def number(self, code: str) -> int:
        """Return the number of a change, 1 where it is not made."""
        return self._numbers.get(code, 1)

    def build(self) -> None:
        """Make models and optimizers."""
        raise NotImplementedError

    def step(self, i: int) -> None:
        """Do one step."""
        raise NotImplementedError

    def run(self, steps: int, begins: Callable[[int], None]) -> None:
        """Do all steps, and tell of each that it begins."""
        for i in range(steps):
            begins(i)
            self.step(i)


class Training(Program):
    """A usual training loop with AdamW over all parameters at a time."""

    batch = 8
    rate = 1e-3

    def build(self) -> None:
        """Make the model and its optimizer."""
        torch.manual_seed(0)
        self.model = self.make_model()
        self.modules = [self.model]
        self.optimizer = self.make_optimizer(self.model.parameters())
        self.optimizers = [self.optimizer]

    def make_model(self) -> Any:
        """Return the model."""
        raise NotImplementedError

    def make_batch(self, size: int) -> tuple[torch.Tensor, ...]:
        """Return a batch."""
        raise NotImplementedError

    def loss(self, *batch: torch.Tensor) -> torch.Tensor:
        """Run the model forward."""
        raise NotImplementedError

    def make_optimizer(self, parameters: Iterable[Any]) -> Any:
        """Return the optimizer."""
        if self.on("sgd-for-adam"):
            return torch.optim.SGD(parameters, lr=self.rate, foreach=True)
        if self.on("low-bit-state"):
            from tests.laboratory.programs.optimizers import LowBitAdam

            return LowBitAdam(parameters, lr=self.rate)
        fused = self.on("fused-optimizer")
        foreach = not fused and not self.on("foreach-off")
        return torch.optim.AdamW(parameters, lr=self.rate, foreach=foreach, fused=fused)

    def batches(self) -> Iterator[tuple[torch.Tensor, ...]]:
        """Yield the batch of a step, in parts where gradients are accumulated."""
        size = self.batch // self.number("smaller-batch") // self.number("accumulate")
        for _ in range(self.number("accumulate")):
            batch = self.make_batch(size)
            self.watch.note("input", *batch)
            yield batch

    def autocast(self) -> Any:
        """Return what the forward pass runs in."""
        if self.on("bf16-activations"):
            return torch.autocast("cpu", torch.bfloat16)
        return nullcontext()

    def step(self, i: int) -> None:
        """Train on one batch."""
        self.optimizer.zero_grad()
        for batch in self.batches():
            with self.autocast():
                loss = self.loss(*batch)
            loss.backward()
        self.optimizer.step()
