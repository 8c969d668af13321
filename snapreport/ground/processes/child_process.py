"""A process of our own that answers over a pipe, and can be ended in the middle of any step."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from multiprocessing import get_all_start_methods, get_context, parent_process
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any

from snapreport.ground.processes.ending_signals import FROM_TERMINAL, default_on_signals

KILLED = "killed by the system, most likely because memory ran out"
"""What is said of a process that was killed by something other than snapreport."""

PATIENCE = 10.0
"""Seconds in which a process that is about to end has to do so; it may have a file to remove."""

_hiding = threading.Lock()
_hiders = 0
_main: ModuleType


class ChildProcess:
    """A process that a function runs in, with a pipe to it.

    It ends when this process does, even if that is killed, and does not hear Ctrl-C, which a
    terminal sends to all of its processes.
    """

    def __init__(self, method: str, function: Callable[..., None], *arguments: Any) -> None:
        """Start it.

        Args:
            method: how, in the words of ``multiprocessing.set_start_method()``; instead of a fork
                that is not safe, it is a spawn.
            function: of a module; called with the other end of the pipe and the arguments. It may
                let the errors of a closed pipe pass: the process then ends.

        Raises:
            OSError: no more processes may be started.
        """
        if method == "fork" and not may_fork():
            method = "spawn"
        context: Any = get_context(method)
        self.connection: Connection
        """Leads to the process; it reads EOFError or OSError when that has ended."""
        self.connection, theirs = context.Pipe()
        self._overdue = False
        copied = self.connection if method == "fork" else None
        self._process = context.Process(
            target=_run, args=(copied, function, theirs, *arguments), daemon=True
        )
        hidden: AbstractContextManager[None] = nullcontext()
        if method != "fork":
            start_tracker()
            hidden = main_hidden()
        try:
            with hidden, interrupts_blocked(), warnings.catch_warnings():
                # Python warns about a fork beside threads; see may_fork().
                warnings.simplefilter("ignore", DeprecationWarning)
                self._process.start()
        except OSError:
            self.connection.close()
            raise
        finally:
            theirs.close()  # so that the pipe closes when the process ends

    @property
    def pid(self) -> int | None:
        """Return its id."""
        pid: int | None = self._process.pid
        return pid

    def alive(self) -> bool:
        """Tell whether it has not ended."""
        alive: bool = self._process.is_alive()
        return alive

    def terminate(self) -> None:
        """Ask it to end, and do not wait."""
        self._process.terminate()

    def kill(self) -> None:
        """End it, whatever it is doing, and do not wait: another thread may do so."""
        self._process.kill()

    def end(self, patience: float = 0) -> None:
        """End it, whatever it is doing, if it does not end by itself in so many seconds."""
        self._process.join(patience)
        if self._process.exitcode is None:
            self._overdue = patience > 0
            self._process.kill()
            self._process.join()

    def how_it_ended(self) -> str:
        """Tell how it ended: "killed by the system", "ended with status 1"."""
        self.end(PATIENCE)  # its pipe closes a little before it has ended
        if self._overdue:
            return f"ended by force after {PATIENCE:.0f} s"
        code = self._process.exitcode or 0
        if code == -getattr(signal, "SIGKILL", 9):
            return KILLED
        return f"ended by signal {-code}" if code < 0 else f"ended with status {code}"


def may_fork() -> bool:
    """Tell whether a fork is safe: no other thread could hold a lock that the copy waits for."""
    forks = "fork" in get_all_start_methods() and sys.platform != "darwin"
    return forks and threading.active_count() == 1


@contextmanager
def main_hidden() -> Iterator[None]:
    """Start processes that do not run the caller's program again.

    A process made by spawn imports the main module of its parent, for functions in it. Ours are
    not, and a program without ``if __name__ == "__main__"`` would begin anew in each of them.
    """
    global _hiders, _main
    with _hiding:
        if not _hiders:
            _main = sys.modules["__main__"]
            sys.modules["__main__"] = ModuleType("__main__")
        _hiders += 1
    try:
        yield
    finally:
        with _hiding:
            _hiders -= 1
            if not _hiders:
                sys.modules["__main__"] = _main


def start_tracker() -> None:
    """Start multiprocessing's resource tracker, which every process but a fork needs.

    If it started with the first process, it would unblock Ctrl-C. Once Textual runs, whose stderr
    has no file descriptor, it cannot start.
    """
    if os.name == "posix":
        from multiprocessing import resource_tracker

        resource_tracker.ensure_running()


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Start processes and threads that do not hear Ctrl-C; we end them ourselves."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _run(
    copied: Connection | None,
    function: Callable[..., None],
    connection: Connection,
    *arguments: Any,
) -> None:
    if copied is not None:  # as long as our own copy is open, the pipe does not close
        copied.close()
    default_on_signals()
    for number in FROM_TERMINAL:  # our parent hears them too, and ends us
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, ConnectionError):
        function(connection, *arguments)


def _end_with_parent() -> None:
    """Wait until the parent is gone, perhaps killed, and end this process as SIGTERM would."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
