"""Programs that keep their data where the model is: a whole set of samples, and old experience."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from tests.laboratory.programs.base import Training


class SamplesInMemory(Training):
    """Batches are taken out of all samples, which stay; the first layer is frozen."""

    name = "samples-in-memory"
    variants: tuple[str, ...] = ("smaller-batch:2", "low-bit-state")
    batch = 512

    def make_model(self) -> Any:
        model = nn.Sequential(
            nn.Linear(96, 640), nn.ReLU(), nn.Linear(640, 640), nn.ReLU(), nn.Linear(640, 12)
        )
        model[0].requires_grad_(False)
        return model

    def make_optimizer(self, parameters: Any) -> Any:
        return super().make_optimizer([each for each in parameters if each.requires_grad])

    def build(self) -> None:
        super().build()
        self.samples, self.labels = torch.randn(7000, 96), torch.randint(12, (7000,))
        self.watch.note("input", self.samples, self.labels)

    def make_batch(self, size: int) -> tuple[torch.Tensor, ...]:
        chosen = torch.randint(7000, (size,))
        return self.samples[chosen], self.labels[chosen]

    def loss(self, *batch: torch.Tensor) -> torch.Tensor:
        samples, labels = batch
        return functional.cross_entropy(self.model(samples), labels)


PROGRAMS = (SamplesInMemory,)
