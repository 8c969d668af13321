"""What only a real process shows: signals, closed pipes, and progress on a terminal."""

from __future__ import annotations

import os
import pty
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clock import slowness

SNAPREPORT = [sys.executable, "-m", "snapreport"]

# Says when the output is written but has not its name yet, and waits there for the signal.
WAITS_BEFORE_RENAME = """
import os, time
from snapreport.commands import main

def replace(*_):
    print("written", flush=True)
    time.sleep(60)

os.replace = os.link = replace
main()
"""


@pytest.mark.parametrize("command", ["convert", "render"])
@pytest.mark.parametrize(
    ("number", "status", "said"),
    [
        (signal.SIGINT, 130, ["Interrupted; no unfinished file is left behind."]),
        (signal.SIGTERM, 143, []),
    ],
)
def test_a_signal_leaves_no_half_file(
    snapshot: Path, folder: Path, command: str, number: int, status: int, said: list[str]
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WAITS_BEFORE_RENAME, command, str(snapshot)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        assert len(os.listdir(folder)) == 1
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == status
    assert errors.splitlines() == said
    assert os.listdir(folder) == []


@pytest.mark.parametrize("arguments", [["summary"], ["summary", "--json"], ["convert", "-q"]])
def test_a_closed_pipe_is_a_quiet_end(snapshot: Path, folder: Path, arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*SNAPREPORT, *arguments, str(snapshot)],
        cwd=folder,
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert done.stderr == ""
    assert done.returncode == 1


def test_a_report_can_be_written_to_a_pipe(snapshot: Path, folder: Path) -> None:
    done = subprocess.run(
        [*SNAPREPORT, "render", str(snapshot), "-o", "/dev/stdout", "--format", "md"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "snap.pickle" in done.stdout
    assert "/dev/stdout" not in done.stdout
    assert os.listdir(folder) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
@pytest.mark.parametrize(
    "arguments",
    [["summary"], ["summary", "--json"], ["render", "--format", "md", "-o", "/dev/full"]],
)
def test_a_full_device_is_one_line(snapshot: Path, folder: Path, arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*SNAPREPORT, *arguments, str(snapshot)],
            cwd=folder,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "cannot be written: No space left" in done.stderr


def on_a_terminal(arguments: list[str], folder: Path) -> str:
    """Run with stderr on a terminal and give back what it showed there."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(
        [*SNAPREPORT, *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        shown = b""
        try:
            while chunk := os.read(ours, 65536):
                shown += chunk
        except OSError:  # Linux ends a closed terminal with EIO
            pass
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
