"""A callback for Lightning's Trainer that records some of its batches."""

from __future__ import annotations

import sys
from typing import Any

from snapreport.recorders.hosts.steps import StepCallback

# One package has two names; the Trainer in use decides.
if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
    from pytorch_lightning import Callback
else:
    try:
        from lightning.pytorch import Callback
    except ModuleNotFoundError:
        from pytorch_lightning import Callback

_Passed = Any
"""A Trainer, its module, a batch: we do not change them."""


class MemoryCallback(StepCallback, Callback):
    """Records the memory of a Trainer's first training batches, or of later ones.

    Each batch is a stage; the roles of parameters, gradients and optimizer states are exact. The
    files are written as soon as the last batch is done, or when training fails: the exception then
    has a note with the report's path.
    """

    def on_train_start(self, trainer: _Passed, pl_module: _Passed) -> None:
        """Start recording, or wait for the first batch to record."""
        self._begin(pl_module, trainer.optimizers)

    def on_train_batch_start(
        self, trainer: _Passed, pl_module: _Passed, batch: _Passed, batch_idx: int
    ) -> None:
        """Open the batch's stage."""
        self._step_begins()

    def on_train_batch_end(
        self, trainer: _Passed, pl_module: _Passed, outputs: _Passed, batch: _Passed, batch_idx: int
    ) -> None:
        """Close the batch's stage, and end the recording after the last batch."""
        self._step_ends()

    def on_train_end(self, trainer: _Passed, pl_module: _Passed) -> None:
        """End the recording if training ends before the last batch to record."""
        self._end()

    def on_exception(self, trainer: _Passed, pl_module: _Passed, exception: BaseException) -> None:
        """End the recording if training failed or was interrupted."""
        self._end(exception)
