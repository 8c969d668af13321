"""The signals that end a program by default: here they raise an exception, so that it cleans up.

A batch system sends SIGTERM, SIGUSR1 or SIGXCPU before the time is over, and a terminal that is
closed sends SIGHUP. Ctrl-C raises an exception in Python by itself. Signals of a crash, such as
SIGSEGV, are not among them: no Python code can run after those.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

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


class SignalExit(SystemExit):
    """A signal came that ends a program by default."""

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
            _set(self.number, signal.SIG_DFL)
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
    if _came is not None:
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

    _default_in_forks()
    _replace(set_handler, get_handler)
    try:
        yield
    finally:
        _replace(set_before, get_before)


def _replace(set_handler: Callable[..., Any], get_handler: Callable[..., Any]) -> None:
    signal.signal, signal.getsignal = set_handler, get_handler


def _default_in_forks() -> None:
    def default() -> None:
        _replace(_set, _get)
        default_on_signals()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=default)
