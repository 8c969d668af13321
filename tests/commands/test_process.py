"""What only a real process shows: signals, closed pipes, and progress on a terminal.

Closed pipes, full devices and the help are those of a started Python too, and the rest of forks.
"""

from __future__ import annotations

import os
import pty
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.clock import slowness
from tests.commands.terminals import read_terminal
from tests.forked_commands import run, start

SNAPREPORT = [sys.executable, "-m", "snapreport"]

Start: TypeAlias = Callable[..., "subprocess.Popen[str]"]


def start_anew(arguments: list[str], **settings: Any) -> subprocess.Popen[str]:
    """Start a Python, as users do."""
    return subprocess.Popen([*SNAPREPORT, *arguments], text=True, **settings)


def wait_before_rename() -> None:
    """Say when the output is written but has not its name yet, and wait there for the signal."""

    def waiting(name_it: Callable[..., None]) -> Callable[..., None]:
        def give(old: str | Path, new: str | Path) -> None:
            if Path(new).parent == Path.cwd():  # not what is kept of compiled code
                print("written", flush=True)
                time.sleep(60)
            name_it(old, new)

        return give

    os.replace, os.link = waiting(os.replace), waiting(os.link)


@pytest.mark.parametrize("command", ["convert", "render"])
@pytest.mark.parametrize(
    ("number", "status", "said"),
    [
        (signal.SIGINT, 130, ["Interrupted; no unfinished file is left behind."]),
        (signal.SIGTERM, 143, ["Ended by SIGTERM; no unfinished file is left behind."]),
    ],
)
def test_a_signal_leaves_no_half_file(
    snapshot: Path, folder: Path, command: str, number: int, status: int, said: list[str]
) -> None:
    with start(
        [command, str(snapshot)],
        before=wait_before_rename,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        assert len(os.listdir(folder)) == 1
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == status
    assert errors.splitlines() == said
    assert os.listdir(folder) == []


@pytest.mark.parametrize(
    ("start", "arguments"),
    [(start_anew, ["summary"]), (start, ["summary", "--json"]), (start, ["convert", "-q"])],
)
def test_a_closed_pipe_is_a_quiet_end(
    snapshot: Path, folder: Path, start: Start, arguments: list[str]
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with start(
        [*arguments, str(snapshot)], cwd=folder, stdout=writer, stderr=subprocess.PIPE
    ) as process:
        os.close(writer)
        _, errors = process.communicate(timeout=60)
    assert errors == ""
    assert process.returncode == 1


def test_a_report_can_be_written_to_a_pipe(snapshot: Path, folder: Path) -> None:
    done = run(
        ["render", str(snapshot), "-o", "/dev/stdout", "--format", "md"],
        cwd=folder,
        stdout=subprocess.PIPE,
    )
    assert done.returncode == 0
    assert "snap.pickle" in done.stdout
    assert "/dev/stdout" not in done.stdout
    assert os.listdir(folder) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
@pytest.mark.parametrize(
    ("start", "arguments"),
    [
        (start_anew, ["summary"]),
        (start, ["summary", "--json"]),
        (start, ["render", "--format", "md", "-o", "/dev/full"]),
    ],
)
def test_a_full_device_is_one_line(
    snapshot: Path, folder: Path, start: Start, arguments: list[str]
) -> None:
    with (
        Path("/dev/full").open("wb") as full,
        start(
            [*arguments, str(snapshot)], cwd=folder, stdout=full, stderr=subprocess.PIPE
        ) as process,
    ):
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert len(errors.splitlines()) == 1
    assert "cannot be written: No space left" in errors


def on_a_terminal(arguments: list[str], folder: Path) -> str:
    """Run with stderr on a terminal and give back what it showed there."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    with start(
        arguments, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=theirs
    ) as process:
        os.close(theirs)
        shown = read_terminal(ours)
        assert process.wait(timeout=60) == 0
    os.close(ours)
    return shown.decode()


def test_progress_is_shown_on_a_terminal_and_cleared(snapshot: Path, folder: Path) -> None:
    shown = on_a_terminal(["convert", str(snapshot)], folder)
    assert "\x1b[" in shown
    assert "of the snapshot's" in shown


def test_quiet_shows_nothing_on_a_terminal(snapshot: Path, folder: Path) -> None:
    assert on_a_terminal(["convert", "--quiet", str(snapshot)], folder) == ""


def test_help_is_quick(folder: Path) -> None:
    """The target is 150 ms; the bound is loose, for machines that are busy with other tests."""
    times = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*SNAPREPORT, "--help"], cwd=folder, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        times.append(spent / slowness())
    assert min(times) < 1
