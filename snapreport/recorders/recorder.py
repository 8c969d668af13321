"""The interface of all recorders, their options, and environment variables while one works."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from snapreport.ground.records import dataclass

STACKS = ("python", "all")
CONTEXTS = ("all", "alloc", "state", "none")
ACTIONS = ("free_requested", "snapshot")
"""Events that may be left out. PyTorch can leave out all; without the others, figures of the
recording would be wrong, and nobody could tell."""


@dataclass(frozen=True)
class Options:
    """What to record; a recorder leaves out what its PyTorch or its device cannot record."""

    stacks: str = "python"
    """``python``, or ``all`` with C++ frames too."""
    context: str = "all"
    """Which stacks are kept: those of ``all`` events, of ``alloc`` events, of live memory
    (``state``), or ``none``."""
    max_entries: int | None = None
    """How many of the newest events are kept per device; None for no limit."""
    compile_context: bool = False
    """Name the compiled region of each event."""
    pinned: bool = False
    """Record pinned host memory too."""
    forward_frames: bool = False
    """Note with the memory of backward the line of forward that it belongs to."""
    skip_actions: tuple[str, ...] = ()
    """Kinds of events that are not kept, some of ``ACTIONS``."""


class Recorder(Protocol):
    """Records the memory of the running program.

    It is started and stopped by the thread that opened the recording; ``snapshot()``, ``mark()``
    and ``stage()`` may be called from any thread. Its own errors are RecordingError.
    """

    kind: str
    """``cuda`` or ``cpu``."""

    @property
    def timeline(self) -> object:
        """What its stages are recorded on: the same object for recorders that share one."""

    def start(self) -> None:
        """Start recording, or join a running recording.

        Raises:
            RecordingError: it cannot record; nothing was changed then.
        """

    def snapshot(self) -> dict[str, Any]:
        """Return what was recorded since ``start()``, in the shape of PyTorch's snapshots.

        It may be called several times between ``start()`` and ``stop()``; recording goes on. The
        caller may change the dict. Under ``snapreport`` it may have ``recorder``, by which the
        reader recognises its shape, and the ``storages`` that the recorder already knows.

        Raises:
            RecordingError: it was never started.
        """

    def stop(self) -> None:
        """End the recording and restore what was on before; a second call does nothing."""

    def mark(self, name: str) -> None:
        """Name this moment, if the recorder keeps marks; ``recording`` keeps its time too."""

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Return a context manager whose time becomes a stage of the snapshot."""

    def devices(self) -> list[dict[str, Any]]:
        """Return what is known of each device now, for the ``snapreport`` key.

        Each has at least ``device`` (``cuda:0``, ``cpu:0``) and where known ``name``,
        ``capacity``, ``free``, ``total`` (bytes) and ``stats`` (a flat dict of numbers).
        Never raises: what is unknown is left out.
        """


@contextmanager
def temporary_environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set these environment variables during the body, unless the user has set one of them.

    PyTorch's libraries read some settings there, at their first use. They are removed afterwards,
    so child processes get the program's own environment.
    """
    if any(name in os.environ for name in values):
        yield
        return
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            os.environ.pop(name, None)
