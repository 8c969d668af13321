"""Programs whose weights are cast by autocast, which keeps the copies until its block ends."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch

from tests.laboratory.programs.inference import GradLeftOn
from tests.laboratory.programs.language import LanguageModel, LanguageTraining

LENGTH = 80
"""Tokens, so that no result has half of a weight's size."""


class AutocastInference(GradLeftOn):
    """Inference under autocast, with several batches in one of its blocks."""

    name = "autocast-no-grad"
    variants: tuple[str, ...] = ("autocast-cache", "low-precision-weights", "smaller-batch:2")
    batch = 2
    autocasts = True
    gradients = False

    def build(self) -> None:
        torch.manual_seed(0)
        self.model = LanguageModel(layers=6, width=192)
        if self.on("low-precision-weights"):
            self.model.to(torch.bfloat16)
        self.modules = [self.model]

    def mode(self) -> Any:
        return nullcontext() if self.gradients else torch.no_grad()

    def step(self, i: int) -> None:
        cast = not self.on("low-precision-weights")
        keep = not self.on("autocast-cache")
        mode = torch.inference_mode() if self.on("inference-mode") else self.mode()
        with mode, torch.autocast("cpu", torch.bfloat16, enabled=cast, cache_enabled=keep):
            for _ in range(2):
                ids = torch.randint(512, (self.batch // self.number("smaller-batch"), LENGTH))
                self.watch.note("input", ids)
                self.best = self.model(ids).argmax(-1)


class AutocastForward(AutocastInference):
    """The same with gradients, so that a graph keeps the copies that it used."""

    name = "autocast-with-grad"
    variants = (*AutocastInference.variants, "inference-mode")
    gradients = True


class AutocastTraining(LanguageTraining):
    """A usual step under autocast, in which copies of weights are much of the peak."""

    name = "autocast-training"
    variants = ("checkpoint", "smaller-batch:2", "accumulate:2", "autocast-cache")
    batch = 2
    length = LENGTH
    shape = {"layers": 6, "width": 192}  # noqa: RUF012
    autocasts = True

    def autocast(self) -> Any:
        return torch.autocast("cpu", torch.bfloat16, cache_enabled=not self.on("autocast-cache"))

    def make_optimizer(self, parameters: Any) -> Any:
        return torch.optim.SGD(parameters, lr=self.rate, foreach=False)


PROGRAMS = (AutocastInference, AutocastForward, AutocastTraining)
