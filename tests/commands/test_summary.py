"""``snapreport summary``: the table, and the figures as JSON."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import orjson
import pytest

from tests.builders import trace
from tests.commands.conftest import MIB, Run
from tests.commands.test_errors import assert_one_line_error


def test_the_table_shows_the_peak_and_writes_nothing(
    run: Run, snapshot: Path, folder: Path
) -> None:
    result = run("summary", snapshot)
    assert result.exit_code == 0
    assert "2.00 MiB" in result.stdout
    assert "20.00 MiB" in result.stdout
    assert result.stderr == ""
    assert os.listdir(folder) == []


def test_json_has_every_figure_in_bytes(run: Run, snapshot: Path) -> None:
    result = run("summary", snapshot, "--json")
    figures = orjson.loads(result.stdout)
    (device,) = figures["devices"]
    assert device["device"] == "cuda:0"
    assert device["peaks"]["allocated"]["bytes"] == 2 * MIB
    assert device["peaks"]["allocated"]["event"] == 2
    assert device["end"]["reserved"] == 20 * MIB
    assert device["closing"]["closes"]
    assert result.stdout.endswith("\n")
    assert not result.stdout.endswith("\n\n")


def test_a_bundle_gives_the_same_figures_as_its_snapshot(
    run: Run, snapshot: Path, bundle: Path
) -> None:
    assert run("summary", bundle).stdout == run("summary", snapshot).stdout
    assert run("summary", bundle, "--json").stdout == run("summary", snapshot, "--json").stdout


def test_one_device_is_picked_by_number_or_name(run: Run, snapshot: Path) -> None:
    whole = run("summary", snapshot, "--json").stdout
    assert orjson.loads(run("summary", snapshot, "--json", "--device", "0").stdout)["devices"]
    assert run("summary", snapshot, "--json", "--device", "cuda:0").stdout == whole


def test_a_card_that_is_asked_about_gets_its_line(run: Run, snapshot: Path, tmp_path: Path) -> None:
    said = run("summary", snapshot, "--card", "t4")
    assert "on a T4" in said.stdout
    assert "the card has 14.55 GiB." in " ".join(said.stdout.split())
    kept = run("summary", snapshot, "--card", "t4", "--allow", "3GiB")
    assert "3.00 GiB are kept for what is outside of PyTorch's allocator" in " ".join(
        kept.stdout.split()
    )
    for name in ("report.md", "report.html"):
        assert run("render", snapshot, "-o", tmp_path / name, "--card", "t4").exit_code == 0
        assert "on a T4" in (tmp_path / name).read_text()
    assert "on a T4" not in run("summary", snapshot).stdout


def test_an_allowance_without_a_card_is_refused(run: Run, snapshot: Path) -> None:
    assert_one_line_error(run("summary", snapshot, "--allow", "1GiB"), "an allowance is for a card")


@pytest.mark.parametrize(
    "command", [("summary",), ("stages",), ("render", "-o", "r.md", "--force")]
)
def test_a_folder_with_one_recording_is_that_recording(
    run: Run, snapshot: Path, folder: Path, command: tuple[str, ...]
) -> None:
    out = folder / "out" / "1"
    out.mkdir(parents=True)
    (out / "report.html").touch()
    (out / "snapshot.pickle").write_bytes(snapshot.read_bytes())
    (out.parent / "latest").symlink_to("1")
    said = []
    for path in ("out", "out/latest", "out/latest/snapshot.pickle"):
        done = run(*command, path)
        assert (done.exit_code, done.stderr) == (0, "")
        said.append(Path("r.md").read_text() if "r.md" in command else done.stdout)
    assert said[0] == said[1] == said[2]


def test_several_files_are_a_table_in_their_order_and_no_ranks(
    run: Run, snapshot: Path, folder: Path
) -> None:
    for name in ("b.pickle", "a.pickle"):
        Path(name).write_bytes(snapshot.read_bytes())
    Path("broken.pickle").write_bytes(b"\x80")
    done = run("summary", "b.pickle", "a.pickle", "broken.pickle", "-q", "--jobs", "1")
    heading, *rows = done.stdout.splitlines()
    assert heading.split() == ["peak", "reserved", "file", "out", "of", "memory", "most", "at",
                               "the", "peak"]  # fmt: skip
    assert [row.split()[:5] for row in rows] == [
        ["2.00", "MiB", "20.00", "MiB", name] for name in ("b.pickle", "a.pickle")
    ]
    assert all(row.endswith("2.00 MiB forward model.py:7") for row in rows)
    assert "rank" not in done.stdout + done.stderr
    assert done.exit_code == 1
    (error,) = done.stderr.splitlines()
    assert error.startswith("Error: broken.pickle ")


def test_several_files_may_be_named_by_absolute_and_by_relative_paths_and_by_their_folder(
    run: Run, snapshot: Path, folder: Path
) -> None:
    Path("more").mkdir()
    for name in ("more/b.pickle", "more/c.pickle", "a.pickle"):
        Path(name).write_bytes(snapshot.read_bytes())
    done = run("summary", "more", folder / "a.pickle", snapshot, "-q", "--jobs", "1")
    assert done.exit_code == 0
    assert [row.split()[4] for row in done.stdout.splitlines()[1:]] == [
        "here/more/b.pickle", "here/more/c.pickle", "here/a.pickle", "snap.pickle",
    ]  # fmt: skip


def test_ranks_among_several_files_are_told_how_to_be_compared(
    run: Run, snapshot: Path, folder: Path
) -> None:
    for name in ("rank0.pickle", "rank1.pickle"):
        Path(name).write_bytes(snapshot.read_bytes())
    done = run("summary", "rank0.pickle", "rank1.pickle", "-q", "--jobs", "1")
    assert done.stdout.splitlines()[-1].startswith("To compare the ranks of a run")
    named = run("summary", "rank0.pickle", "rank1.pickle", "--name", "rank{rank}.pickle", "-q")
    assert named.stdout.startswith("2 files, 2 ranks")


def test_several_files_as_json_are_an_object_for_each_and_an_error_for_those_that_have_none(
    run: Run, snapshot: Path, folder: Path
) -> None:
    for name in ("b.pickle", "a.pickle"):
        Path(name).write_bytes(snapshot.read_bytes())
    Path("broken.pickle").write_bytes(b"\x80")
    done = run("summary", "b.pickle", "broken.pickle", "a.pickle", "--json", "-q", "--jobs", "1")
    assert done.exit_code == 1
    b, broken, a = orjson.loads(done.stdout)["files"]
    assert (b["file"], b["error"], broken["file"], a["file"]) == (
        "b.pickle", None, "broken.pickle", "a.pickle",
    )  # fmt: skip
    assert b["devices"] == a["devices"]
    (device,) = a["devices"]
    assert (device["allocated"], device["reserved"]) == (2 * MIB, 20 * MIB)
    assert device["largest"] == {"site": "forward model.py:7", "bytes": 2 * MIB}
    assert broken["devices"] == []
    assert f"Error: {broken['error']}\n" == done.stderr
    # Where none can be read, the text is empty and the JSON says why.
    none = run("summary", "broken.pickle", "broken.pickle2", "--json", "-q", "--jobs", "1")
    assert none.exit_code == 1
    assert [bool(each["error"]) for each in orjson.loads(none.stdout)["files"]] == [True, True]
    assert run("summary", "broken.pickle", "broken.pickle2", "-q", "--jobs", "1").stdout == ""


def test_the_findings_of_several_files_stand_under_their_names(
    run: Run, snapshot: Path, samples: Path, folder: Path
) -> None:
    oom = samples / "out_of_memory.pickle.gz"
    Path("broken.pickle").write_bytes(b"\x80")
    done = run("summary", "broken.pickle", oom, snapshot, "--findings", "-q")
    assert done.exit_code == 1
    assert done.stderr.startswith("Error: broken.pickle ")
    of_oom, of_other = (run("summary", each, "--findings").stdout for each in (oom, snapshot))
    assert done.stdout == f"{oom}\n\n{of_oom}\n{snapshot}\n\n{of_other}"


def test_devices_without_memory_share_a_line(run: Run, folder: Path) -> None:
    made = trace().alloc("a", MIB).snapshot()
    made["device_traces"] += [[], [], []]
    (folder / "four.pickle").write_bytes(pickle.dumps(made))
    assert run("summary", "four.pickle").stdout.endswith(
        "\n\ncuda:1, cuda:2 and cuda:3: nothing was allocated\n"
    )
