"""Which signals end a program, and what other code sees of it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from snapreport.ground import processes
from snapreport.ground.processes import (
    ENDING,
    SignalExit,
    default_on_signals,
    raise_on_signals,
    signals_as_by_default,
    signals_held,
)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there are few signals")

CRASHES = {"SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGSYS", "SIGTRAP"}
"""No Python code can run after these."""
OTHERS = {"SIGKILL", "SIGINT", "SIGPIPE", "SIGXFSZ"}
"""Never handled, or handled by Python."""


def _ends_a_program(number: int) -> bool:
    child = os.fork()
    if not child:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def test_every_signal_that_ends_a_program_is_known() -> None:
    left = {int(getattr(signal, name)) for name in CRASHES | OTHERS}
    stopping = {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
    asked = signal.valid_signals() - left - stopping
    assert {int(number) for number in asked if _ends_a_program(number)} == set(ENDING)


@pytest.fixture
def _raising() -> Iterator[None]:
    processes._heard.clear()
    raise_on_signals()
    yield
    default_on_signals()


@pytest.mark.usefixtures("_raising")
def test_signals_that_come_while_they_are_held_are_raised_afterwards() -> None:
    done = False
    with pytest.raises(SignalExit) as caught, signals_held():
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)
        done = True
    assert done
    assert (caught.value.name, caught.value.code) == ("SIGHUP", 129)
    with pytest.raises(KeyboardInterrupt), signals_held():
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("_raising")
def test_a_second_sighup_does_not_interrupt_what_the_first_began() -> None:
    """Closing a terminal sends two: its shell passes on what all its programs have had already."""
    with pytest.raises(SignalExit):
        os.kill(os.getpid(), signal.SIGHUP)
    os.kill(os.getpid(), signal.SIGHUP)
    with pytest.raises(SignalExit):
        os.kill(os.getpid(), signal.SIGTERM)


def test_a_signal_that_is_ignored_stays_so() -> None:
    """As under ``nohup``."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        raise_on_signals()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        with signals_as_by_default():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        default_on_signals()
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
