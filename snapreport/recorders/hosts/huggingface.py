"""A callback for the Trainer of Hugging Face Transformers that records some of its steps."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from snapreport.recorders.hosts.steps import StepCallback

_Passed = Any
"""The arguments, state and control that a Trainer passes; we do not change them."""


class MemoryCallback(StepCallback, TrainerCallback):
    """Records the memory of a Trainer's first optimizer steps, or of later ones.

    Each step is a stage that includes its gradient accumulation; the roles of parameters, gradients
    and optimizer states are exact. The files are written as soon as the last step is done.

    A Trainer does not pass exceptions to its callbacks. If training fails inside a recorded step,
    the files are written when the program ends, the next training begins, or ``stop()`` is called.
    """

    def stop(self, error: BaseException | None = None) -> None:
        """End the recording now, and make its reports; does nothing if none is running.

        Args:
            error: what ended the training.
        """
        self._end(error)

    def on_train_begin(
        self, args: _Passed, state: _Passed, control: _Passed, **kwargs: Any
    ) -> None:
        """Start recording, or wait for the first step to record."""
        self._begin(kwargs.get("model"), kwargs.get("optimizer"))

    def on_step_begin(self, args: _Passed, state: _Passed, control: _Passed, **kwargs: Any) -> None:
        """Open the step's stage."""
        self._step_begins()

    def on_step_end(self, args: _Passed, state: _Passed, control: _Passed, **kwargs: Any) -> None:
        """Close the step's stage, and end the recording after the last step."""
        self._step_ends()

    def on_train_end(self, args: _Passed, state: _Passed, control: _Passed, **kwargs: Any) -> None:
        """End the recording if training ends before the last step to record."""
        self._end()
