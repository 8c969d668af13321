"""Every expected error: one line on stderr, status 1, nothing on stdout and nothing written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import snapreport
from snapreport.commands import cli
from tests.commands.conftest import Run

KINDS = [
    "missing",
    "folder",
    "empty",
    "text",
    "binary",
    "truncated-pickle",
    "other-pickle",
    "other-json",
    "truncated-json",
    "truncated-gzip",
    "truncated-zstd",
    "truncated-zip",
    "other-zip",
    "newer-bundle",
    "runs-code",
    "runs-code-inside",
]


def assert_one_line_error(result: Result, *words: str) -> None:
    assert result.exit_code == 1
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("Error: ")
    for word in words:
        assert word in lines[0]


@pytest.mark.parametrize("command", ["convert", "render", "summary"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_broken_input_is_one_line_that_names_the_file(
    run: Run, broken: Callable[[str], Path], folder: Path, command: str, kind: str
) -> None:
    path = broken(kind)
    assert_one_line_error(run(command, path), str(path))
    assert os.listdir(folder) == []


@pytest.mark.parametrize("kind", ["runs-code", "runs-code-inside"])
def test_a_pickle_that_calls_os_system_is_refused_and_nothing_ran(
    run: Run, broken: Callable[[str], Path], tmp_path: Path, kind: str
) -> None:
    path = broken(kind)
    assert_one_line_error(run("render", path), "could run code", "nothing in it was run")
    assert not (tmp_path / "it-ran").exists()


def test_a_newer_bundle_says_so(run: Run, broken: Callable[[str], Path]) -> None:
    assert_one_line_error(run("render", broken("newer-bundle")), "999", "newer")


@pytest.mark.parametrize(("command", "name"), [("convert", "snap.zip"), ("render", "snap.html")])
def test_an_existing_output_is_kept(
    run: Run, snapshot: Path, folder: Path, command: str, name: str
) -> None:
    (folder / name).write_text("old")
    assert_one_line_error(run(command, snapshot), f"{name} already exists; pass --force")
    assert (folder / name).read_text() == "old"
    assert os.listdir(folder) == [name]


@pytest.mark.parametrize("command", ["convert", "render"])
def test_an_output_in_a_missing_folder_is_an_error(
    run: Run, snapshot: Path, folder: Path, command: str
) -> None:
    result = run(command, snapshot, "-o", "no/such/place")
    assert_one_line_error(result, "place", "there is no folder")
    assert os.listdir(folder) == []


@pytest.mark.parametrize("command", ["convert", "render"])
@pytest.mark.parametrize("force", [[], ["--force"]])
def test_the_input_is_never_replaced_by_the_output(
    run: Run, snapshot: Path, command: str, force: list[str]
) -> None:
    before = snapshot.read_bytes()
    options = ["--format", "html"] if command == "render" else []
    assert_one_line_error(run(command, snapshot, "-o", snapshot, *options, *force))
    assert snapshot.read_bytes() == before


def test_the_notes_are_never_replaced_by_the_report(run: Run, snapshot: Path, folder: Path) -> None:
    notes = folder / "notes.md"
    notes.write_text("mine")
    assert_one_line_error(run("render", snapshot, "--notes", notes, "-o", notes, "--force"))
    assert notes.read_text() == "mine"


@pytest.mark.parametrize("command", ["render", "summary"])
@pytest.mark.parametrize("device", ["7", "cuda:7", "gpu", ""])
def test_an_unknown_device_is_answered_with_those_there_are(
    run: Run, snapshot: Path, folder: Path, command: str, device: str
) -> None:
    assert_one_line_error(run(command, snapshot, "--device", device), "cuda:0")
    assert os.listdir(folder) == []


@pytest.mark.parametrize("kind", ["missing", "folder", "not-utf-8"])
def test_bad_notes_are_one_line_that_names_the_file(
    run: Run, snapshot: Path, folder: Path, tmp_path: Path, kind: str
) -> None:
    notes = tmp_path / "notes.md"
    if kind == "folder":
        notes.mkdir()
    elif kind == "not-utf-8":
        notes.write_bytes(b"caf\xe9")
    assert_one_line_error(run("render", snapshot, "--notes", notes), str(notes))
    assert os.listdir(folder) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["convert"],
        ["render"],
        ["summary"],
        ["convert", "a.pickle", "--device", "0"],
        ["render", "a.pickle", "--format", "pdf"],
        ["summary", "a.pickle", "--jsn"],
        ["explain", "a.pickle"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_status_two(run: Run, folder: Path, arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Usage: " in result.stderr
    assert os.listdir(folder) == []


def test_a_file_name_cannot_drive_the_terminal_or_break_the_line(run: Run) -> None:
    result = run("summary", "a\n\x1b[31mred.pickle")
    assert_one_line_error(result, r"a\n\x1b[31mred.pickle")


def test_too_little_memory_is_one_line(
    run: Run, snapshot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(snapreport, "load", fail)
    assert_one_line_error(run("summary", snapshot), "not enough memory")


@pytest.mark.parametrize("error", [ZeroDivisionError(), PermissionError(1, "not of a file")])
def test_a_bug_keeps_its_traceback(
    snapshot: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(snapreport, "load", fail)
    result = CliRunner().invoke(cli, ["summary", str(snapshot)])
    assert result.exception is error
