"""A callback for Lightning's Trainer that records some of its batches."""

from __future__ import annotations

import sys
from typing import Any

from snapreport.integrations.steps import StepCallback

# The one package under its two names; whose Trainer it is decides.
if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
    from pytorch_lightning import Callback
else:
    try:
        from lightning.pytorch import Callback
    except ModuleNotFoundError:
        from pytorch_lightning import Callback

Told = Any
"""A Trainer, its module, a batch: they stay as they are."""


class MemoryCallback(StepCallback, Callback):
    """Records the memory of a Trainer's first training batches, or of later ones.

    Each batch is a stage; parameters, gradients and optimizer states are told exactly. The files
    are there as soon as the last of the batches is done, or the training fails: its exception
    then has a note with the report.
    """

    def on_train_start(self, trainer: Told, pl_module: Told) -> None:
        """Begin, or wait for the first batch to record."""
        self._begin(pl_module, trainer.optimizers)

    def on_train_batch_start(
        self, trainer: Told, pl_module: Told, batch: Told, batch_idx: int
    ) -> None:
        """Open the batch's stage."""
        self._step_begins()

    def on_train_batch_end(
        self, trainer: Told, pl_module: Told, outputs: Told, batch: Told, batch_idx: int
    ) -> None:
        """Close it, and end the recording after the last."""
        self._step_ends()

    def on_train_end(self, trainer: Told, pl_module: Told) -> None:
        """End the recording of a training that is shorter."""
        self._end()

    def on_exception(self, trainer: Told, pl_module: Told, exception: BaseException) -> None:
        """End the recording of a training that failed or was interrupted."""
        self._end(exception)
