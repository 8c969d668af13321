"""Programs that keep a graph that no backward pass uses, by keeping what the model returned."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from tests.laboratory.programs.inference import GradLeftOn
from tests.laboratory.programs.vision import ResNetTraining


class CollectedOutputs(GradLeftOn):
    """Evaluation that appends what the model returns to a list, for all batches."""

    name = "collects-outputs"
    variants = ("inference-mode",)
    batch = 4

    def build(self) -> None:
        super().build()
        self.outputs: list[torch.Tensor] = []

    def step(self, i: int) -> None:
        for _ in range(3):
            with self.mode():
                ids = torch.randint(512, (self.batch, 128))
                self.watch.note("input", ids)
                self.outputs.append(self.model(ids))


class SummedLosses(GradLeftOn):
    """Evaluation that adds up its losses with their graphs, and takes their number at the end."""

    name = "sums-losses"
    variants = ("inference-mode",)
    batch = 4
    calls = 3

    def build(self) -> None:
        super().build()
        self.total = torch.zeros(())

    def step(self, i: int) -> None:
        for _ in range(self.calls):
            with self.mode():
                ids = torch.randint(512, (self.batch, 129))
                self.watch.note("input", ids)
                logits = self.model(ids[:, :-1])
                self.total = self.total + functional.cross_entropy(
                    logits.view(-1, logits.shape[-1]), ids[:, 1:].reshape(-1)
                )


class CollectingValidation(ResNetTraining):
    """Each step of training is followed by an evaluation that keeps what the model returned."""

    name = "validates-collecting"
    variants: Any = ("inference-mode",)  # other changes than its elder's
    batch = 4

    def step(self, i: int) -> None:
        super().step(i)
        self.outputs = [self.returned() for _ in range(4)]

    def returned(self) -> torch.Tensor:
        """Return the model's output for one batch."""
        with torch.inference_mode() if self.on("inference-mode") else torch.enable_grad():
            images, labels = self.make_batch(8)
            self.watch.note("input", images, labels)
            output: torch.Tensor = self.model(images)
            return output


PROGRAMS = (CollectedOutputs, SummedLosses, CollectingValidation)
