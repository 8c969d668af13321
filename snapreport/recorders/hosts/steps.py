"""Records some steps of another library's training loop, which reports each step by callbacks."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import snapreport
from snapreport.ground.errors import SnapreportError

_LOG = logging.getLogger(__name__)

_STEPS = 10
"""Steps recorded by default: enough to distinguish a leak from a warm-up, and soon over."""


class StepCallback:
    """Records steps ``skip`` to ``skip + steps`` of a loop, each a stage of its own."""

    def __init__(
        self, path: Any, *, skip: int = 0, steps: int | None = _STEPS, **arguments: Any
    ) -> None:
        """Take what to record.

        Args:
            path: the folder for the files.
            skip: how many steps to skip first; a step is what the library calls one.
            steps: how many to record; None for all that follow.
            arguments: of ``snapreport.record()``.

        Raises:
            ValueError, TypeError: an argument is wrong.
        """
        super().__init__()
        if skip < 0 or (steps is not None and steps < 1):
            raise ValueError("skip must be 0 or more, and steps 1 or more")
        snapreport.record(path, **arguments)  # raises for a wrong argument before the training
        self._path = path
        self._skip, self._steps = skip, steps
        self._arguments = arguments
        self._stage = ExitStack()
        self._seen = 0
        self._recording: snapreport.Recording | None = None
        """Of the running training, or of the last one."""

    @property
    def files(self) -> dict[str, Path]:
        """The files of the last recording, by format; empty while it is running."""
        return {} if self._recording is None else self._recording.files

    def _begin(self, modules: Any, optimizers: Any) -> None:
        """Prepare for a training; end a recording that an earlier, failed one left running.

        Raises:
            SnapreportError: the recording should start now, and cannot.
        """
        self._end()
        self._seen = 0
        known = {"modules": modules, "optimizers": optimizers}
        self._recording = snapreport.record(self._path, **{**known, **self._arguments})
        if not self._skip:
            self._recording.start()

    def _step_begins(self) -> None:
        """Note that a step begins; start the recording if it is the first one to record."""
        recording = self._recording
        if recording is None:
            return
        self._stage.close()  # a loop may leave a step early
        if self._skip and self._seen == self._skip and not recording.on:
            try:
                recording.start()
            except SnapreportError as error:  # must not end the training
                _LOG.warning("The steps are not recorded: %s", error)
        if recording.on:
            self._stage.enter_context(snapreport.stage(f"step {self._seen}"))

    def _step_ends(self) -> None:
        """Note that a step is done; the recording ends after the last one."""
        self._stage.close()
        self._seen += 1
        if self._recording is not None and self._recording.on:
            self._recording.step()
            if self._steps is not None and self._seen >= self._skip + self._steps:
                self._end()

    def _end(self, error: BaseException | None = None) -> None:
        """End the recording if it is running, and make its reports.

        Args:
            error: what ended the training; it gets a note with the report.
        """
        self._stage.close()
        if self._recording is not None and self._recording.on:
            self._recording.stop(error)
