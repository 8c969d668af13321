"""Optimizers that run the forward and backward passes themselves, in a closure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from tests.laboratory.programs.language import LanguageTraining


class AdamClosure(LanguageTraining):
    """Adam with a closure, as Lightning's automatic optimization calls it."""

    name = "adam-closure"
    variants: tuple[str, ...] = ("checkpoint", "smaller-batch:2", "accumulate:2")
    shape = {"layers": 4, "width": 96}  # noqa: RUF012

    def closure(self) -> torch.Tensor:
        """Run the passes of one step."""
        with self.watch.closure():
            self.optimizer.zero_grad()
            for batch in self.batches():
                loss = self.loss(*batch)
                loss.backward()
            return loss

    def step(self, i: int) -> None:
        self.optimizer.step(self.closure)


class QuasiNewton(AdamClosure):
    """L-BFGS, which runs its closure several times in a step."""

    name = "lbfgs-closure"
    variants = ("checkpoint",)

    def make_optimizer(self, parameters: Iterable[Any]) -> Any:
        return torch.optim.LBFGS(parameters, max_iter=3, history_size=2)


class Sharpness(torch.optim.Optimizer):
    """Sharpness-aware minimization: a pass, a step uphill, a pass there, and the step itself."""

    def __init__(self, parameters: Iterable[Any], rate: float) -> None:
        super().__init__(parameters, {"rate": rate})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any]) -> None:
        closure = torch.enable_grad()(closure)
        closure()
        weights = [p for group in self.param_groups for p in group["params"]]
        for p in weights:
            self.state[p]["uphill"] = p.grad * 0.05
            p.add_(self.state[p]["uphill"])
        closure()
        for p in weights:
            p.sub_(self.state[p]["uphill"]).sub_(p.grad * self.param_groups[0]["rate"])


class TwoPasses(AdamClosure):
    """An optimizer of one's own with two passes in a step."""

    name = "sharpness-closure"
    variants = ("checkpoint", "smaller-batch:2")

    def make_optimizer(self, parameters: Iterable[Any]) -> Any:
        return Sharpness(parameters, self.rate)


PROGRAMS = (AdamClosure, QuasiNewton, TwoPasses)
