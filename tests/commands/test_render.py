"""``snapreport render``: formats, names and options."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.commands.conftest import Run


def test_the_path_is_all_of_stdout(run: Run, snapshot: Path, folder: Path) -> None:
    result = run("render", snapshot, "-o", "report.html")
    assert result.exit_code == 0
    assert result.stdout == "report.html\n"
    assert result.stderr == ""
    assert os.listdir(folder) == ["report.html"]
    assert "<!doctype html>" in (folder / "report.html").read_text(encoding="utf-8")[:100].lower()


@pytest.mark.parametrize(
    ("options", "name", "is_page"),
    [
        ([], "snap.html", True),
        (["--format", "md"], "snap.md", False),
        (["-o", "report.md"], "report.md", False),
        (["-o", "report.HTM"], "report.HTM", True),
        (["-o", "report"], "report", True),
        (["-o", "report.txt", "--format", "md"], "report.txt", False),
    ],
)
def test_the_format_is_told_by_the_option_or_else_the_ending(
    run: Run, snapshot: Path, folder: Path, options: list[str], name: str, is_page: bool
) -> None:
    assert run("render", snapshot, *options).stdout == f"{name}\n"
    text = (folder / name).read_text(encoding="utf-8")
    assert text.lower().startswith("<!doctype html>") == is_page


@pytest.mark.parametrize("format_", ["html", "md"])
def test_a_bundle_gives_the_same_report_as_its_snapshot(
    run: Run, snapshot: Path, bundle: Path, folder: Path, format_: str
) -> None:
    run("render", snapshot, "-o", "one", "--format", format_)
    run("render", bundle, "-o", "two", "--format", format_)
    assert (folder / "one").read_bytes() == (folder / "two").read_bytes()


@pytest.mark.parametrize("format_", ["html", "md"])
def test_title_and_notes_are_shown_and_are_no_markup(
    run: Run, snapshot: Path, folder: Path, tmp_path: Path, format_: str
) -> None:
    notes = tmp_path / "notes.md"
    notes.write_text("After the *second* epoch.\n\n<script>alert(1)</script>\n", encoding="utf-8")
    options = ["--title", "Run 12 <script>", "--notes", notes, "--format", format_]
    assert run("render", snapshot, "-o", "report", *options).exit_code == 0
    text = (folder / "report").read_text(encoding="utf-8")
    assert "Run 12" in text
    assert "epoch" in text
    assert "Run 12 <script>" not in text
    assert "<script>alert(1)" not in text


@pytest.mark.parametrize("device", ["0", "cuda:0"])
def test_a_device_is_named_by_number_or_name(run: Run, snapshot: Path, device: str) -> None:
    assert run("render", snapshot, "--device", device).exit_code == 0


def test_force_replaces_the_output(run: Run, snapshot: Path, folder: Path) -> None:
    (folder / "snap.html").write_text("old")
    assert run("render", snapshot, "--force").exit_code == 0
    assert (folder / "snap.html").stat().st_size > 1000
