"""This process and those that it starts: signals, questions over pipes, memory and processors.

Work that may take forever, or all of the memory, is done in a ``ChildProcess``. Such a process can
be ended in the middle of any step, tells of its progress, and ends with its parent.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path, PurePosixPath
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from snapreport.ground.errors import InputError, SnapreportError
from snapreport.ground.units import parse_size

if TYPE_CHECKING:  # multiprocessing is only loaded where a process is started
    from multiprocessing.connection import Connection

# Signals

_NAMES = (
    *("SIGHUP", "SIGTERM", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGVTALRM", "SIGPROF"),
    *("SIGXCPU", "SIGIO", "SIGPWR", "SIGSTKFLT", "SIGEMT", "SIGBREAK"),
)
ENDING: tuple[int, ...] = (
    *(int(getattr(signal, name)) for name in _NAMES if hasattr(signal, name)),
    *(range(signal.SIGRTMIN, signal.SIGRTMAX + 1) if hasattr(signal, "SIGRTMIN") else ()),
)
"""Source: signal(7), the signals with the action Term; and those with Core that others send."""
FROM_TERMINAL = tuple(
    int(getattr(signal, name)) for name in ("SIGINT", "SIGQUIT", "SIGHUP") if hasattr(signal, name)
)
"""Sent to all processes of a command at once, which may leave them to the first of these."""

_set, _get = signal.signal, signal.getsignal

_came: list[int] | None = None
"""What came while signals are held; None while they are not."""
_heard: set[int] = set()
_deaf = False
_answer: Callable[[int], None] | None = None
"""What hears the signals instead, in a program that is not ours."""
_hidden: AbstractContextManager[None] = nullcontext()


class SignalExit(SystemExit):
    """A signal came that ends a program by default; it is raised, so that the program cleans up.

    A batch system sends SIGTERM, SIGUSR1 or SIGXCPU before the time is over, and a terminal that is
    closed sends SIGHUP. Ctrl-C raises an exception in Python by itself. Signals of a crash, such as
    SIGSEGV, are not among these: no Python code can run after them.
    """

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)  # as in shells
        self.number = number

    @property
    def name(self) -> str:
        """``SIGTERM``."""
        return signal_name(self.number)

    def end_as_by_default(self) -> NoReturn:
        """End this process as the signal would have ended it."""
        if os.name == "posix":
            if threading.current_thread() is threading.main_thread():
                _set(self.number, signal.SIG_DFL)
            else:  # where Python sets none
                import ctypes

                ctypes.CDLL(None).signal(self.number, 0)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [self.number])
            os.kill(os.getpid(), self.number)
        raise self


def signal_name(number: int) -> str:
    """Return the name of a signal; signals for real-time use have none of their own."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def raise_on_signals() -> None:
    """Let the signals that would end this process raise ``SignalExit`` in the main thread."""
    global _deaf
    _deaf = False  # a process that was forked from one that was ending begins anew
    _heard.clear()
    for number in ENDING:
        if _get(number) is signal.SIG_DFL:
            _set(number, _hear)


def answer_signals(answer: Callable[[int], None]) -> None:
    """Let a function hear the signals that would end this process, of which it is to end.

    It is called in the main thread, from which this is called, too. To all others it looks as if
    the signals had no handler.
    """
    global _answer, _hidden
    _answer = answer
    _hidden = signals_as_by_default()  # for good: it ends where nothing refers to it
    _hidden.__enter__()
    raise_on_signals()


def is_ours(number: int) -> bool:
    """Tell whether a signal that ends this process by default is heard by us."""
    return _get(number) is _hear


def default_on_signals() -> None:
    """Let these signals end this process again: where none of ours has to be cleaned up."""
    for number in ENDING:
        if _get(number) is _hear:
            _set(number, signal.SIG_DFL)


def _hear(number: int, _frame: FrameType | None) -> None:
    # Whoever closes a terminal sends SIGHUP twice: its shell passes on what all have had already.
    # The second must not stop us cleaning up.
    if _deaf or (number in _heard and signal_name(number) == "SIGHUP"):
        return
    _heard.add(number)
    if _answer is not None:
        _answer(number)
    elif _came is not None:
        _came.append(number)
    else:
        _raise(number)


def _raise(number: int) -> NoReturn:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SignalExit(number)


@contextmanager
def signals_held() -> Iterator[None]:
    """Raise what comes during the body, Ctrl-C included, only when it is done."""
    global _came
    if _came is not None or threading.current_thread() is not threading.main_thread():
        yield
        return
    raises = _get(signal.SIGINT) is signal.default_int_handler
    came: list[int] = []
    _came = came
    try:
        if raises:
            _set(signal.SIGINT, _hear)
        yield
    finally:
        if raises:
            _set(signal.SIGINT, signal.default_int_handler)
        _came = None
        if came:
            _raise(came[0])


def ignore_further_signals() -> None:
    """Ignore further signals but Ctrl-C: what was done so far is being written."""
    global _deaf
    _deaf = True


@contextmanager
def signals_as_by_default() -> Iterator[None]:
    """Let other code see and use the signals as if ``raise_on_signals()`` had not been called.

    Libraries look whether a signal has a handler before they set their own, and some set the
    default again afterwards: that must not end the process without ``SignalExit``. A forked child
    has the default.
    """
    set_before, get_before = signal.signal, signal.getsignal

    def shown(handler: Any) -> Any:
        return signal.SIG_DFL if handler is _hear else handler

    def set_handler(signalnum: int, handler: Any) -> Any:
        ours = handler == signal.SIG_DFL and signalnum in ENDING
        return shown(_set(signalnum, _hear if ours else handler))

    def get_handler(signalnum: int) -> Any:
        return shown(_get(signalnum))

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_default_in_child)
    signal.signal, signal.getsignal = set_handler, get_handler
    try:
        yield
    finally:
        signal.signal, signal.getsignal = set_before, get_before


def _default_in_child() -> None:
    signal.signal, signal.getsignal = _set, _get
    default_on_signals()


# Child processes

KILLED = "killed by the system, most likely because memory ran out"
"""What is said of a process that was killed by something other than snapreport."""

PATIENCE = 10.0
"""Seconds in which a process that is about to end has to do so; it may have a file to remove."""

Tell: TypeAlias = Callable[[Any], None]
"""Sends a part of an answer, or progress, from the process to its parent."""

_TOLD, _ANSWERED, _REFUSED = range(3)
"""Kinds of messages; each of the last two ends an answer."""


class ProcessLostError(Exception):
    """The process is no more; the message says how it ended: "killed by the system"."""


def get_context(method: str) -> Any:
    """Return a context of ``multiprocessing``, which is only loaded where a process is started."""
    import multiprocessing

    return multiprocessing.get_context(method)


class ChildProcess:
    """A process that answers one question after the other, and can be ended in any step.

    It ends when this process does, even if that is killed, and does not hear Ctrl-C, which a
    terminal sends to all of its processes.
    """

    def __init__(
        self, method: str, prepare: Callable[..., Callable[..., Any]], *arguments: Any
    ) -> None:
        """Start it.

        Args:
            method: how, in the words of ``multiprocessing.set_start_method()``; instead of a fork
                that is not safe, it is a spawn.
            prepare: of a module; called in the process with the arguments. What it returns is
                called with a ``Tell`` and each question, and returns the answer. A
                ``SnapreportError`` of either is raised by ``hear()``; any other ends the process.

        Raises:
            OSError: no more processes may be started.
        """
        if method == "fork" and not may_fork():
            method = "spawn"
        context: Any = get_context(method)
        self._pipe: Connection
        self._pipe, theirs = context.Pipe()
        self.busy = False
        """Whether its last question has not been answered."""
        self.stopped = False
        """Whether it was ended from here."""
        self._overdue = False
        copied = self._pipe if method == "fork" else None
        self._process = context.Process(
            target=_run, args=(copied, theirs, prepare, *arguments), daemon=True
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
            self._pipe.close()
            raise
        finally:
            theirs.close()  # so that the pipe closes when the process ends

    @property
    def pid(self) -> int | None:
        """Return its id."""
        pid: int | None = self._process.pid
        return pid

    @property
    def ready(self) -> bool:
        """Tell whether it waits for a question."""
        return not self.busy and not self.stopped and self._process.is_alive()

    def ask(self, *question: Any) -> None:
        """Send a question; ``hear()`` gives the parts of its answer."""
        self.busy = True
        with suppress(OSError):  # that it has ended is noticed on hearing
            self._pipe.send(question)

    def hear(self, seconds: float | None = None) -> tuple[bool, Any]:
        """Wait for the next part of an answer.

        Args:
            seconds: how long; None for as long as it takes.

        Returns:
            whether the answer is complete, and what the process told, or in the end returned.

        Raises:
            TimeoutError: nothing came; the process works on.
            ProcessLostError: it has ended.
            SnapreportError: the answer is this error.
        """
        try:
            message = self._pipe.recv() if self._pipe.poll(seconds) else None
        except (EOFError, OSError):  # the latter in the middle of a message
            raise ProcessLostError("stopped" if self.stopped else self.how_it_ended()) from None
        if message is None:
            raise TimeoutError
        kind, content = message
        self.busy = kind == _TOLD
        if kind == _REFUSED:
            raise content
        return not self.busy, content

    def hang_up(self) -> None:
        """Let it end by itself: there are no more questions."""
        self._pipe.close()

    def terminate(self) -> None:
        """Ask it to end, and do not wait."""
        self.stopped = True
        self._process.terminate()

    def kill(self) -> None:
        """End it, whatever it is doing, and do not wait: another thread may do so."""
        self.stopped = True
        self._process.kill()

    def end(self, patience: float = 0) -> None:
        """End it, whatever it is doing, if it does not end by itself in so many seconds."""
        self.stopped = True
        self._wait(patience)

    def close(self) -> None:
        """End it, whatever it is doing, and close the pipe, which no other thread may read."""
        self.end()
        self._pipe.close()

    def how_it_ended(self) -> str:
        """Tell how it ended: "killed by the system", "ended with status 1"."""
        self._wait(PATIENCE)  # its pipe closes a little before it has ended
        if self._overdue:
            return f"ended by force after {PATIENCE:.0f} s"
        code = self._process.exitcode or 0
        if code == -getattr(signal, "SIGKILL", 9):
            return KILLED
        return f"ended by signal {-code}" if code < 0 else f"ended with status {code}"

    def _wait(self, patience: float) -> None:
        self._process.join(patience)
        if self._process.exitcode is None:
            self._overdue = patience > 0
            self._process.kill()
            self._process.join()


def may_fork() -> bool:
    """Tell whether a fork is safe: no other thread could hold a lock that the copy waits for."""
    from multiprocessing import get_all_start_methods

    forks = "fork" in get_all_start_methods() and sys.platform != "darwin"
    return forks and threading.active_count() == 1


_hiding = threading.Lock()
_hiders = 0
_main: ModuleType


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
    pipe: Connection,
    prepare: Callable[..., Callable[..., Any]],
    *arguments: Any,
) -> None:
    """Answer questions until there are no more; what a process runs."""
    if copied is not None:  # as long as our own copy is open, the pipe does not close
        copied.close()
    default_on_signals()
    for number in FROM_TERMINAL:  # our parent hears them too, and ends us
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def attempt(function: Callable[..., Any], *given: Any) -> tuple[int, Any]:
        try:
            return _ANSWERED, function(*given)
        except SnapreportError as error:
            return _REFUSED, error

    def tell(content: Any) -> None:
        pipe.send((_TOLD, content))

    with suppress(EOFError, ConnectionError):
        kind, answer = attempt(prepare, *arguments)
        if kind == _REFUSED:
            pipe.send((kind, answer))
            return
        while True:  # holding nothing of a question while it waits for the next
            pipe.send(attempt(answer, tell, *pipe.recv()))


def _end_with_parent() -> None:
    """Wait until the parent is gone, perhaps killed, and end this process as SIGTERM would."""
    from multiprocessing import parent_process

    parent = parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


# Memory and processors


@contextmanager
def collector_off() -> Iterator[None]:
    """Turn the garbage collector off while millions of objects without cycles are created.

    It would visit all new objects again and again: this makes loading a snapshot 5 times faster,
    and writing a bundle twice as fast. It may be nested: the collector is turned on again only if
    it was on before.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


_ROOT = Path("/")


def available_memory(root: Path = _ROOT) -> int | None:
    """Return how many bytes can still be allocated without swapping; None where that is unknown.

    It is what Linux says is available, or less where a control group (of a container or a batch
    job) sets a limit. File pages count as free: they can be read again.

    Args:
        root: the folder with ``proc`` and ``sys``, as in the functions below.

    Source: proc(5), MemAvailable; Linux, "Control Group v2", memory.max, memory.current and
    memory.stat; "Memory Resource Controller" for those of version 1.
    """
    machine = (1024 * n for name, n in _table(root / "proc/meminfo") if name == "MemAvailable:")
    return min((*machine, *_memory_left(root)), default=None)


def usable_cpus(root: Path = _ROOT) -> int:
    """Return how many processors this process may use: those it is bound to, less a quota.

    Source: Linux, "Control Group v2", cpu.max; "CFS Bandwidth Control" for version 1.
    """
    bound = hasattr(os, "sched_getaffinity")
    count = len(os.sched_getaffinity(0)) if bound else os.cpu_count() or 1
    return max(1, min((count, *_processors(root))))


def _memory_left(root: Path) -> Iterator[int]:
    names = {True: ("max", "current", ""), False: ("limit_in_bytes", "usage_in_bytes", "total_")}
    for group, new in _groups(root, "memory"):
        limit, usage, prefix = names[new]
        most, used = (_number(group / f"memory.{name}") for name in (limit, usage))
        if most is not None and used is not None:
            cached = {f"{prefix}{kind}_file" for kind in ("active", "inactive")}
            files = sum(count for name, count in _table(group / "memory.stat") if name in cached)
            yield max(0, most - used + files)


def _processors(root: Path) -> Iterator[int]:
    for group, new in _groups(root, "cpu"):
        if new:
            words = _text(group / "cpu.max").split()
        else:
            words = [_text(group / f"cpu.cfs_{name}_us") for name in ("quota", "period")]
        numbers = [int(word) for word in words if word.strip().isdecimal()]
        if len(numbers) == 2 and numbers[1]:
            yield numbers[0] // numbers[1]


def _groups(root: Path, controller: str) -> Iterator[tuple[Path, bool]]:
    """Give each group that this process is in, and those around it; True where of version 2."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        top = root / "sys/fs/cgroup" / (controller if controllers else "")
        # In a container the path may be the host's: what is not there says nothing.
        inside = PurePosixPath(path.lstrip("/"))
        if ".." in inside.parts:
            inside = PurePosixPath()
        for folder in (inside, *inside.parents):
            yield top / folder, not controllers


def _number(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdecimal() else None  # a limit may be "max"


def _table(path: Path) -> Iterator[tuple[str, int]]:
    for line in _text(path).splitlines():
        words = line.split()
        if len(words) >= 2 and words[1].isdecimal():
            yield words[0], int(words[1])


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:  # no such group
        return ""


MAX_UNPACKED = "SNAPREPORT_MAX_UNPACKED"
"""Set this in the environment to unpack larger files: a size, ``50GiB``."""

NO_MEMORY_CHECK = "SNAPREPORT_NO_MEMORY_CHECK"
"""Set this in the environment to read what seems to need more memory than is free."""

RATIO = 200
"""Bytes that a packed file may unpack to per byte of its own. Real files have up to 56."""


def most_unpacked(packed: int, always: int) -> int:
    """Return how many bytes a packed file may unpack to: a few kilobytes could fill any memory.

    Args:
        packed: the file's size in bytes.
        always: bytes that it may unpack to in any case, however small it is.

    Raises:
        InputError: the environment variable is not a size.
    """
    said = os.environ.get(MAX_UNPACKED)
    if not said:
        return max(always, packed * RATIO)
    try:
        return parse_size(said)
    except ValueError as error:
        raise InputError(f"cannot be read: {MAX_UNPACKED}: {error}.") from None
