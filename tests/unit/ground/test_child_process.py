"""Processes of our own: how they end, and what they do not hear."""

from __future__ import annotations

import os
import signal
import sys
import threading
from multiprocessing.connection import Connection

import pytest

from snapreport.ground.processes import KILLED, ChildProcess, main_hidden, may_fork

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there are no signals")


def _does(connection: Connection, what: str) -> None:
    """Do what each message says, and answer."""
    while True:
        number = connection.recv()
        if what == "signals":
            os.kill(os.getpid(), number)
        elif what == "leaves":
            sys.exit(number)
        connection.send(number)


@pytest.mark.parametrize(
    ("method", "what", "number", "how"),
    [
        ("fork", "signals", signal.SIGKILL, KILLED),
        ("spawn", "signals", signal.SIGKILL, KILLED),
        ("fork", "signals", signal.SIGUSR1, f"ended by signal {int(signal.SIGUSR1)}"),
        ("fork", "signals", signal.SIGTERM, f"ended by signal {int(signal.SIGTERM)}"),
        ("fork", "leaves", 3, "ended with status 3"),
    ],
)
def test_it_is_told_how_a_process_ended(method: str, what: str, number: int, how: str) -> None:
    process = ChildProcess(method, _does, what)
    process.connection.send(number)
    with pytest.raises((EOFError, ConnectionError)):
        process.connection.recv()
    assert process.how_it_ended() == how
    assert not process.alive()


def test_the_main_module_is_back_when_all_have_hidden_it() -> None:
    main = sys.modules["__main__"]
    with main_hidden():
        with main_hidden():
            assert sys.modules["__main__"] is not main
        assert sys.modules["__main__"] is not main
    assert sys.modules["__main__"] is main


def test_a_process_does_not_hear_ctrl_c_and_ends_quietly_with_its_pipe(
    capfd: pytest.CaptureFixture[str],
) -> None:
    process = ChildProcess("fork", _does, "signals")
    process.connection.send(signal.SIGINT)
    assert process.connection.recv() == signal.SIGINT
    process.connection.close()
    process.end(patience=10)
    assert process.how_it_ended() == "ended with status 0"
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(sys.platform != "linux", reason="there is no fork, or no safe one")
@pytest.mark.parametrize("threads", [1, 2])
def test_there_is_no_fork_beside_a_thread(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "active_count", lambda: threads)
    assert may_fork() == (threads == 1)
