"""Several files in real processes: Ctrl-C, one that is killed, a closed pipe, a terminal.

The commands are forks of this Python, but for two; the processes that they start are new.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.commands.test_process import SNAPREPORT, on_a_terminal
from tests.forked_commands import run, start

# Every process reads this when it starts. Where a bundle is written but has not its name yet, that
# of "slow" waits, and that of "killed" ends as the system's out-of-memory killer has it.
WHEN_WRITTEN = """
import os, pathlib, signal, time

def watched(name_it):
    def give(old, new):
        name = os.path.basename(new)
        if "slow" in name:
            pathlib.Path(os.environ["MARKS"], str(os.getpid())).touch()
            time.sleep(60)
        if "killed" in name:
            os.kill(os.getpid(), signal.SIGKILL)
        name_it(old, new)
    return give

os.replace, os.link = watched(os.replace), watched(os.link)
"""


@pytest.fixture
def marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which processes that wait leave a mark."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(WHEN_WRITTEN)
    marks = tmp_path / "marks"
    marks.mkdir()
    before = os.environ.get("PYTHONPATH")
    path = [str(tmp_path / "site"), *([before] if before else [])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    monkeypatch.setenv("MARKS", str(marks))
    return marks


def copies(snapshot: Path, *names: str) -> list[str]:
    return [str(shutil.copy(snapshot, snapshot.with_name(f"{name}.pickle"))) for name in names]


def is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for(condition: object) -> None:
    """Wait as long as a test may take; the test's own time limit ends it."""
    while not condition():  # type: ignore[operator]
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("number", "group", "status", "said"),
    [
        (signal.SIGINT, True, 130, ["Interrupted; no unfinished file is left behind."]),
        (signal.SIGINT, False, 130, ["Interrupted; no unfinished file is left behind."]),
        (signal.SIGTERM, False, 143, ["Ended by SIGTERM; no unfinished file is left behind."]),
    ],
)
def test_a_signal_ends_all_processes_and_leaves_no_half_file(
    marks: Path,
    snapshot: Path,
    folder: Path,
    number: int,
    group: bool,
    status: int,
    said: list[str],
) -> None:
    sources = copies(snapshot, "slow1", "slow2", "slow3")
    with start(
        ["convert", *sources, "-o", "out", "--jobs", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        wait_for(lambda: len(os.listdir(marks)) == 2)
        assert len(os.listdir(folder / "out")) == 2
        if group:  # as a terminal does
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        out, errors = process.communicate(timeout=60)
    assert process.returncode == status
    assert out == ""
    assert errors.splitlines() == said
    assert os.listdir(folder) == []
    wait_for(lambda: not any(is_there(int(mark)) for mark in os.listdir(marks)))


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_process_that_is_killed_is_a_line_for_its_file(
    marks: Path, snapshot: Path, folder: Path, jobs: str
) -> None:
    sources = copies(snapshot, "a", "killed", "b", "c")
    done = run(
        ["convert", "-q", *sources, "--jobs", jobs],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert done.returncode == 1
    assert done.stdout.splitlines() == ["a.zip", "b.zip", "c.zip"]
    lines = done.stderr.splitlines()
    assert len(lines) == 1
    assert f"{sources[1]}: each process that worked on it was killed by the system" in lines[0]
    assert sorted(os.listdir(folder)) == ["a.zip", "b.zip", "c.zip"]


def test_a_program_without_a_main_guard_runs_once(snapshot: Path, folder: Path) -> None:
    (folder / "script.py").write_text(
        "import sys, snapreport\n"
        "print('once')\n"
        "print(len(snapreport.convert_many(sys.argv[1:], 'out', jobs=2).paths))\n"
    )
    done = subprocess.run(
        [sys.executable, "script.py", *copies(snapshot, "a", "b", "c")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["once", "3"]
    assert done.stderr == ""


def test_a_closed_pipe_is_a_quiet_end(snapshot: Path, folder: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*SNAPREPORT, "convert", "-q", *copies(snapshot, "a", "b")],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert done.stderr == ""
    assert done.returncode == 1
    assert sorted(os.listdir(folder)) == ["a.zip", "b.zip"]


def test_a_terminal_shows_all_and_each_that_is_worked_on(snapshot: Path, folder: Path) -> None:
    sources = copies(snapshot, "a", "b")
    shown = on_a_terminal(["convert", *sources], folder)
    assert "In all" in shown
    assert "2 of 2 files" in shown
    assert "a.pickle" in shown
    assert "2 bundles: " in shown


def test_quiet_shows_nothing_on_a_terminal(snapshot: Path, folder: Path) -> None:
    assert on_a_terminal(["convert", "--quiet", *copies(snapshot, "a", "b")], folder) == ""
