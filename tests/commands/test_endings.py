"""An output whose ending belongs to another form is refused before any work, by every command."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import snapreport
from tests.commands.conftest import Run


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("convert", "{}", "-o", "x.html"), "end the name in .zip, or make a page with"),
        (("render", "{}", "-o", "x.zip"), "end the name in .html or .md, or make a bundle with"),
        (("render", "{}", "--format", "html", "-o", "x.md"), "end the name in .html, or make"),
        (("render", "{}", "-o", "x.json"), "'snapreport export json'"),
        (("render", "{}", "{}.2", "-o", "x.json"), "has to end in .html, .md or .zip"),
        (("convert", "{}", "{}.2", "-o", "x.zip"), "here -o names a folder"),
        (("diff", "{}", "{}.2", "-o", "x.zip"), "end the name in .html or .md, or make a bundle"),
        (("render", "{}", "-o", "x.other"), "or give the format with --format html or --format md"),
        (("render", "{}", "-o", "x.txt"), "or give the format with --format html or --format md"),
        (("check", "{}", "--max-peak", "1GiB", "-o", "x.html"), "end the name in .md, or"),
        (("export", "csv", "{}", "-o", "x.parquet"), "end the name in .csv, or make Parquet"),
        (("export", "pickle", "{}", "-o", "x.pickle.gz"), "end the name in .pickle."),
        (("export", "snapviewer", "{}", "-o", "x.zip"), "end the name in .snapviewer, or"),
        (("record", "-o", "x.html", "{}.py"), "here -o names a folder"),
    ],
)
def test_the_ending_of_another_form_is_refused_in_one_line(
    run: Run, snapshot: Path, folder: Path, arguments: tuple[str, ...], said: str
) -> None:
    Path(f"{snapshot}.2").write_bytes(snapshot.read_bytes())
    Path(f"{snapshot}.py").touch()
    done = run(*(each.format(snapshot) for each in arguments))
    assert done.exit_code == 1
    assert done.stderr.count("\n") == 1
    assert said in done.stderr
    assert done.stdout == ""
    assert os.listdir(folder) == []


@pytest.mark.parametrize(
    "write",
    [
        lambda path: snapreport.convert(path, "x.html"),
        lambda path: snapreport.render(path, "x.zip"),
        lambda path: snapreport.render(path, "x.md", format="html"),
        lambda path: snapreport.render_diff(snapreport.diff(path, path), "x.csv", format="md"),
        lambda path: snapreport.export(path, "speedscope", "x.html"),
        lambda path: snapreport.convert_many([path], "x.zip"),
        lambda _path: snapreport.record("x.html"),
    ],
)
def test_so_it_is_in_python(write: Callable[[Path], object], snapshot: Path, folder: Path) -> None:
    with pytest.raises(snapreport.OutputError):
        write(snapshot)
    assert os.listdir(folder) == []


def test_an_unknown_ending_is_as_good_as_none(run: Run, snapshot: Path, folder: Path) -> None:
    assert run("convert", snapshot, "-o", "snap.bundle").exit_code == 0
    assert run("render", snapshot, "--format", "md", "-o", "comment.txt").exit_code == 0
    assert sorted(os.listdir(folder)) == ["comment.txt", "snap.bundle"]
