"""Residual blocks whose ``forward`` has several lines that keep memory, called in several ways."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils import checkpoint

from tests.laboratory.programs.base import Training


class Projected(nn.Module):
    """A residual block of modules alone, with a projection where the width changes."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outside)
        self.relu = nn.ReLU()
        self.skip: nn.Module = nn.Identity()
        if inside != outside:
            self.skip = nn.Sequential(nn.Conv2d(inside, outside, 1), nn.BatchNorm2d(outside))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.norm1(self.conv1(x)))
        return self.relu(self.norm2(self.conv2(y)) + self.skip(x))


class Gated(nn.Module):
    """A residual block whose own lines keep memory, beside those of its modules."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(inside)
        self.wide = nn.Linear(inside, 2 * outside)
        self.out = nn.Linear(outside, outside)
        self.skip = nn.Linear(inside, outside) if inside != outside else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = self.wide(self.norm(x)).chunk(2, -1)
        return self.out(functional.silu(a) * b) + self.skip(x)


WIDTHS = (16, 16, 32, 32, 64, 64, 64)


class Residuals(nn.Module):
    """Six blocks in a loop, each made by one function."""

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.checkpointed = False
        self.blocks = nn.ModuleList(kind(a, b) for a, b in itertools.pairwise(WIDTHS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = (
                checkpoint.checkpoint(block, x, use_reentrant=False)
                if self.checkpointed
                else block(x)
            )
        return x


class ProjectedTraining(Training):
    """Images through residual blocks with projections."""

    name = "projected-residuals"
    variants = ("checkpoint", "smaller-batch:2", "accumulate:2")
    kind: Any = Projected

    def make_model(self) -> Any:
        model = Residuals(self.kind)
        model.checkpointed = self.on("checkpoint")
        return model

    def make_batch(self, size: int) -> tuple[torch.Tensor, ...]:
        return (torch.randn(size, 16, 40, 40),)

    def loss(self, *batch: torch.Tensor) -> torch.Tensor:
        return self.model(*batch).square().mean()


class GatedTraining(ProjectedTraining):
    """Tokens through gated residual blocks."""

    name = "gated-residuals"
    kind: Any = Gated

    def make_batch(self, size: int) -> tuple[torch.Tensor, ...]:
        return (torch.randn(size, 1600, 16),)


class Mixed(nn.Module):
    """A layer that mixes tokens, then features; each of the two may be checkpointed alone."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def mixed(self, x: torch.Tensor) -> torch.Tensor:
        a, b, c = self.mix(x).chunk(3, -1)
        return self.out(functional.silu(a) * b + c)

    def fed(self, x: torch.Tensor) -> torch.Tensor:
        return self.narrow(functional.gelu(self.wide(x)))

    def forward(self, x: torch.Tensor, parts: str = "") -> torch.Tensor:
        if "mixed" in parts:
            x = x + checkpoint.checkpoint(self.mixed, self.norm1(x), use_reentrant=False)
        else:
            x = x + self.mixed(self.norm1(x))
        if "fed" in parts:
            return x + checkpoint.checkpoint(self.fed, self.norm2(x), use_reentrant=False)
        return x + self.fed(self.norm2(x))


class MixedLayers(nn.Module):
    """Eight layers in a loop, of which parts are checkpointed, or each as a whole."""

    def __init__(self, parts: str, whole: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Mixed(64) for _ in range(8))
        self.parts, self.whole = parts, whole

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            if self.whole:
                x = checkpoint.checkpoint(layer, x, use_reentrant=False)
            else:
                x = layer(x, self.parts)
        return x


class FedCheckpoints(ProjectedTraining):
    """A checkpoint around a part of each layer: wrapping the layer keeps less."""

    name = "part-checkpoints"
    parts = "fed"

    def make_model(self) -> Any:
        return MixedLayers(self.parts, self.on("checkpoint"))

    def make_batch(self, size: int) -> tuple[torch.Tensor, ...]:
        return (torch.randn(size, 400, 64),)


class BothCheckpoints(FedCheckpoints):
    """Checkpoints around both parts of each layer: what lies between them is still kept."""

    name = "two-checkpoints"
    parts = "mixed fed"


PROGRAMS = (ProjectedTraining, GatedTraining, FedCheckpoints, BothCheckpoints)
