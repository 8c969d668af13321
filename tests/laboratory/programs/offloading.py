"""Programs that keep the optimizer's state, or activations, in memory that is not recorded."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch

from tests.laboratory.programs.language import LanguageTraining, LargeVocabulary, MixtureOfExperts
from tests.laboratory.programs.optimizers import WideModel


class AdamOfHost(torch.optim.Optimizer):
    """AdamW whose state is NumPy's, and which updates one parameter at a time there."""

    def __init__(self, parameters: Iterable[Any], lr: float) -> None:
        super().__init__(parameters, {"lr": lr})
        self.kept: dict[Any, list[Any]] = {}
        self.count = 0

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        self.count += 1
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                gradient = p.grad.numpy()
                mean, square = self.kept.setdefault(
                    p, [np.zeros_like(gradient), np.zeros_like(gradient)]
                )
                mean += 0.1 * (gradient - mean)
                square += 0.001 * (gradient * gradient - square)
                size = group["lr"] / (1 - 0.9**self.count)
                update = mean / (np.sqrt(square / (1 - 0.999**self.count)) + 1e-8)
                p.numpy()[...] -= size * update


def pack(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Copy a tensor out of what is recorded."""
    kept = tensor.detach()
    if kept.dtype == torch.bfloat16:
        kept = kept.view(torch.int16)
    return kept.numpy().copy(), tensor.dtype, tensor.requires_grad


def unpack(packed: tuple[Any, ...]) -> torch.Tensor:
    """Make a tensor of it again."""
    array, dtype, _ = packed
    return torch.from_numpy(array).clone().view(dtype)


class Offloading(LanguageTraining):
    """``torch.autograd.graph.save_on_cpu`` for a program that runs on the CPU itself."""

    def make_optimizer(self, parameters: Iterable[Any]) -> Any:
        if self.on("offload"):
            return AdamOfHost(parameters, self.rate)
        return super().make_optimizer(parameters)

    def loss(self, *batch: torch.Tensor) -> torch.Tensor:
        hooks = torch.autograd.graph.saved_tensors_hooks(pack, unpack)
        with hooks if self.on("offload-activations") else nullcontext():
            return super().loss(*batch)


class OffloadedTransformer(Offloading):
    """The plain case."""

    name = "offloaded"
    variants = ("offload", "offload-activations")
    batch = 4


class OffloadedExperts(Offloading, MixtureOfExperts):
    """Most of it is the optimizer's state."""

    name = "offloaded-experts"
    variants: Any = ("offload", "offload-activations")


class OffloadedVocabulary(Offloading, LargeVocabulary):
    """Most of it is outside of the layers."""

    name = "offloaded-vocabulary"
    variants: Any = ("offload", "offload-activations")


class OffloadedWide(Offloading, WideModel):
    """The peak is in the optimizer's step."""

    name = "offloaded-wide"
    variants: Any = ("offload", "offload-activations")


PROGRAMS = (OffloadedTransformer, OffloadedExperts, OffloadedVocabulary, OffloadedWide)
