"""A run that is converted again: what is there and whole is left as it is."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.commands.conftest import Run
from tests.commands.test_process import SNAPREPORT


@pytest.fixture
def fleet(snapshot: Path, samples: Path, folder: Path) -> Path:
    """Two ranks, converted once."""
    (folder / "run").mkdir()
    shutil.copy(snapshot, folder / "run" / "rank0.pickle")
    shutil.copy(samples / "two_streams.pickle", folder / "run" / "rank1.pickle")
    return folder


def convert(run: Run, *more: str) -> tuple[int, str, str]:
    done = run("convert", "run", "-o", "out", "--jobs", "1", *more)
    return done.exit_code, done.stdout, done.stderr


def written(folder: Path) -> dict[str, tuple[int, int]]:
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.iterdir()}


def test_what_is_there_is_not_made_again(run: Run, fleet: Path) -> None:
    both = "out/rank0.zip\nout/rank1.zip\n"
    assert convert(run)[:2] == (0, both)
    before = written(fleet / "out")
    status, out, said = convert(run)
    assert (status, out) == (0, both)
    assert "2 bundles already there, made from the same files." in said
    assert written(fleet / "out") == before
    (fleet / "out" / "rank0.zip").unlink()
    status, out, said = convert(run)
    assert (status, out) == (0, both)
    assert "1 bundle already there, made from the same file." in said
    assert "1 bundle: " in said
    assert convert(run, "--force")[:2] == (0, both)


def test_what_is_cut_off_or_of_another_file_is_no_bundle_of_it(run: Run, fleet: Path) -> None:
    convert(run)
    whole = (fleet / "out" / "rank0.zip").read_bytes()
    (fleet / "out" / "rank0.zip").write_bytes(whole[: len(whole) // 2])
    shutil.copy(fleet / "run" / "rank0.pickle", fleet / "run" / "rank1.pickle")
    status, out, said = convert(run)
    assert (status, out) == (1, "")
    for name in ("rank0", "rank1"):
        assert f"Error: out/{name}.zip already exists; pass --force to replace it." in said


def test_what_is_made_with_options_is_made_with_them(run: Run, fleet: Path) -> None:
    convert(run)
    status, out, _ = convert(run, "--keep-paths")
    assert (status, out) == (1, "")
    (fleet / "out" / "rank0.zip").unlink()
    convert(run, "--min-size", "1MiB")
    assert "out/rank0.zip already exists" in convert(run)[2]


def test_watching_ends_with_ctrl_c(fleet: Path) -> None:
    with subprocess.Popen(
        [*SNAPREPORT, "convert", "run", "-o", "out", "--watch", "--jobs", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert {process.stdout.readline() for _ in range(2)} == {
            "out/rank0.zip\n",
            "out/rank1.zip\n",
        }
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert errors.splitlines()[0] == "Waiting for snapshots; Ctrl-C ends it."
    assert "Interrupted" not in errors


def test_only_folders_are_watched(run: Run, snapshot: Path) -> None:
    done = run("convert", snapshot, "--watch")
    assert done.exit_code == 2
    assert "--watch takes folders." in done.stderr
