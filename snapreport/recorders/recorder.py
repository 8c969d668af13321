"""What every recorder does, whatever it records with."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

STACKS = ("python", "all")
CONTEXTS = ("all", "alloc", "state", "none")


@dataclass(frozen=True)
class Options:
    """What to record; a recorder leaves out what its PyTorch or its device does not have."""

    stacks: str = "python"
    """``python``, or ``all`` with C++ frames too."""
    context: str = "all"
    """Whose stacks are kept: ``all`` events', ``alloc`` events', those of live memory
    (``state``), or ``none``."""
    max_entries: int | None = None
    """Events kept per device, the newest; None for no limit."""
    compile_context: bool = False
    """Name the compiled region of each event."""
    pinned: bool = False
    """Pinned host memory too."""


class Recorder(Protocol):
    """Records the memory of the running program.

    It is started and stopped by the thread that opened the recording; ``snapshot()``, ``mark()``
    and ``stage()`` may come from any thread. Errors of its own are RecordingError.
    """

    kind: str
    """``cuda`` or ``cpu``."""

    @property
    def timeline(self) -> object:
        """What its stages go to: recorders that share one have the same object here."""

    def start(self) -> None:
        """Begin to record, or join a recording that is on.

        Raises:
            RecordingError: it cannot; nothing was changed then.
        """

    def snapshot(self) -> dict[str, Any]:
        """Return what was recorded since ``start()``, in the shape of PyTorch's snapshots.

        It may be taken several times, between ``start()`` and ``stop()``; what comes after it
        is recorded on. The dict is the caller's to change. Under ``snapreport`` it may have
        ``recorder``, by which the reader knows its shape, and ``storages`` known already.

        Raises:
            RecordingError: it was never started.
        """

    def stop(self) -> None:
        """End the recording and restore what was on before; nothing the second time."""

    def mark(self, name: str) -> None:
        """Name this moment, for recorders that keep marks; ``recording`` keeps its time too."""

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Return a context manager whose time becomes a stage of the snapshot."""

    def devices(self) -> list[dict[str, Any]]:
        """Return what is known of each device now, for the ``snapreport`` key.

        Each has at least ``device`` (``cuda:0``, ``cpu:0``) and where known ``name``,
        ``capacity``, ``free``, ``total`` (bytes) and ``stats`` (a flat dict of numbers).
        Never raises: what cannot be had is left out.
        """
