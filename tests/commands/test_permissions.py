"""What is made of a file that only its owner may read is its owner's alone, whatever made it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import snapreport
from tests.commands.conftest import Run

pytestmark = pytest.mark.skipif(os.name != "posix", reason="there are no such permissions")


@pytest.mark.parametrize(
    "arguments",
    [
        ("convert", "{}"),
        ("render", "{}"),
        ("render", "{}", "--format", "md"),
        ("render", "{}", "OPEN", "-o", "pages"),
        ("convert", "{}", "-o", "bundles/new/", "OPEN"),
        ("diff", "{}", "OPEN", "-o", "diff.html"),
        ("diff", "OPEN", "{}", "-o", "diff.md"),
        ("check", "OPEN", "--base", "{}", "--max-growth", "1GiB", "-o", "check.md"),
        ("export", "csv", "{}"),
        ("export", "pickle", "{}", "-o", "raw.pickle"),
        ("export", "snapviewer", "{}"),
    ],
    ids=" ".join,
)
def test_no_output_says_more_than_its_input_to_others(
    run: Run, snapshot: Path, folder: Path, arguments: tuple[str, ...]
) -> None:
    others = snapshot.with_name("open.pickle")
    others.write_bytes(snapshot.read_bytes())
    snapshot.chmod(0o600)
    others.chmod(0o644)
    words = [each.format(snapshot).replace("OPEN", str(others)) for each in arguments]
    assert run(*words).exit_code == 0
    made = [path for path in folder.rglob("*") if path.is_file() and "open" not in path.name]
    assert made
    assert {path.stat().st_mode & 0o777 for path in made} == {0o600}


def test_so_it_is_with_a_comparison_in_python(snapshot: Path, folder: Path) -> None:
    snapshot.chmod(0o600)
    found = snapreport.diff(snapshot, snapreport.load(snapshot))
    page = snapreport.render_diff(found, folder / "diff.html")
    assert page.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("command", ["convert", "render"])
def test_a_link_that_leads_nowhere_is_no_output(
    run: Run, snapshot: Path, folder: Path, command: str
) -> None:
    (folder / "out").symlink_to(folder / "elsewhere")
    done = run(command, snapshot, "-o", "out")
    assert done.exit_code == 1
    assert "out is a link to" in done.stderr
    assert "pass --force" in done.stderr
    assert os.listdir(folder) == ["out"]
