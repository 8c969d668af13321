"""``snapreport convert``: what it writes and what it says."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from snapreport.commands.console import say_warnings
from tests import forked_commands
from tests.commands.conftest import Run


def test_the_path_is_all_of_stdout_and_the_size_goes_to_stderr(
    run: Run, snapshot: Path, folder: Path
) -> None:
    result = run("convert", snapshot, "-o", "out.zip")
    assert result.exit_code == 0
    assert result.stdout == "out.zip\n"
    assert "% of the snapshot's" in result.stderr
    assert os.listdir(folder) == ["out.zip"]
    assert {"manifest.json", "elements.db", "allocations.json"} <= set(
        zipfile.ZipFile(folder / "out.zip").namelist()
    )


def test_without_output_the_name_comes_from_the_input(
    run: Run, snapshot: Path, folder: Path
) -> None:
    assert run("convert", snapshot).stdout == "snap.zip\n"
    assert os.listdir(folder) == ["snap.zip"]


def test_a_folder_as_output_is_written_into(run: Run, snapshot: Path, folder: Path) -> None:
    (folder / "bundles").mkdir()
    assert run("convert", snapshot, "-o", "bundles").stdout == "bundles/snap.zip\n"
    assert (folder / "bundles" / "snap.zip").is_file()


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("convert",), "snap.zip"),
        (("render",), "snap.html"),
        (("render", "--format", "md"), "snap.md"),
        (("export", "csv"), "snap.csv"),
        (("check", "--max-peak", "1TiB"), "snap.check.md"),
    ],
)
def test_an_output_that_ends_in_a_slash_is_a_folder_and_is_made(
    run: Run, snapshot: Path, folder: Path, command: tuple[str, ...], name: str
) -> None:
    result = run(*command, snapshot, "-o", "made/v1.7/")
    assert (result.exit_code, result.stdout) == (0, f"made/v1.7/{name}\n")
    assert os.listdir(folder / "made" / "v1.7") == [name]


def test_a_folder_made_for_an_output_that_fails_is_removed(run: Run, folder: Path) -> None:
    assert run("convert", "missing.pickle", "-o", "made/v1.7/").exit_code == 1
    assert os.listdir(folder) == []


def test_quiet_leaves_stderr_empty(run: Run, snapshot: Path) -> None:
    result = run("convert", snapshot, "--quiet")
    assert result.stdout == "snap.zip\n"
    assert result.stderr == ""


def test_force_replaces_the_output(run: Run, snapshot: Path, folder: Path) -> None:
    (folder / "snap.zip").write_text("old")
    assert run("convert", snapshot, "--force").exit_code == 0
    assert zipfile.is_zipfile(folder / "snap.zip")


def test_equal_input_gives_equal_bytes(run: Run, snapshot: Path, folder: Path) -> None:
    run("convert", snapshot, "-o", "one.zip")
    run("convert", snapshot, "-o", "two.zip")
    assert (folder / "one.zip").read_bytes() == (folder / "two.zip").read_bytes()


def test_a_name_that_is_not_utf_8_comes_out_byte_for_byte(
    run: Run, snapshot: Path, folder: Path
) -> None:
    shutil.copy(snapshot, os.fsdecode(b"caf\xe9.pickle"))
    result = run("convert", os.fsdecode(b"caf\xe9.pickle"), "--quiet")
    assert result.stdout_bytes == b"caf\xe9.zip\n"


def test_the_snapshot_s_warnings_are_said_a_line_each(run: Run, samples: Path) -> None:
    result = run("convert", samples / "state_only.pickle")
    said = result.stderr.splitlines()
    assert said[1:] == [
        "Warning: No history was recorded: 1 event beside 48 live allocations",
        "snapreport summary --findings state_only.zip explains, and says what to do.",
    ]


def test_what_is_merely_good_to_know_is_no_warning(run: Run, samples: Path) -> None:
    result = run("convert", samples / "cpu_profile.pickle")
    assert len(result.stderr.splitlines()) == 1


def test_of_many_warnings_the_first_five_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    say_warnings([f"number {i}" for i in range(7)])
    said = capsys.readouterr().err.splitlines()
    assert said[:2] == ["Warning: number 0", "Warning: number 1"]
    assert said[5:] == ["Warning: 2 more; the report lists all of them."]


def test_a_bundle_can_be_written_to_a_pipe(snapshot: Path, folder: Path) -> None:
    done = forked_commands.run(
        ["convert", str(snapshot), "-o", "/dev/stderr"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=False,
    )
    assert done.returncode == 0
    assert done.stderr.startswith(b"PK")
    assert os.listdir(folder) == []
