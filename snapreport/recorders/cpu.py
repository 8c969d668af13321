"""Records the CPU's memory through torch.profiler, for machines without a GPU.

The profiler can only be read when it has stopped. So each look at a recording that goes on stops
it and starts it again: a recording is made of pieces, and what is freed between two of them,
some milliseconds, is taken to be live until other memory lies there.

PyTorch's limits: it sees the thread that started it and autograd's, has one profiler per process
at a time, and tells of no free of what was allocated before.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import platform
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from snapreport.ground.errors import RecordingError
from snapreport.recorders.environment import set_for_now
from snapreport.recorders.event_tree import EventTreeReader, NamedRange, Recorded
from snapreport.recorders.profiler_snapshot import to_snapshot
from snapreport.recorders.recorder import Options

_STAGE = "snapreport.stage:"
"""Begins the names of the moments by which the ends of a stage are found on the profiler's clock:
a range of its own would be cut off where the profiler stops and starts again."""

_QUIET = {"KINETO_LOG_LEVEL": "6"}
"""Keeps the profiler's library from writing ``USDT:`` lines into the program's stderr: above all
of its levels, those lines' own (5) among them. It is read once, at the first start in a process."""


class _Session:
    """The profiler of one thread, which any number of recorders share."""

    def __init__(self, options: Options) -> None:
        self.thread = threading.get_ident()
        self.users = 0
        self.pieces: list[Recorded] = []
        self._options = options
        self._reader = EventTreeReader()
        self._profiler: Any = None
        self._stages: list[NamedRange] = []
        self._began: list[int] = []

    def begin(self) -> None:
        """Start a piece.

        Raises:
            RecordingError: another profiler is on, or this one does not start.
        """
        try:
            import torch
            from torch.autograd.profiler import profile

            _import_now("torch._dynamo")
            # Two at once, though in two threads, end the process by a segmentation fault.
            if torch._C._autograd._profiler_enabled() or getattr(
                torch.autograd.profiler, "_is_profiler_enabled", False
            ):
                raise RecordingError(
                    "A torch.profiler is on in this process already, and there can be but one;"
                    " give it to snapreport.from_profile() when it is done."
                )
            profiler = profile(
                use_kineto=True,
                profile_memory=True,
                with_stack=self._options.context != "none",
            )
            with set_for_now(_QUIET):
                profiler.__enter__()
        except (AssertionError, AttributeError, ImportError, RuntimeError, TypeError) as error:
            raise RecordingError(f"torch.profiler does not start: {error}") from error
        self._profiler = profiler
        self._began.append(time.time_ns())

    def end(self) -> None:
        """End the piece and read it."""
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            profiler.__exit__(None, None, None)
            piece = self._reader.read(profiler)
            self._take_moments(piece)
            self.pieces.append(piece)

    def here(self) -> bool:
        """Say whether the profiler is on and in this thread."""
        return self._profiler is not None and threading.get_ident() == self.thread

    def open_stage(self, name: str) -> int:
        """Begin a stage now; returns its number."""
        self._stages.append(NamedRange(name, time.time_ns(), None))
        number = len(self._stages) - 1
        self._moment(f"{_STAGE}{number}:START")
        return number

    def close_stage(self, number: int) -> None:
        """End a stage now."""
        self._stages[number] = replace(self._stages[number], end_ns=time.time_ns())
        self._moment(f"{_STAGE}{number}:END")

    def stages(self, first: int) -> Recorded:
        """Return the stages that were not over before a piece, by its place."""
        began = self._began[first]
        return Recorded(ranges=[s for s in self._stages if s.end_ns is None or s.end_ns > began])

    def _moment(self, name: str) -> None:
        if self.here():
            from torch.autograd.profiler import record_function

            with record_function(name):
                pass

    def _take_moments(self, piece: Recorded) -> None:
        """Correct the times of stages by the profiler's clock: ours differs by microseconds."""
        moments = [named for named in piece.ranges if named.name.startswith(_STAGE)]
        piece.ranges = [named for named in piece.ranges if not named.name.startswith(_STAGE)]
        for moment in moments:
            number, _, side = moment.name.removeprefix(_STAGE).partition(":")
            stage = self._stages[int(number)]
            if side == "START":
                stage = replace(stage, start_ns=moment.start_ns)
            else:
                stage = replace(stage, end_ns=moment.start_ns)
            self._stages[int(number)] = stage


_sessions: dict[int, _Session] = {}
"""The one that is on, by its thread."""
_starting = threading.Lock()


def forget_other_threads() -> None:
    """Forget, in a forked child, the session of a thread that is not in it."""
    global _starting
    _starting = threading.Lock()
    for thread in set(_sessions) - {threading.get_ident()}:
        del _sessions[thread]


class CpuRecorder:
    """Switches torch.profiler on, or joins a recording that did; see ``Recorder``."""

    kind = "cpu"

    def __init__(self, options: Options | None = None) -> None:
        self._options = options or Options()
        self._session: _Session | None = None
        self._running = False
        self._pieces = slice(0, None)
        self._marks: list[dict[str, Any]] = []

    @property
    def timeline(self) -> object:
        """What its stages go to: the profiler of the thread."""
        return self._session or self

    def start(self) -> None:
        """Begin to record in this thread, or join a recording of it that is on.

        Raises:
            RecordingError: it is on already, or another thread or profiler records.
        """
        if self._running:
            raise RecordingError("This recorder is on already; make another for a second one.")
        with _starting:
            session = _sessions.get(threading.get_ident())
            if session is not None:
                session.end()
                session.begin()
            elif _sessions:
                raise RecordingError(
                    "Another thread records the CPU's memory, and PyTorch can do so in one thread"
                    " at a time."
                )
            else:
                session = _Session(self._options)
                session.begin()
                _sessions[session.thread] = session
            session.users += 1
        self._session, self._running = session, True
        self._pieces = slice(len(session.pieces), None)

    def snapshot(self) -> dict[str, Any]:
        """Return what was recorded since ``start()``; later ones share its lists of frames.

        Raises:
            RecordingError: it was never started, or it is on in another thread.
        """
        session = self._session
        if session is None:
            raise RecordingError("Nothing is recorded yet; call start() first.")
        if self._running:
            _require_here(session)
            session.end()
            session.begin()
        stages = session.stages(self._pieces.start)
        snapshot = to_snapshot([*session.pieces[self._pieces], stages])
        snapshot["snapreport"]["marks"] = [dict(mark) for mark in self._marks]
        return snapshot

    def stop(self) -> None:
        """End the recording; the profiler goes off with the last that shares it.

        Raises:
            RecordingError: it is on in another thread, which must stop it.
        """
        session = self._session
        if session is None or not self._running:
            return
        _require_here(session)
        self._running = False
        session.users -= 1
        if not session.users:
            del _sessions[session.thread]
        session.end()
        self._pieces = slice(self._pieces.start, len(session.pieces))
        if session.users:
            session.begin()

    def mark(self, name: str) -> None:
        """Name this moment."""
        self._marks.append({"name": name, "time_us": time.time_ns() // 1000})

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Name the time of the block as a stage, also from threads whose memory is not recorded."""
        session = self._session if self._running else None
        number = session.open_stage(name) if session is not None else 0
        try:
            yield
        finally:
            if session is not None and self._running:
                session.close_stage(number)

    def devices(self) -> list[dict[str, Any]]:
        """Return the processor's name and the machine's memory, as far as they can be had."""
        device: dict[str, Any] = {"device": "cpu:0"}
        name = platform.processor() or platform.machine()
        if name:
            device["name"] = name
        try:
            page = os.sysconf("SC_PAGE_SIZE")
            device["capacity"] = device["total"] = page * os.sysconf("SC_PHYS_PAGES")
            device["free"] = page * os.sysconf("SC_AVPHYS_PAGES")
        except (AttributeError, OSError, ValueError):  # no such call on Windows
            pass
        return [device]


def _import_now(name: str) -> None:
    """Import what the first optimizer would import inside the recording.

    That is a million Python calls, each of which the profiler writes down: ten times as slow.
    """
    if name not in sys.modules:
        with contextlib.suppress(Exception):  # torch does without it, where it cannot be imported
            importlib.import_module(name)


def _require_here(session: _Session) -> None:
    if not session.here():
        raise RecordingError(
            "torch.profiler can only be read by the thread that started it; take snapshots of a"
            " CPU recording there, and stop it there."
        )
