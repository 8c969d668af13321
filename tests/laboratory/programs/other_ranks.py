"""Programs on two ranks that the rules were not made for: other optimizers, buckets and models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import distributed
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from tests.laboratory.programs.ranks import OnTwoRanks
from tests.laboratory.programs.vision import ResNet


class CopiedGradients(OnTwoRanks):
    """Gradients lie beside the buckets, as DDP has it by default; several small buckets."""

    name = "copied-gradients"
    variants: tuple[str, ...] = ("smaller-batch:2", "low-bit-state")
    batch = 2
    shape = {"layers": 5, "width": 160}  # noqa: RUF012
    views = False

    def make_model(self) -> Any:
        self.inner = super(OnTwoRanks, self).make_model()
        return self.noted(
            DistributedDataParallel(
                self.inner, gradient_as_bucket_view=self.views, init_sync=False, bucket_cap_mb=2
            )
        )

    def noted(self, model: DistributedDataParallel) -> DistributedDataParallel:
        """Tell which memory its buckets are."""

        # PyTorch looks at annotations of a hook, and does not know those that are texts.
        model.register_comm_hook(None, lambda _, bucket: self.reduced(bucket))
        return model

    def reduced(self, bucket: Any) -> Any:
        """Add one up over the ranks."""
        self.watch.note("communication buffer", bucket.buffer())
        return allreduce_hook(distributed.group.WORLD, bucket)


class MomentumRanks(CopiedGradients):
    """The same memory is gradient and bucket, and each parameter has one state."""

    name = "ranks-with-momentum"
    variants = ("smaller-batch:2",)
    batch = 3
    views = True

    def make_optimizer(self, parameters: Iterable[Any]) -> Any:
        return torch.optim.SGD(parameters, lr=self.rate, momentum=0.9, foreach=True)


class ResNetRanks(CopiedGradients):
    """Convolutions with buffers, gradients that are set to zero in place, and one state."""

    name = "ranks-in-place"
    variants = ("smaller-batch:2",)
    batch = 4

    def make_model(self) -> Any:
        torch.manual_seed(0)
        self.inner = ResNet()
        return self.noted(
            DistributedDataParallel(self.inner, init_sync=False, broadcast_buffers=False)
        )

    def make_optimizer(self, parameters: Iterable[Any]) -> Any:
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, foreach=True)

    def make_batch(self, size: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(size, 3, 48, 48), torch.randint(10, (size,))

    def loss(self, *batch: torch.Tensor) -> torch.Tensor:
        images, labels = batch
        return torch.nn.functional.cross_entropy(self.model(images), labels)

    def step(self, i: int) -> None:
        (batch,) = self.batches()
        self.loss(*batch).backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)


PROGRAMS = (CopiedGradients, MomentumRanks, ResNetRanks)
