"""What is made of a file that only its owner may read is its owner's alone, whatever made it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

import snapreport
from tests.commands.conftest import Run
from tests.commands.test_errors import assert_one_line_error
from tests.unit.api.runs.test_inputs import as_nobody

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


READERS = (
    ("summary", "{}"),
    ("convert", "{}"),
    ("render", "{}"),
    ("stages", "{}"),
    ("whatif", "{}"),
    ("strings", "{}"),
    ("query", "{}", "SELECT 1"),
    ("check", "{}", "--max-peak", "1GiB"),
    ("export", "pickle", "{}"),
    ("diff", "{}", "{}"),
)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("name", ["snap.pickle", "snap.zip"])
def test_a_file_in_a_folder_that_may_not_be_searched_is_one_line(
    run: Run, snapshot: Path, name: str
) -> None:
    with tempfile.TemporaryDirectory() as public:
        Path(public).chmod(0o755)
        closed = Path(public) / "closed"
        closed.mkdir()
        (closed / name).write_bytes(snapshot.read_bytes())
        closed.chmod(0o744)
        for command in READERS:  # imports what they need: nobody may not read root's Python
            run(*(each.format(closed / "missing.zip") for each in command))
        with as_nobody():
            done = [run(*(each.format(closed / name) for each in command)) for command in READERS]
    for result in done:
        assert_one_line_error(result, f"{closed / name} cannot be read: ", "ermission denied")


@pytest.mark.parametrize("name", ["rank0.pickle", "rank0.zip"])
@pytest.mark.parametrize("device", [None, "/dev/zero"])
def test_a_pipe_or_a_device_is_one_line_at_once(
    run: Run, folder: Path, name: str, device: str | None
) -> None:
    if device is None:
        os.mkfifo(name)
    else:
        Path(name).symlink_to(device)
    for command in READERS:
        done = run(*(each.format(name) for each in command))
        assert_one_line_error(done, name, "is a pipe or device; save its content to a file first.")
    assert os.listdir(folder) == [name]
