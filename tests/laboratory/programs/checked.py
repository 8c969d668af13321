"""A program so small that the role of each of its allocations can be told by hand."""

from __future__ import annotations

import torch
from torch import nn

from tests.laboratory.programs.base import Program


class Layer(nn.Module):
    """Twice the product of a weight of 300 and a batch of 500, in three products."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(300, 1))
        self.register_buffer("scale", torch.full((700,), 2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.weight * x  # 300 x 500: kept for the next product
        y = y * y
        return y.sum()


class Checked(Program):
    """One weight, one product that is kept, one state."""

    name = "checked"

    def build(self) -> None:
        self.layer = Layer()
        self.modules = [self.layer]
        self.optimizers = [torch.optim.SGD(self.layer.parameters(), 1e-6, 0.9, foreach=False)]

    def step(self, i: int) -> None:
        x = torch.ones(500)
        self.watch.note("input", x)
        for optimizer in self.optimizers:
            optimizer.zero_grad()
            self.layer(x).backward()
            optimizer.step()


PROGRAMS = (Checked,)
