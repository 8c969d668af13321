"""``convert`` and ``render`` of several files and folders: what is written and what is said."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import snapreport
from snapreport.api.runs import tasks
from tests.commands.conftest import Run, one_block_snapshot


@pytest.fixture(autouse=True)
def _one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take one process where no number is given: to start one takes longer than these files."""
    monkeypatch.setattr(tasks, "usable_cpus", lambda: 1)


@pytest.fixture
def ranks(tmp_path: Path) -> Path:
    """A folder with four ranks, of which one is broken, and a file that is not a snapshot."""
    folder = tmp_path / "run"
    folder.mkdir()
    for rank in (0, 1, 10):
        (folder / f"rank{rank}.pickle").write_bytes(pickle.dumps(one_block_snapshot()))
    whole = (folder / "rank0.pickle").read_bytes()
    (folder / "rank2.pickle").write_bytes(whole[: len(whole) // 2])
    (folder / "log.txt").write_text("step 1")
    return folder


def test_one_that_is_broken_stops_no_other(run: Run, ranks: Path, folder: Path) -> None:
    result = run("convert", ranks, "-o", "out/bundles")
    assert result.exit_code == 1
    names = ["rank0.zip", "rank1.zip", "rank10.zip"]
    assert result.stdout.splitlines() == [f"out/bundles/{name}" for name in names]
    assert sorted(os.listdir(folder / "out" / "bundles")) == sorted(names)
    said = result.stderr.splitlines()
    assert said[0] == f"Skipped: {ranks}/log.txt (not named like a snapshot or bundle)"
    assert said[1].startswith("3 bundles: ")
    errors = [line for line in said if line.startswith("Error: ")]
    assert len(errors) == 1
    assert f"{ranks}/rank2.pickle is a pickle that is cut off" in errors[0]


def test_quiet_says_errors_alone(run: Run, ranks: Path) -> None:
    result = run("convert", ranks, "-q")
    assert [line.split(":")[0] for line in result.stderr.splitlines()] == ["Error"]


def test_the_number_of_jobs_changes_no_byte(run: Run, samples: Path, folder: Path) -> None:
    sources = [
        samples / f"{name}.pickle" for name in ("training_step", "two_streams", "state_only")
    ]
    for jobs in (1, 2):
        assert run("convert", *sources, "-o", f"out{jobs}", "--jobs", jobs).exit_code == 0
    one, two = folder / "out1", folder / "out2"
    assert len(os.listdir(one)) == len(sources)
    assert sorted(os.listdir(one)) == sorted(os.listdir(two))
    for name in os.listdir(one):
        assert (one / name).read_bytes() == (two / name).read_bytes()
    alone = run("convert", sources[0], "-o", "alone.zip").stdout.strip()
    assert (folder / alone).read_bytes() == (one / "training_step.zip").read_bytes()


def test_equal_names_have_their_folders_in_them(
    run: Run, snapshot: Path, folder: Path, tmp_path: Path
) -> None:
    for rank in ("rank0", "rank1"):
        (tmp_path / rank).mkdir()
        shutil.copy(snapshot, tmp_path / rank / "snap.pickle")
    result = run("convert", tmp_path / "rank0", tmp_path / "rank1" / "snap.pickle")
    assert result.stdout.splitlines() == ["rank0-snap.zip", "rank1-snap.zip"]
    assert sorted(os.listdir(folder)) == ["rank0-snap.zip", "rank1-snap.zip"]


def test_names_that_cannot_be_told_apart_are_an_error_before_any_work(
    run: Run, snapshot: Path, folder: Path
) -> None:
    other = shutil.copy(snapshot, snapshot.with_suffix(".pkl"))
    result = run("convert", snapshot, other, "-o", "out")
    assert result.exit_code == 1
    assert "would both be written to snap.zip" in result.stderr
    assert os.listdir(folder) == []


@pytest.mark.parametrize(
    ("output", "words"),
    [("out.zip", "is named as a file is"), ("-", "is named as a file is"), ("log", "is a file")],
)
def test_an_output_that_is_no_folder_is_an_error(
    run: Run, ranks: Path, folder: Path, output: str, words: str
) -> None:
    (folder / "log").touch()
    result = run("convert", ranks, "-o", output)
    assert result.exit_code == 1
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert os.listdir(folder) == ["log"]


@pytest.mark.parametrize("jobs", ["0", "-1", "two"])
def test_jobs_has_to_be_a_number_of_processes(run: Run, ranks: Path, jobs: str) -> None:
    result = run("convert", ranks, "--jobs", jobs)
    assert result.exit_code == 2
    assert "--jobs" in result.stderr


def test_no_input_is_wrong_usage(run: Run) -> None:
    for command in ("convert", "render"):
        assert run(command).exit_code == 2


def test_a_folder_without_snapshots_is_one_line(run: Run, tmp_path: Path, folder: Path) -> None:
    (tmp_path / "none").mkdir()
    result = run("render", tmp_path / "none", "-o", "out")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {tmp_path}/none holds no snapshot or bundle")
    assert os.listdir(folder) == []


def test_files_that_exist_are_kept_and_the_others_made(
    run: Run, snapshot: Path, samples: Path, folder: Path
) -> None:
    (folder / "snap.zip").write_text("old")
    sources = (snapshot, samples / "two_streams.pickle")
    result = run("convert", *sources)
    assert result.exit_code == 1
    assert result.stdout == "two_streams.zip\n"
    assert "Error: snap.zip already exists; pass --force to replace it." in result.stderr
    assert (folder / "snap.zip").read_text() == "old"
    assert run("convert", *sources, "--force").stdout == "snap.zip\ntwo_streams.zip\n"
    assert (folder / "snap.zip").read_bytes().startswith(b"PK")


def test_a_folder_made_for_nothing_is_removed(
    run: Run, broken: Callable[[str], Path], folder: Path
) -> None:
    result = run("convert", broken("empty"), broken("missing"), "-o", "new/out")
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 2
    assert os.listdir(folder) == []


@pytest.mark.parametrize("kind", ["runs-code", "other-zip", "newer-bundle", "truncated-gzip"])
def test_each_broken_input_among_others_is_one_line(
    run: Run, broken: Callable[[str], Path], snapshot: Path, kind: str
) -> None:
    path = broken(kind)
    result = run("render", path, snapshot, "--pages", "none")
    assert result.exit_code == 1
    assert result.stdout == "run.html\n"
    said = [line for line in result.stderr.splitlines() if line.startswith("Error")]
    assert len(said) == 1
    assert str(path) in said[0]


def test_warnings_name_their_bundle(run: Run, samples: Path, snapshot: Path) -> None:
    result = run("convert", samples / "state_only.pickle", snapshot)
    assert (
        "Warning: state_only.zip: No history was recorded: 1 event beside 48 live allocations"
        in result.stderr.splitlines()
    )


def test_from_python_outcomes_come_in_order(ranks: Path, tmp_path: Path) -> None:
    seen: list[tuple[str, str | None, int]] = []
    batch = snapreport.convert_many(
        ranks,
        tmp_path / "out",
        jobs=2,
        progress=lambda doing: seen.append((doing.source.name, doing.what, doing.ended)),
    )
    assert [each.source.name for each in batch.outcomes] == [
        "rank0.pickle", "rank1.pickle", "rank2.pickle", "rank10.pickle"
    ]  # fmt: skip
    assert len(batch.paths) == 3
    assert len(batch.errors) == 1
    assert "rank0.pickle" in [name for name, what, _ in seen if what is not None]
    assert [ended for _, what, ended in seen if what is None] == [1, 2, 3, 4]


def test_from_python_wrong_options_are_refused(ranks: Path, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="colours"):
        snapreport.convert_many(ranks, tmp_path, colours="site")
    with pytest.raises(TypeError, match="see"):
        snapreport.convert_many(ranks, tmp_path, see=print)
    with pytest.raises(ValueError, match="jobs is 0"):
        snapreport.convert_many(ranks, tmp_path / "out", jobs=0)
    assert not (tmp_path / "out").exists()


def test_a_folder_of_folders_gives_what_its_folders_give(
    run: Run, snapshot: Path, folder: Path
) -> None:
    for rank in ("rank0", "rank1"):
        (folder / "run" / rank).mkdir(parents=True)
        (folder / "run" / rank / "snapshot.pickle").write_bytes(snapshot.read_bytes())
    made = ["rank0-snapshot.zip", "rank1-snapshot.zip"]
    for output, given in (("whole", ["run"]), ("each", ["run/rank0", "run/rank1"])):
        assert run("convert", *given, "-o", output, "-q").exit_code == 0
        assert set(made) <= set(os.listdir(folder / output))
    for name in made:
        assert (folder / "whole" / name).read_bytes() == (folder / "each" / name).read_bytes()
