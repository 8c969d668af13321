"""Planted leaks: losses kept with the graph behind them, and outputs that are never dropped."""

from __future__ import annotations

import torch

from tests.laboratory.programs.language import LanguageTraining


class KeptLosses(LanguageTraining):
    """Every step adds up a loss for the log, and with it all that its backward pass would need."""

    name = "leaked-losses"
    variants = ("leak", "smaller-batch:2", "foreach-off")
    batch = 4
    shape = {"layers": 3, "width": 96}  # noqa: RUF012

    def build(self) -> None:
        super().build()
        self.losses: list[torch.Tensor] = []

    def step(self, i: int) -> None:
        super().step(i)
        (batch,) = self.batches()
        loss = self.loss(*batch)
        self.losses.append(loss.detach() if self.on("leak") else loss)


class KeptOutputs(LanguageTraining):
    """Every step keeps the logits of its batch in a cache that nobody empties."""

    name = "leaked-outputs"
    variants = ("leak", "smaller-batch:2", "fused-optimizer")
    batch = 4
    shape = {"layers": 3, "width": 96}  # noqa: RUF012

    def build(self) -> None:
        super().build()
        self.cache: dict[int, torch.Tensor] = {}

    def step(self, i: int) -> None:
        super().step(i)
        (batch,) = self.batches()
        with torch.no_grad():
            logits = self.model(batch[0])
        if not self.on("leak"):
            self.cache[i] = logits


PROGRAMS = (KeptLosses, KeptOutputs)
