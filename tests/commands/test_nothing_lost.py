"""Kills, interrupts, full disks and vanished files: the target is the old file or the new one."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked_commands
from tests.commands.conftest import Run
from tests.conftest import REPOSITORY
from tests.hostile.kills import kill_at_random

FULL = Path("/dev/full")

# Interrupts itself when a module is looked for; the entry point is the one of the console script.
INTERRUPTED_IMPORT = """
import importlib.abc, os, signal, sys

moment = sys.argv[1]

class Interrupt(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == moment:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
from snapreport.__main__ import main
sys.argv[:2] = ["snapreport"]
main()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="half of the runs are forks")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_signal_at_any_moment_leaves_the_old_file_or_the_whole_new_one(number: int) -> None:
    kills = kill_at_random(20 if number == signal.SIGKILL else 8, seed=number, number=number)
    assert kills.failures == 0, kills
    assert kills.alive > 0


@pytest.mark.parametrize(
    "module",
    [
        "snapreport.commands",
        "click",
        "snapreport.commands.console",
        "snapreport.ground.errors",
        "snapreport.commands.render",
        "snapreport.api.loading",
        "numpy",
        "snapreport.diagnosis.conclude",
    ],
)
def test_ctrl_c_while_modules_are_imported_is_no_traceback(
    snapshot: Path, folder: Path, module: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT, module, "render", str(snapshot)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 130
    assert done.stdout == ""
    assert done.stderr in ("", "Interrupted; no unfinished file is left behind.\n")
    assert os.listdir(folder) == []


def test_runs_at_once_on_one_target_do_not_mix(run: Run, folder: Path, samples: Path) -> None:
    names = ["two_streams.pickle", "private_pool.json", "state_only.pickle"]
    wanted = set()
    for name in names:
        assert run("convert", "-q", samples / name).exit_code == 0
    for path in list(folder.iterdir()):
        wanted.add(path.read_bytes())
        path.unlink()
    assert len(wanted) == 3
    runs = [
        forked_commands.start(
            ["convert", "-q", "--force", str(samples / name), "-o", "one.zip"],
            cwd=folder,
            stdout=subprocess.DEVNULL,
        )
        for name in names * 2
    ]
    assert [run.wait(timeout=120) for run in runs] == [0] * 6
    assert os.listdir(folder) == ["one.zip"]
    assert (folder / "one.zip").read_bytes() in wanted


@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of a file as Linux does")
@pytest.mark.parametrize("command", ["convert", "render"])
@pytest.mark.parametrize("old", [False, True])
def test_a_disk_that_is_full_leaves_what_was_there(
    snapshot: Path, folder: Path, command: str, old: bool
) -> None:
    output = _OUTPUTS[command]
    if old:
        (folder / output).write_text("old")
    done = forked_commands.run(
        [command, str(snapshot), "--force", "-o", output],
        # SIGXFSZ is ignored by Python: a write beyond the limit fails, as one to a full disk does.
        before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        f"Error: {output} cannot be written: File too large; choose another place with -o."
    ]
    assert [path.read_text() for path in folder.iterdir()] == ["old"] * old


@pytest.mark.skipif(not FULL.exists(), reason="only Linux has /dev/full")
@pytest.mark.parametrize("command", ["convert", "render"])
def test_the_file_is_there_when_its_name_cannot_be_printed(
    snapshot: Path, folder: Path, command: str
) -> None:
    output = _OUTPUTS[command]
    with FULL.open("wb") as full:
        done = forked_commands.run(
            [command, "-q", str(snapshot), "-o", output],
            cwd=folder,
            stdout=full,
            stderr=subprocess.PIPE,
        )
    assert done.returncode == 1
    assert done.stderr == "Error: stdout cannot be written: No space left on device.\n"
    assert os.listdir(folder) == [output]


_OUTPUTS = {"convert": "out.zip", "render": "out.html"}


@pytest.mark.parametrize("command", ["convert", "render"])
def test_an_input_that_vanishes_after_it_was_read_is_no_error(
    run: Run, snapshot: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    output = _OUTPUTS[command]
    link = os.link

    def vanish(*names: Path) -> None:
        snapshot.unlink()
        link(*names)

    monkeypatch.setattr(os, "link", vanish)
    result = run(command, snapshot, "-o", output)
    assert (result.exit_code, result.stdout) == (0, f"{output}\n")
    assert os.listdir(folder) == [output]


def test_a_target_that_cannot_be_replaced_is_one_line(
    run: Run, snapshot: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "out.zip").write_text("old")

    def refuse(*_: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "replace", refuse)
    result = run("convert", snapshot, "-o", "out.zip", "--force")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "Error: out.zip cannot be written: Operation not permitted; choose another place with -o."
    ]
    assert [path.read_text() for path in folder.iterdir()] == ["old"]


@pytest.mark.parametrize("command", ["convert", "render"])
def test_a_folder_that_vanishes_meanwhile_is_one_line(
    run: Run, snapshot: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    output = _OUTPUTS[command]
    (folder / "sub").mkdir()
    link, links = os.link, []

    def vanish(part: Path, target: Path) -> None:
        links.append(target)
        part.unlink()
        part.parent.rmdir()
        link(part, target)

    monkeypatch.setattr(os, "link", vanish)
    result = run(command, snapshot, "-o", f"sub/{output}")
    assert len(links) == 1
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == (
        f"Error: sub/{output} cannot be written: there is no folder sub; make it first."
    )
    assert os.listdir(folder) == []
