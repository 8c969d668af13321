"""Records the CPU's memory through torch.profiler, for machines without a GPU.

The profiler can only be read once it has stopped. So each snapshot of a running recording stops
and restarts it: a recording consists of pieces. Memory freed in the few milliseconds between two
pieces counts as live until other memory overlaps its addresses.

PyTorch's limits: the profiler sees only the thread that started it and autograd's, a process can
run one profiler at a time, and frees of memory allocated before it started are not reported.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from snapreport.ground.errors import RecordingError
from snapreport.recorders.profiler import EventTreeReader, NamedRange, Recorded, to_snapshot
from snapreport.recorders.recorder import Options, temporary_environment

_STAGE = "snapreport.stage:"
"""Prefix of the markers that give the start and end of a stage on the profiler's clock: a range
would be cut off where the profiler stops and restarts."""

_QUIET = {"KINETO_LOG_LEVEL": "6"}
"""Keeps the profiler's library from writing ``USDT:`` lines to the program's stderr: 6 is above all
its levels, also that of those lines (5). It is read once, at the first start in a process."""


class _Session:
    """The profiler of one thread, shared by any number of recorders."""

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
            RecordingError: another profiler is running, or this one cannot start.
        """
        try:
            import torch
            from torch.autograd.profiler import profile

            if "torch._dynamo" not in sys.modules:
                # The first optimizer would import it during the recording, of which the profiler
                # would record a million Python calls: that takes ten times as long.
                with contextlib.suppress(Exception):  # torch works without it
                    importlib.import_module("torch._dynamo")
            # Two at once, even in two threads, crash the process with a segmentation fault.
            if torch._C._autograd._profiler_enabled() or getattr(
                torch.autograd.profiler, "_is_profiler_enabled", False
            ):
                raise RecordingError(
                    "A torch.profiler is already running in this process, and only one can run at a"
                    " time; pass it to snapreport.from_profile() once it has stopped."
                )
            profiler = profile(
                use_kineto=True,
                profile_memory=True,
                with_stack=self._options.context != "none",
            )
            with temporary_environment(_QUIET), _ours():
                profiler.__enter__()
        except (AssertionError, AttributeError, ImportError, RuntimeError, TypeError) as error:
            raise RecordingError(f"torch.profiler cannot start: {error}") from error
        self._profiler = profiler
        self._began.append(time.time_ns())

    def end(self) -> None:
        """End the piece and read it."""
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            profiler.__exit__(None, None, None)
            piece = self._reader.read(profiler)
            self._correct_stages(piece)
            self.pieces.append(piece)

    def here(self) -> bool:
        """Say whether the profiler is running, and in this thread."""
        return self._profiler is not None and threading.get_ident() == self.thread

    def open_stage(self, name: str) -> int:
        """Start a stage now, and return its number."""
        self._stages.append(NamedRange(name, time.time_ns(), None))
        number = len(self._stages) - 1
        self._add_marker(f"{_STAGE}{number}:START")
        return number

    def close_stage(self, number: int) -> None:
        """End a stage now."""
        self._stages[number] = replace(self._stages[number], end_ns=time.time_ns())
        self._add_marker(f"{_STAGE}{number}:END")

    def stages(self, first: int) -> Recorded:
        """Return the stages that had not ended when the piece with index ``first`` began."""
        began = self._began[first]
        return Recorded(ranges=[s for s in self._stages if s.end_ns is None or s.end_ns > began])

    def _add_marker(self, name: str) -> None:
        if self.here():
            from torch.autograd.profiler import record_function

            with record_function(name):
                pass

    def _correct_stages(self, piece: Recorded) -> None:
        """Take the times of stages from the profiler's clock: ours differs by microseconds."""
        markers = [named for named in piece.ranges if named.name.startswith(_STAGE)]
        piece.ranges = [named for named in piece.ranges if not named.name.startswith(_STAGE)]
        for marker in markers:
            number, _, side = marker.name.removeprefix(_STAGE).partition(":")
            stage = self._stages[int(number)]
            if side == "START":
                stage = replace(stage, start_ns=marker.start_ns)
            else:
                stage = replace(stage, end_ns=marker.start_ns)
            self._stages[int(number)] = stage


_starting_ours = threading.local()


@contextmanager
def _ours() -> Iterator[None]:
    _starting_ours.now = True
    try:
        yield
    finally:
        _starting_ours.now = False


_begun, _left = threading.Event(), threading.Event()
_leave: Callable[[], None] | None = None
"""Ends a recording that nobody asked for, in the thread that began it."""


def give_way(leave: Callable[[], None]) -> None:
    """Before the program starts a profiler or a recording of its own, let a function end ours.

    The profiler can only be stopped by the thread that started it, the main one, from which this is
    called. A signal that otherwise is ignored calls it there, even while it waits for a thread.
    """
    global _leave
    from torch.autograd import profiler

    prepare = profiler._prepare_profiler

    def prepare_theirs(*args: Any, **kwargs: Any) -> Any:
        if not getattr(_starting_ours, "now", False):
            _make_way()
        return prepare(*args, **kwargs)

    def heard(*_: object) -> None:
        _begun.set()
        leave()
        _left.set()

    if _leave is None:
        profiler._prepare_profiler = prepare_theirs
        if hasattr(signal, "SIGURG") and signal.getsignal(signal.SIGURG) == signal.SIG_DFL:
            signal.signal(signal.SIGURG, heard)
    _leave = leave


def _make_way() -> None:
    import torch

    if _leave is None:
        return
    elsewhere = set(_sessions) - {threading.get_ident()}
    if not elsewhere:
        _leave()
        if torch._C._autograd._profiler_enabled():  # it was on in the process that forked this one
            _sessions.clear()
            torch._C._autograd._disable_profiler()
    elif hasattr(signal, "SIGURG"):
        _begun.clear()
        _left.clear()
        signal.pthread_kill(elsewhere.pop(), signal.SIGURG)
        if _begun.wait(_PATIENCE_S):
            _left.wait()


_PATIENCE_S = 10.0


_sessions: dict[int, _Session] = {}
"""The running session, by its thread."""
_starting = threading.Lock()


def forget_other_threads() -> None:
    """In a forked child, forget the session of a thread that the child does not have."""
    global _starting
    _starting = threading.Lock()
    for thread in set(_sessions) - {threading.get_ident()}:
        del _sessions[thread]


class CpuRecorder:
    """Starts torch.profiler, or joins a recording that has already started it; see ``Recorder``."""

    kind = "cpu"

    def __init__(self, options: Options | None = None) -> None:
        self._options = options or Options()
        self._session: _Session | None = None
        self._running = False
        self._pieces = slice(0, None)
        self._marks: list[dict[str, Any]] = []

    @property
    def timeline(self) -> object:
        """What its stages are recorded on: the profiler of the thread."""
        return self._session or self

    def start(self) -> None:
        """Start recording this thread, or join its running recording.

        Raises:
            RecordingError: it is already running, or another thread or profiler is.
        """
        if self._running:
            raise RecordingError(
                "This recorder is already running; create another for a second recording."
            )
        if set(_sessions) - {threading.get_ident()}:
            _make_way()
        with _starting:
            session = _sessions.get(threading.get_ident())
            if session is not None:
                session.end()
                session.begin()
            elif _sessions:
                raise RecordingError(
                    "Another thread is already recording the CPU's memory; PyTorch can record only"
                    " one thread at a time."
                )
            else:
                session = _Session(self._options)
                session.begin()
                _sessions[session.thread] = session
            session.users += 1
        self._session, self._running = session, True
        self._pieces = slice(len(session.pieces), None)

    def inherit(self) -> bool:
        """Go on with what was on when this process was forked; say whether there is anything.

        Then all of it is in the snapshot, also from before the fork.
        """
        self._session = _sessions.get(threading.get_ident())
        if self._session is not None:
            self._session.users = 1  # the parent's others are not here
            self._running, self._pieces = True, slice(0, None)
        return self._session is not None

    def snapshot(self) -> dict[str, Any]:
        """Return what was recorded since ``start()``; later snapshots share its lists of frames.

        Raises:
            RecordingError: it was never started, or it runs in another thread.
        """
        session = self._session
        if session is None:
            raise RecordingError("Nothing has been recorded yet; call start() first.")
        if self._running:
            _require_here(session)
            session.end()
            session.begin()
        stages = session.stages(self._pieces.start)
        snapshot = to_snapshot([*session.pieces[self._pieces], stages])
        snapshot["snapreport"]["marks"] = [dict(mark) for mark in self._marks]
        return snapshot

    def stop(self) -> None:
        """End the recording; the profiler stops with the last recorder that shares it.

        Raises:
            RecordingError: it runs in another thread, which must stop it.
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
        """Record the block as a stage, even in a thread whose memory is not recorded."""
        session = self._session if self._running else None
        number = session.open_stage(name) if session is not None else 0
        try:
            yield
        finally:
            if session is not None and self._running:
                session.close_stage(number)

    def devices(self) -> list[dict[str, Any]]:
        """Return the processor's name and the machine's memory, where they are known."""
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


def _require_here(session: _Session) -> None:
    if not session.here():
        raise RecordingError(
            "Only the thread that started torch.profiler can read it; take snapshots of a CPU"
            " recording in that thread, and stop it there."
        )
