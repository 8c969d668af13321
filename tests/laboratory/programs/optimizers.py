"""Optimizers that PyTorch does not have, and gradients that are never given back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from tests.laboratory.programs.language import LanguageTraining


class LowBitAdam(torch.optim.Optimizer):
    """AdamW that keeps its two averages in 16 bits, one parameter at a time."""

    def __init__(self, parameters: Iterable[Any], lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["count"] = 0
                    state["mean"] = torch.zeros_like(p, dtype=torch.bfloat16)
                    state["square"] = torch.zeros_like(p, dtype=torch.bfloat16)
                state["count"] += 1
                mean = state["mean"].float().lerp_(p.grad, 0.1)
                state["mean"].copy_(mean)
                square = state["square"].float().mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
                state["square"].copy_(square)
                square.div_(1 - 0.999 ** state["count"]).sqrt_().add_(1e-8)
                p.addcdiv_(mean, square, value=-group["lr"] / (1 - 0.9 ** state["count"]))


class Lion(torch.optim.Optimizer):
    """The optimizer of that name, written as a paper's repository would."""

    def __init__(self, parameters: Iterable[Any], lr: float, bits: int) -> None:
        super().__init__(parameters, {"lr": lr})
        self.dtype = torch.bfloat16 if bits == 16 else torch.float32

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(p, dtype=self.dtype)
                momentum = state["momentum"]
                update = momentum.float() * 0.9 + p.grad * 0.1
                p.add_(update.sign(), alpha=-group["lr"])
                momentum.mul_(0.99).add_(p.grad.to(self.dtype), alpha=0.01)


class PlainAdam:
    """Adam in a class of its own, that inherits nothing of PyTorch."""

    def __init__(self, parameters: Iterable[Any], lr: float, bits: int) -> None:
        self.parameters = list(parameters)
        self.lr = lr
        self.dtype = torch.bfloat16 if bits == 16 else torch.float32
        self.state: dict[str, list[torch.Tensor]] = {}
        self.count = 0

    def zero_grad(self) -> None:
        for p in self.parameters:
            p.grad = None

    @torch.no_grad()
    def step(self) -> None:
        if not self.state:
            for name in ("m", "v"):
                self.state[name] = [torch.zeros_like(p, dtype=self.dtype) for p in self.parameters]
        self.count += 1
        for p, m, v in zip(self.parameters, self.state["m"], self.state["v"], strict=True):
            mean = m.float() * 0.9 + p.grad * 0.1
            square = v.float() * 0.999 + p.grad**2 * 0.001
            m.copy_(mean)
            v.copy_(square)
            mean = mean / (1 - 0.9**self.count)
            p -= self.lr * mean / ((square / (1 - 0.999**self.count)).sqrt() + 1e-8)


class CustomOptimizer(LanguageTraining):
    """An optimizer of one's own that is one of PyTorch's."""

    name = "custom-optimizer"
    variants = ("low-bit-state", "smaller-batch:2", "checkpoint", "accumulate:2")
    batch = 2
    shape = {"layers": 6, "width": 192}  # noqa: RUF012

    def make_optimizer(self, parameters: Iterable[Any]) -> Any:
        return Lion(parameters, 1e-4, 16 if self.on("low-bit-state") else 32)


class PlainOptimizer(LanguageTraining):
    """An optimizer of one's own that PyTorch knows nothing of."""

    name = "plain-optimizer"
    variants = ("low-bit-state", "smaller-batch:2", "checkpoint")
    batch = 2
    shape = {"layers": 6, "width": 192}  # noqa: RUF012

    def make_optimizer(self, parameters: Iterable[Any]) -> Any:
        return PlainAdam(parameters, 1e-4, 16 if self.on("low-bit-state") else 32)

    def step(self, i: int) -> None:
        self.optimizer.zero_grad()
        for batch in self.batches():
            self.loss(*batch).backward()
        with self.watch.phase("optimizer"):
            self.optimizer.step()


class KeptGradients(LanguageTraining):
    """Gradients that are set to zero and never given back, and copied before they are clipped."""

    name = "kept-gradients"
    variants = ("free-earlier", "smaller-batch:2", "checkpoint", "fused-optimizer", "foreach-off")
    batch = 2
    shape = {"layers": 6, "width": 192}  # noqa: RUF012

    def step(self, i: int) -> None:
        self.optimizer.zero_grad(set_to_none=self.on("free-earlier"))
        for batch in self.batches():
            self.loss(*batch).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()


class WideModel(LanguageTraining):
    """Few tokens and many parameters: the peak is in the optimizer's step."""

    name = "wide-model"
    variants = (
        "foreach-off", "fused-optimizer", "low-bit-state", "sgd-for-adam", "checkpoint",
        "free-earlier",
    )  # fmt: skip
    batch = 1
    length = 32
    shape = {"layers": 4, "width": 256}  # noqa: RUF012

    def step(self, i: int) -> None:
        super().step(i)
        if self.on("free-earlier"):
            self.optimizer.zero_grad()


class DecayedMomentum(LanguageTraining):
    """Likewise, with SGD, whose weight decay copies all gradients at a time."""

    name = "decayed-momentum"
    variants = ("foreach-off", "fused-optimizer", "checkpoint", "accumulate:2")
    batch = 2
    length = 32
    shape = {"layers": 4, "width": 256}  # noqa: RUF012

    def make_optimizer(self, parameters: Iterable[Any]) -> Any:
        fused = self.on("fused-optimizer")
        foreach = not fused and not self.on("foreach-off")
        return torch.optim.SGD(
            parameters, lr=0.1, momentum=0.9, weight_decay=1e-4, foreach=foreach, fused=fused
        )


PROGRAMS = (CustomOptimizer, PlainOptimizer, KeptGradients, WideModel, DecayedMomentum)
