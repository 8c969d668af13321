"""Odd programs: reentrant checkpoints, k-means, LBFGS, and a stream that is evaluated."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils import checkpoint

from tests.laboratory.programs.base import Program, Training
from tests.laboratory.programs.language import LanguageTraining


class Reentrant(LanguageTraining):
    """Checkpoints of the old kind, autocast, SGD with Nesterov momentum, clipped gradients."""

    name = "reentrant-checkpoints"
    variants = ("smaller-batch:2", "accumulate:2", "chunked-loss:8")
    batch = 4
    shape = {"layers": 5, "width": 128}  # noqa: RUF012

    def make_optimizer(self, parameters: Any) -> Any:
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, nesterov=True)

    def loss(self, *batch: torch.Tensor) -> torch.Tensor:
        ids, targets = batch
        model = self.model
        with torch.autocast("cpu", torch.bfloat16):
            x = model.tokens(ids) + model.places(torch.arange(ids.shape[1]))
            for block in model.blocks:
                x = checkpoint.checkpoint(block, x, use_reentrant=True)
            x = model.norm(x)
            if self.number("chunked-loss") > 1:
                return self.chunked_loss(x, targets, self.number("chunked-loss"))
            logits = model.head(x)
            return functional.cross_entropy(logits.view(-1, self.vocabulary), targets.reshape(-1))

    def step(self, i: int) -> None:
        for batch in self.batches():
            self.loss(*batch).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()


class Means(Program):
    """K-means from several starts; the assignments of each are kept in a list."""

    name = "k-means"
    variants = ("smaller-batch:2",)

    def build(self) -> None:
        torch.manual_seed(0)
        self.points = torch.randn(6000 // self.number("smaller-batch"), 16)
        self.found: list[torch.Tensor] = []

    def step(self, i: int) -> None:
        centres = self.points[torch.randperm(len(self.points))[:32]].clone()
        for _ in range(40):
            nearest = torch.cdist(self.points, centres).argmin(1)
            sums = torch.zeros_like(centres).index_add_(0, nearest, self.points)
            counts = torch.bincount(nearest, minlength=32).clamp(min=1)
            centres = sums / counts.unsqueeze(1)
        self.found.append(nearest)


class SecondOrder(Training):
    """LBFGS with its closure, on a model of which half is frozen."""

    name = "second-order"
    variants = ("smaller-batch:2",)
    batch = 256

    def make_model(self) -> Any:
        model = nn.Sequential(
            nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 1)
        )
        model[0].requires_grad_(False)
        return model

    def make_optimizer(self, parameters: Any) -> Any:
        return torch.optim.LBFGS(
            [p for p in parameters if p.requires_grad], max_iter=4, history_size=5
        )

    def make_batch(self, size: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(size, 64), torch.randn(size, 1)

    def loss(self, *batch: torch.Tensor) -> torch.Tensor:
        return functional.mse_loss(self.model(batch[0]), batch[1])

    def step(self, i: int) -> None:
        (batch,) = self.batches()

        def closure() -> Any:
            self.optimizer.zero_grad()
            loss = self.loss(*batch)
            loss.backward()
            return loss

        self.optimizer.step(closure)


class Streaming(LanguageTraining):
    """Trains, and evaluates with no_grad() over a stream whose logits are collected in a list."""

    name = "streaming-evaluation"
    variants = ("smaller-batch:2", "free-earlier", "low-bit-state")
    batch = 2
    shape = {"layers": 3, "width": 96}  # noqa: RUF012

    def step(self, i: int) -> None:
        super().step(i)
        if self.on("free-earlier"):
            self.optimizer.zero_grad()
        self.model.eval()
        said, right = [], 0
        with torch.no_grad():
            for _ in range(6):
                (batch,) = self.batches()
                logits = self.model(batch[0])
                said.append(logits)
                right += int((logits.argmax(-1) == batch[1]).sum())
            self.mean = float(torch.cat(said).softmax(-1).amax(-1).mean())
        self.model.train()


PROGRAMS = (Reentrant, Means, SecondOrder, Streaming)
