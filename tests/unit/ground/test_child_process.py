"""Processes of our own: how they end, and what they do not hear."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest

from snapreport.ground.errors import InputError
from snapreport.ground.processes import (
    KILLED,
    ChildProcess,
    ProcessLostError,
    Tell,
    main_hidden,
    may_fork,
)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there are no signals")


def _prepare(what: str) -> Callable[..., int]:
    if what == "refused":
        raise InputError("not ready")
    return partial(_do, what)


def _do(what: str, tell: Tell, number: int) -> int:
    """Do what a question says, and answer."""
    if what == "signals":
        os.kill(os.getpid(), number)
    elif what == "leaves":
        sys.exit(number)
    elif what == "refuses":
        raise InputError("no answer")
    elif what == "waits":
        time.sleep(60)
    tell("half")
    return number


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
    process = ChildProcess(method, _prepare, what)
    process.ask(number)
    with pytest.raises(ProcessLostError) as lost:
        process.hear()
    assert str(lost.value) == process.how_it_ended() == how
    assert not process.ready


def test_an_answer_comes_in_parts_and_errors_are_answers() -> None:
    process = ChildProcess("fork", _prepare, "")
    assert process.ready
    for number in (7, 8):
        process.ask(number)
        assert process.hear() == (False, "half")
        assert not process.ready
        assert process.hear() == (True, number)
        assert process.ready
    process.close()
    process = ChildProcess("fork", _prepare, "refuses")
    for _ in range(2):
        process.ask(7)
        with pytest.raises(InputError, match="no answer"):
            process.hear()
        assert process.ready
    process.close()


def test_what_is_refused_at_the_start_is_the_answer_to_the_first_question() -> None:
    process = ChildProcess("fork", _prepare, "refused")
    process.ask(7)
    with pytest.raises(InputError, match="not ready"):
        process.hear()
    assert process.how_it_ended() == "ended with status 0"


def test_what_takes_too_long_can_be_stopped_from_another_thread() -> None:
    process = ChildProcess("fork", _prepare, "waits")
    process.ask(7)
    with pytest.raises(TimeoutError):
        process.hear(0.01)
    threading.Timer(0.05, process.kill).start()
    with pytest.raises(ProcessLostError, match="stopped"):
        process.hear()
    assert process.stopped
    process.close()


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
    process = ChildProcess("fork", _prepare, "signals")
    process.ask(signal.SIGINT)
    assert [process.hear(), process.hear()] == [(False, "half"), (True, signal.SIGINT)]
    process.hang_up()
    process.end(patience=10)
    assert process.how_it_ended() == "ended with status 0"
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(sys.platform != "linux", reason="there is no fork, or no safe one")
@pytest.mark.parametrize("threads", [1, 2])
def test_there_is_no_fork_beside_a_thread(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "active_count", lambda: threads)
    assert may_fork() == (threads == 1)
