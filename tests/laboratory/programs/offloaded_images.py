"""Programs of convolutions and images that keep activations in memory that is not recorded."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch

from tests.laboratory.programs.base import Training
from tests.laboratory.programs.offloading import pack, unpack
from tests.laboratory.programs.others import Images
from tests.laboratory.programs.vision import ResNetTraining, UNetTraining


class OffloadingActivations(Training):
    """``torch.autograd.graph.save_on_cpu`` for a program that runs on the CPU itself."""

    def loss(self, *batch: torch.Tensor) -> torch.Tensor:
        hooks = torch.autograd.graph.saved_tensors_hooks(pack, unpack)
        with hooks if self.on("offload-activations") else nullcontext():
            return super().loss(*batch)


class OffloadedUNet(OffloadingActivations, UNetTraining):
    """The program itself holds on to what each level gives."""

    name = "offloaded-unet"
    variants: Any = ("offload-activations",)


class OffloadedResNet(OffloadingActivations, ResNetTraining):
    """Gradients are dropped only after the forward pass."""

    name = "offloaded-resnet"
    variants: Any = ("offload-activations",)


class OffloadedImages(OffloadingActivations, Images):
    """PyTorch's own layers of a transformer."""

    name = "offloaded-images"
    variants: Any = ("offload-activations",)


PROGRAMS = (OffloadedUNet, OffloadedResNet, OffloadedImages)
