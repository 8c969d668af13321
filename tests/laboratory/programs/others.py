"""Programs that the rules were not made for: of other shapes, habits and libraries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils import checkpoint

from tests.laboratory.programs.base import Program, Training
from tests.laboratory.programs.language import LanguageTraining


class VisionTransformer(nn.Module):
    """Patches through PyTorch's own layers of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.checkpointed = False
        self.patches = nn.Conv2d(3, 96, 8, 8)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(96, 4, 256, 0.1, batch_first=True) for _ in range(5)
        )
        self.head = nn.Linear(96, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        for layer in self.layers:
            if self.checkpointed:
                x = checkpoint.checkpoint(layer, x, use_reentrant=False)
            else:
                x = layer(x)
        return self.head(x.mean(1))


class Images(Training):
    """Learn labels of random images."""

    name = "vision-transformer"
    variants: tuple[str, ...] = (
        "checkpoint", "smaller-batch:2", "accumulate:2", "low-bit-state", "fused-optimizer",
    )  # fmt: skip
    batch = 16
    side = 64

    def make_model(self) -> Any:
        model = VisionTransformer()
        model.checkpointed = self.on("checkpoint")
        return model

    def make_batch(self, size: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(size, 3, self.side, self.side), torch.randint(10, (size,))

    def loss(self, *batch: torch.Tensor) -> torch.Tensor:
        images, labels = batch
        return functional.cross_entropy(self.model(images), labels)


class Averaged(Images):
    """Likewise, with an average of the weights, an evaluation after each step, and a schedule."""

    name = "averaged-weights"
    variants = ("smaller-batch:2", "accumulate:2", "low-bit-state", "checkpoint")

    def build(self) -> None:
        super().build()
        self.average = torch.optim.swa_utils.AveragedModel(
            self.model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99)
        )
        self.modules.append(self.average)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 2)

    def step(self, i: int) -> None:
        super().step(i)
        self.schedule.step()
        self.average.update_parameters(self.model)
        self.average.eval()
        with torch.no_grad():
            for batch in self.batches():
                functional.cross_entropy(self.average(batch[0]), batch[1]).item()


class Distillation(LanguageTraining):
    """A small model learns what a large one says, which is run without gradients."""

    name = "distillation"
    variants = ("smaller-batch:2", "accumulate:2", "checkpoint", "low-bit-state")
    batch = 4
    vocabulary = 2048
    length = 64
    shape = {"layers": 3, "width": 64}  # noqa: RUF012

    def build(self) -> None:
        super().build()
        from tests.laboratory.programs.language import LanguageModel

        self.teacher = LanguageModel(4, 192, 4, self.vocabulary, self.length).eval()
        self.modules.append(self.teacher)

    def loss(self, *batch: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            wanted = functional.softmax(self.teacher(batch[0]), -1)
        said = functional.log_softmax(self.model(batch[0]), -1)
        return functional.kl_div(said, wanted, reduction="batchmean")


class Contrastive(Training):
    """Two towers whose similarities grow with the square of the batch."""

    name = "contrastive"
    variants = ("smaller-batch:2", "low-bit-state", "fused-optimizer")
    batch = 768

    def make_model(self) -> Any:
        def tower() -> nn.Module:
            return nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 128))

        return nn.ModuleList([tower(), tower()])

    def make_batch(self, size: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(size, 128), torch.randn(size, 128)

    def loss(self, *batch: torch.Tensor) -> torch.Tensor:
        left, right = (
            functional.normalize(tower(x), dim=-1)
            for tower, x in zip(self.model, batch, strict=True)
        )
        logits = left @ right.t() / 0.07
        return functional.cross_entropy(logits, torch.arange(len(logits)))


class GradientPenalty(Program):
    """A critic whose gradients are differentiated once more, and RMSprop with momentum."""

    name = "gradient-penalty"
    variants = ("smaller-batch:2",)

    def build(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(
            nn.Conv2d(3, 32, 3, 2, 1), nn.SiLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.SiLU(),
            nn.Flatten(), nn.Linear(64 * 64, 256), nn.SiLU(), nn.Linear(256, 1),
        )  # fmt: skip
        self.modules = [self.model]
        self.optimizer = torch.optim.RMSprop(self.model.parameters(), 1e-4, momentum=0.9)
        self.optimizers = [self.optimizer]

    def step(self, i: int) -> None:
        images = torch.rand(32 // self.number("smaller-batch"), 3, 32, 32)
        self.watch.note("input", images)
        images.requires_grad_()
        self.optimizer.zero_grad()
        score = self.model(images).mean()
        with self.watch.phase("backward"):
            (slope,) = torch.autograd.grad(score, images, create_graph=True)
        (score + (slope.flatten(1).norm(dim=1) - 1).square().mean()).backward()
        self.optimizer.step()


class Reinforcement(Program):
    """A Q-network with a copy that follows it, and old experience in a buffer of fixed size."""

    name = "reinforcement"
    variants = ("smaller-batch:2", "low-bit-state")

    def build(self) -> None:
        torch.manual_seed(0)
        self.model, self.target = self._network(), self._network()
        self.target.load_state_dict(self.model.state_dict())
        self.modules = [self.model, self.target]
        if self.on("low-bit-state"):
            from tests.laboratory.programs.optimizers import LowBitAdam

            self.optimizer: Any = LowBitAdam(self.model.parameters(), 1e-3)
        else:
            self.optimizer = torch.optim.Adam(self.model.parameters(), 1e-3)
        self.optimizers = [self.optimizer]
        self.memory = torch.randn(4000, 2, 64)
        self.watch.note("input", self.memory)

    def _network(self) -> nn.Module:
        return nn.Sequential(
            nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 8)
        )

    def step(self, i: int) -> None:
        with torch.no_grad():
            for _ in range(8):
                self.model(self.memory[:1, 0]).argmax(-1)
        chosen = self.memory[torch.randint(4000, (512 // self.number("smaller-batch"),))]
        self.watch.note("input", chosen)
        now, later = chosen.unbind(1)
        with torch.no_grad():
            wanted = 0.99 * self.target(later).max(-1).values
        loss = functional.smooth_l1_loss(self.model(now).max(-1).values, wanted)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            pairs: Iterable[Any] = zip(
                self.model.parameters(), self.target.parameters(), strict=True
            )
            for new, old in pairs:
                old.lerp_(new, 0.01)


PROGRAMS = (
    Images, Averaged, Distillation, Contrastive, GradientPenalty, Reinforcement,
)  # fmt: skip
