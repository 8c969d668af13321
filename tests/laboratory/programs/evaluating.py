"""Programs that train, and evaluate with gradients on what has no need of them."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch.nn import functional

from tests.laboratory.programs.language import LanguageTraining
from tests.laboratory.programs.vision import ResNetTraining


class GradInEvaluation(LanguageTraining):
    """After each step a larger batch is only looked at."""

    name = "evaluates-with-grad"
    variants = ("inference-mode", "smaller-batch:2", "checkpoint")
    batch = 2
    shape = {"layers": 4, "width": 96}  # noqa: RUF012

    def mode(self) -> Any:
        """Return what the evaluation runs in."""
        return torch.inference_mode() if self.on("inference-mode") else nullcontext()

    def step(self, i: int) -> None:
        super().step(i)
        with self.mode():
            batch = self.make_batch(8 // self.number("smaller-batch"))
            self.watch.note("input", *batch)
            self.said = self.loss(*batch).item()


class ValidatedResNet(ResNetTraining):
    """Every other step goes through several batches of validation, and keeps what was said."""

    name = "validates-with-grad"
    variants: Any = ("inference-mode", "smaller-batch:2")  # other changes than its elder's
    batch = 4

    def step(self, i: int) -> None:
        super().step(i)
        if i % 2:
            self.said = [self.judged() for _ in range(3)]

    def judged(self) -> torch.Tensor:
        """Return the model's best guesses for one batch."""
        with torch.inference_mode() if self.on("inference-mode") else nullcontext():
            images, labels = self.make_batch(12 // self.number("smaller-batch"))
            self.watch.note("input", images, labels)
            logits = self.model(images)
            self.loss_now = functional.cross_entropy(logits, labels).item()
            return logits.argmax(-1)


class SkippedSteps(LanguageTraining):
    """Every third step leaves its batch out after the forward pass, as for a loss that is NaN."""

    name = "skipped-steps"
    variants = ("smaller-batch:2",)
    batch = 4
    shape = {"layers": 3, "width": 96}  # noqa: RUF012

    def step(self, i: int) -> None:
        self.optimizer.zero_grad()
        for batch in self.batches():
            loss = self.loss(*batch)
            if i % 3 != 2:
                loss.backward()
                self.optimizer.step()


PROGRAMS = (GradInEvaluation, ValidatedResNet, SkippedSteps)
