"""Networks of convolutions: a ResNet, a U-Net, and a generator with its critic."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils import checkpoint

from tests.laboratory.programs.base import Program, Training


class Residual(nn.Module):
    """The basic block of a ResNet."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outside)
        self.short = nn.Identity() if inside == outside else nn.Conv2d(inside, outside, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.norm1(self.conv1(x)), inplace=True)
        return functional.relu(self.norm2(self.conv2(y)) + self.short(x))


class ResNet(nn.Module):
    """A small ResNet."""

    def __init__(self) -> None:
        super().__init__()
        self.checkpointed = False
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16))
        shapes = ((16, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1))
        self.blocks = nn.ModuleList(Residual(*shape) for shape in shapes)
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.stem(x))
        for block in self.blocks:
            if self.checkpointed:
                x = checkpoint.checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
        return self.head(x.mean((2, 3)))


class ResNetTraining(Training):
    """SGD with momentum; gradients are dropped only after the forward pass."""

    name = "resnet"
    variants = (
        "checkpoint", "smaller-batch:2", "accumulate:2", "bf16-activations", "free-earlier",
        "foreach-off", "fused-optimizer",
    )  # fmt: skip
    batch = 8

    def make_model(self) -> Any:
        model = ResNet()
        model.checkpointed = self.on("checkpoint")
        return model

    def make_optimizer(self, parameters: Iterable[Any]) -> Any:
        fused = self.on("fused-optimizer")
        foreach = not fused and not self.on("foreach-off")
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, foreach=foreach, fused=fused)

    def make_batch(self, size: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(size, 3, 48, 48), torch.randint(10, (size,))

    def loss(self, *batch: torch.Tensor) -> torch.Tensor:
        images, labels = batch
        return functional.cross_entropy(self.model(images), labels)

    def step(self, i: int) -> None:
        if self.on("free-earlier") or self.on("accumulate"):
            super().step(i)
            return
        (batch,) = self.batches()
        with self.autocast():
            loss = self.loss(*batch)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def double(inside: int, outside: int) -> nn.Module:
    """Return the two convolutions of one level of a U-Net."""
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, padding=1), nn.GroupNorm(4, outside), nn.SiLU(),
        nn.Conv2d(outside, outside, 3, padding=1), nn.GroupNorm(4, outside), nn.SiLU(),
    )  # fmt: skip


class UNet(nn.Module):
    """A small U-Net, with what each level gives kept for the way up."""

    def __init__(self) -> None:
        super().__init__()
        self.checkpointed = False
        widths = (3, 16, 32, 64, 128)
        self.down = nn.ModuleList(double(a, b) for a, b in itertools.pairwise(widths))
        self.up = nn.ModuleList(double(b + a, a) for a, b in ((64, 128), (32, 64), (16, 32)))
        self.head = nn.Conv2d(16, 3, 1)

    def _level(self, level: nn.Module, x: torch.Tensor) -> Any:
        if self.checkpointed:
            return checkpoint.checkpoint(level, x, use_reentrant=False)
        return level(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skips = []
        for level in self.down:
            x = self._level(level, x)
            skips.append(x)
            x = functional.max_pool2d(x, 2)
        x = skips.pop()
        for level in self.up:
            x = functional.interpolate(x, scale_factor=2.0)
            x = self._level(level, torch.cat([x, skips.pop()], 1))
        return self.head(x)


class UNetTraining(Training):
    """Restore noisy images; the last result is kept to be shown."""

    name = "unet"
    variants = (
        "checkpoint", "smaller-batch:2", "accumulate:2", "bf16-activations", "foreach-off",
        "fused-optimizer", "low-bit-state", "sgd-for-adam", "free-earlier",
    )  # fmt: skip
    batch = 4

    def make_model(self) -> Any:
        model = UNet()
        model.checkpointed = self.on("checkpoint")
        return model

    def make_batch(self, size: int) -> tuple[torch.Tensor, ...]:
        images = torch.rand(size, 3, 64, 64)
        return images + 0.1 * torch.randn_like(images), images

    def loss(self, *batch: torch.Tensor) -> torch.Tensor:
        noisy, images = batch
        restored = self.model(noisy)
        if not self.on("free-earlier"):
            self.restored = restored
        return functional.mse_loss(restored, images)


class Gan(Program):
    """A generator and a critic, each with an optimizer."""

    name = "gan"
    variants = (
        "smaller-batch:2", "foreach-off", "fused-optimizer", "free-earlier", "sgd-for-adam",
    )  # fmt: skip

    def build(self) -> None:
        torch.manual_seed(0)
        self.generator = nn.Sequential(
            nn.Linear(64, 128 * 64), nn.Unflatten(1, (128, 8, 8)),
            nn.ConvTranspose2d(128, 64, 4, 2, 1), nn.BatchNorm2d(64), nn.ReLU(),
            nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.BatchNorm2d(32), nn.ReLU(),
            nn.Conv2d(32, 3, 3, padding=1), nn.Tanh(),
        )  # fmt: skip
        self.critic = nn.Sequential(
            nn.Conv2d(3, 32, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(32, 64, 4, 2, 1), nn.BatchNorm2d(64), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(64 * 64, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1),
        )  # fmt: skip
        self.modules = [self.generator, self.critic]
        self.optimizers = [self._optimizer(each) for each in self.modules]

    def _optimizer(self, model: nn.Module) -> Any:
        if self.on("sgd-for-adam"):
            return torch.optim.SGD(model.parameters(), lr=1e-3, foreach=True)
        fused = self.on("fused-optimizer")
        foreach = not fused and not self.on("foreach-off")
        return torch.optim.Adam(model.parameters(), lr=1e-4, foreach=foreach, fused=fused)

    def step(self, i: int) -> None:
        size = 8 // self.number("smaller-batch")
        real, noise = torch.rand(size, 3, 32, 32), torch.randn(size, 64)
        self.watch.note("input", real, noise)
        of_generator, of_critic = self.optimizers
        of_critic.zero_grad()
        made = self.generator(noise)
        loss = (
            functional.softplus(-self.critic(real)).mean()
            + functional.softplus(self.critic(made.detach())).mean()
        )
        loss.backward()
        of_critic.step()
        if self.on("free-earlier"):
            of_critic.zero_grad()
            self.critic.requires_grad_(False)
        of_generator.zero_grad()
        functional.softplus(-self.critic(made)).mean().backward()
        of_generator.step()
        self.critic.requires_grad_(True)
        if self.on("free-earlier"):
            of_generator.zero_grad()


PROGRAMS = (ResNetTraining, UNetTraining, Gan)
