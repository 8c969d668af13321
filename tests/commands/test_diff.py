"""``snapreport diff``: two files in, a conclusion, tables, JSON or a report out."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

import snapreport
from tests.builders import MIB, frame, trace
from tests.commands.conftest import Run
from tests.commands.test_errors import KINDS, assert_one_line_error


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Allocates 1 MiB in attend() and 2 MiB in project(), inside a stage."""
    return _write(tmp_path / "base.pickle", 1, 40)


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """The same with 4 MiB in attend(), two lines further down, of a job elsewhere."""
    return _write(tmp_path / "new.pickle", 4, 42)


def _write(path: Path, size: int, line: int) -> Path:
    folder = f"/home/ann/{path.stem}"
    made = (
        trace()
        .segment("s", 20 * MIB)
        .start("forward", 0)
        .alloc("a", size * MIB, frames=[frame("attend", f"{folder}/attention.py", line)])
        .alloc("b", 2 * MIB, frames=[frame("project", f"{folder}/attention.py", line + 9)])
        .end("forward", 15)
        .free("b")
    )
    path.write_bytes(pickle.dumps(made.snapshot()))
    return path


CONCLUSION = "NEW peaks 3.00 MiB higher (+100%), mostly from attention.py:42 attend, +3.00 MiB."


def test_the_conclusion_is_the_first_line(run: Run, base: Path, new: Path) -> None:
    result = run("diff", base, new)
    assert result.exit_code == 0
    assert result.stderr == ""
    assert result.stdout.splitlines()[0] == CONCLUSION
    assert "attend  new/attention.py:42  was line 40" in result.stdout
    assert "+3,145,728  in all" in result.stdout
    assert "forward" in result.stdout


def test_json_has_every_figure_in_rows_that_sum_up(run: Run, base: Path, new: Path) -> None:
    found = orjson.loads(run("diff", base, new, "--json", "--by", "file").stdout)
    assert found["conclusion"] == CONCLUSION
    assert found["change"] == 3 * MIB
    assert (found["base"]["bytes"], found["new"]["bytes"]) == (3 * MIB, 6 * MIB)
    for rows in ("changes", "sites", "parts", "categories"):
        assert sum(row["change"] for row in found[rows]) == 3 * MIB
        for row in found[rows]:
            assert not [value for value in row.values() if isinstance(value, dict | list)]
    (attend,) = [row for row in found["sites"] if row["name"] == "attend"]
    assert (attend["base_line"], attend["new_line"], attend["match"]) == (40, 42, "moved line")
    assert attend["base_file"] == "base/attention.py"
    assert [row["name"] for row in found["changes"]] == ["new/attention.py"]
    assert found["stages"][0]["change"] == 3 * MIB


def test_a_bundle_and_its_snapshot_compare_alike(run: Run, base: Path, new: Path) -> None:
    assert run("convert", base, "-o", "base.zip").exit_code == 0
    assert run("diff", "base.zip", new).stdout == run("diff", base, new).stdout
    mixed = orjson.loads(run("diff", "base.zip", base, "--json").stdout)
    assert mixed["change"] == 0
    assert {row["match"] for row in mixed["sites"]} == {"exact"}


@pytest.mark.parametrize(
    ("options", "name", "is_page"),
    [
        (["-o", "diff.html"], "diff.html", True),
        (["-o", "diff.md"], "diff.md", False),
        (["-o", "diff.txt", "--format", "md"], "diff.txt", False),
        (["-o", "."], "new.diff.html", True),
    ],
)
def test_a_report_is_written_and_its_path_printed(
    run: Run, base: Path, new: Path, folder: Path, options: list[str], name: str, is_page: bool
) -> None:
    result = run("diff", base, new, *options)
    assert result.stdout == f"{name}\n"
    assert os.listdir(folder) == [name]
    text = (folder / name).read_text(encoding="utf-8")
    assert text.lower().startswith("<!doctype html>") == is_page
    assert "3.00 MiB higher" in text


def test_an_existing_report_is_kept(run: Run, base: Path, new: Path, folder: Path) -> None:
    (folder / "diff.html").write_text("old")
    result = run("diff", base, new, "-o", "diff.html")
    assert_one_line_error(result, "diff.html already exists; pass --force")
    assert run("diff", base, new, "-o", "diff.html", "--force").exit_code == 0
    assert (folder / "diff.html").read_text(encoding="utf-8") != "old"


@pytest.mark.parametrize("which", ["base", "new"])
def test_neither_input_is_replaced_by_the_report(
    run: Run, base: Path, new: Path, which: str
) -> None:
    base, new = base.rename(base.with_suffix(".md")), new.rename(new.with_suffix(".htm.md"))
    path = {"base": base, "new": new}[which]
    before = path.read_bytes()
    result = run("diff", base, new, "-o", path, "--format", "md", "--force")
    assert_one_line_error(result, "is the input itself")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "change"),
    [
        (["--curve", "reserved"], 0),
        (["--at", "start"], 0),
        (["--at", "end"], 3 * MIB),
        (["--stage", "forward"], 3 * MIB),
        (["--base-event", "0", "--new-event", "1"], 5 * MIB),
        (["--new-event", "-1"], -3 * MIB),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_moment_of_each_is_chosen(
    run: Run, base: Path, new: Path, options: list[str], change: int
) -> None:
    assert orjson.loads(run("diff", base, new, "--json", *options).stdout)["change"] == change


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_a_broken_input_is_one_line_that_names_the_file(
    run: Run, broken: Callable[[str], Path], base: Path, kind: str, side: int
) -> None:
    path = broken(kind)
    pair = (path, base) if side == 0 else (base, path)
    assert_one_line_error(run("diff", *pair), str(path))


def test_kinds_of_memory_that_do_not_compare_are_one_line(
    run: Run, base: Path, samples: Path
) -> None:
    result = run("diff", base, samples / "cpu_profile.pickle")
    assert_one_line_error(result, "cuda:0 of base.pickle", "cpu:0 of cpu_profile.pickle", "kinds")


def test_a_profile_does_not_compare_with_the_allocator(
    run: Run, base: Path, tmp_path: Path
) -> None:
    # What torch.profiler gives for a GPU: no stacks, no times, states of its own; only two keys.
    made = trace().alloc("a", MIB, time_us=None, category="parameter", frames=[])
    snapshot = made.snapshot()
    profile = {
        "segments": [],
        "device_traces": [snapshot["device_traces"][0], []],
    }
    path = tmp_path / "profile.pickle"
    path.write_bytes(pickle.dumps(profile))
    assert snapreport.load(path).history.layout == "profiler"
    assert_one_line_error(run("diff", base, path), "profile.pickle is from a profiler")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--device", "cuda:7"], ("base.pickle has no device 'cuda:7'", "cuda:0")),
        (["--new-device", "3"], ("new.pickle has no device '3'", "cuda:0")),
        (["--stage", "forwrad"], ("base.pickle: no stage is named 'forwrad'", "'forward'")),
        (["--base-event", "99"], ("base.pickle: there is no event 99",)),
        (["--new-event", "-2"], ("new.pickle: there is no event -2",)),
        (["--rules", '{"a": "("}'], ("rule 1 (a)",)),
        (["-o", "no/such/place.html"], ("there is no folder",)),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_an_expected_error_is_one_line(
    run: Run, base: Path, new: Path, folder: Path, options: list[str], words: tuple[str, ...]
) -> None:
    assert_one_line_error(run("diff", base, new, *options), *words)
    assert os.listdir(folder) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["a.pickle"],
        ["a.pickle", "b.pickle", "--by", "colour"],
        ["a.pickle", "b.pickle", "--json", "-o", "x.html"],
        ["a.pickle", "b.pickle", "--format", "md"],
        ["a.pickle", "b.pickle", "--stage", "x", "--at", "end"],
        ["a.pickle", "b.pickle", "--stage", "x", "--new-event", "3"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_status_two(run: Run, folder: Path, arguments: list[str]) -> None:
    result = run("diff", *arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Usage: " in result.stderr


def test_top_and_full_decide_how_many_rows(run: Run, samples: Path) -> None:
    pair = (samples / "training_step.pickle", samples / "out_of_memory.pickle.gz")
    few = run("diff", *pair, "--top", "2").stdout
    every = run("diff", *pair, "--full").stdout
    assert "17 more changed by" in few
    assert "more changed by" not in every
    assert len(every.splitlines()) > len(few.splitlines()) + 17
