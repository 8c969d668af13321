"""Engines that a command starts itself; all of them in `make thorough`."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.commands.conftest import Run
from tests.commands.test_many_processes import copies, is_there, marks, wait_for
from tests.commands.test_process import SNAPREPORT
from tests.thorough import IN_FULL

__all__ = ["marks"]

STARTED = pytest.mark.skipif(not IN_FULL, reason="a cluster takes its time to start")


def test_what_is_no_engine_is_said_before_any_work(run: Run, snapshot: Path, folder: Path) -> None:
    done = run("convert", *copies(snapshot, "a", "b"), "-o", "out", "--engine", "spark")
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: spark is not an engine; choose local, dask or ")
    assert not (folder / "out").exists()


@STARTED
def test_a_cluster_is_started_and_ended(snapshot: Path, folder: Path) -> None:
    sources = copies(snapshot, "a", "b", "c")
    for each in ("local", "dask"):
        done = subprocess.run(
            [*SNAPREPORT, "convert", "-q", *sources, "-o", each, "--jobs", "2", "--engine", each],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines() == [f"{each}/{name}.zip" for name in "abc"]
    for name in "abc":
        assert (folder / "dask" / f"{name}.zip").read_bytes() == (
            folder / "local" / f"{name}.zip"
        ).read_bytes()


@STARTED
def test_ctrl_c_ends_a_cluster(marks: Path, snapshot: Path, folder: Path) -> None:
    sources = copies(snapshot, "slow1", "slow2", "slow3")
    with subprocess.Popen(
        [*SNAPREPORT, "convert", *sources, "-o", "out", "--jobs", "2", "--engine", "dask"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        wait_for(lambda: len(os.listdir(marks)) == 2)
        os.killpg(process.pid, signal.SIGINT)
        out, errors = process.communicate(timeout=120)
    assert (process.returncode, out) == (130, "")
    assert errors.splitlines() == ["Interrupted; no unfinished file is left behind."]
    assert os.listdir(folder) == []
    wait_for(lambda: not any(is_there(int(mark)) for mark in os.listdir(marks)))
