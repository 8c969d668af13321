"""Every recording keeps its files: numbered folders, the newest by name, ranks together."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest

import snapreport
from snapreport.recorders import system
from snapreport.recorders.system import claim
from tests.recording import ready
from tests.recording.fake_torch import FakeGpu
from tests.recording.folders import MIB, allocations

needs_forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="ranks are forks here")


def folders(parent: Path) -> list[str]:
    return sorted(path.name for path in parent.iterdir() if path.name[0] != ".")


def record(gpu: FakeGpu, folder: Path, size: int, **arguments: object) -> snapreport.Recording:
    with snapreport.record(folder, formats=["pickle"], **arguments) as recording:  # type: ignore[arg-type]
        gpu.alloc(size)
    return recording


def test_a_second_run_keeps_the_first_ones_files_and_latest_leads_to_it(
    gpu: FakeGpu, tmp_path: Path
) -> None:
    for size in (MIB, 2 * MIB):
        recording = record(gpu, tmp_path, size)
    assert folders(tmp_path) == ["1", "2", "latest"]
    assert recording.folder == tmp_path / "2"
    assert allocations(tmp_path / "1" / "snapshot.pickle") == [MIB]
    assert allocations(tmp_path / "latest" / "snapshot.pickle") == [2 * MIB]
    assert (tmp_path / "latest").readlink() == Path("2")


def test_force_removes_the_newest_recording_and_nothing_else(gpu: FakeGpu, tmp_path: Path) -> None:
    record(gpu, tmp_path, MIB)
    record(gpu, tmp_path, 2 * MIB)
    (tmp_path / "2" / "notes.txt").write_text("mine")
    with snapreport.record(tmp_path, formats=["pickle"], force=True):
        assert (tmp_path / "2" / "snapshot.pickle").exists()  # this one may crash
        gpu.alloc(3 * MIB)
    assert folders(tmp_path) == ["1", "2", "3", "latest"]
    assert folders(tmp_path / "2") == ["notes.txt"]
    record(gpu, tmp_path, MIB, force=True)
    assert folders(tmp_path) == ["1", "2", "4", "latest"]
    assert allocations(tmp_path / "latest" / "snapshot.pickle") == [MIB]


def test_latest_leads_to_no_recording_without_files(gpu: FakeGpu, tmp_path: Path) -> None:
    record(gpu, tmp_path, MIB)
    with snapreport.record(tmp_path, formats=["pickle"]) as recording:
        assert (tmp_path / "latest").readlink() == Path("1")
        recording.snapshot("now")  # killed from here on, it has left something
        assert (tmp_path / "latest").readlink() == Path("2")
    with pytest.raises(snapreport.RecordingError):
        _fail_to_start(gpu, tmp_path)
    assert folders(tmp_path) == ["1", "2", "latest"]


def _fail_to_start(gpu: FakeGpu, folder: Path) -> None:
    gpu.torch.cuda.memory.get_allocator_backend = lambda: "cudaMallocAsync"
    snapreport.start(folder)


def test_an_older_recording_that_ends_later_is_not_the_latest(tmp_path: Path) -> None:
    older, newer = claim(tmp_path, False), claim(tmp_path, False)
    newer.filled()
    older.filled()
    assert (tmp_path / "latest").readlink() == Path("2")
    assert claim(tmp_path, True).replaces == 2


def test_snapshots_of_one_name_are_all_kept(gpu: FakeGpu, tmp_path: Path) -> None:
    with snapreport.record(tmp_path, formats=["pickle"]) as recording:
        paths = [recording.snapshot("now") for _ in range(3)]
    assert [path.name for path in paths if path] == [
        "snapshot.now.pickle", "snapshot.now-2.pickle", "snapshot.now-3.pickle",
    ]  # fmt: skip
    assert all(path and path.exists() for path in paths)


def test_where_links_cannot_be_made_a_file_names_the_newest(
    gpu: FakeGpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("a required privilege is not held by the client")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    for size in (MIB, 2 * MIB):
        record(gpu, tmp_path, size)
    assert folders(tmp_path) == ["1", "2", "latest.txt"]
    assert (tmp_path / "latest.txt").read_text() == "2\n"
    record(gpu, tmp_path, MIB, force=True)
    assert folders(tmp_path) == ["1", "3", "latest.txt"]


def test_a_folder_of_the_user_s_by_that_name_stays(gpu: FakeGpu, tmp_path: Path) -> None:
    (tmp_path / "latest").mkdir()
    record(gpu, tmp_path, MIB)
    assert folders(tmp_path) == ["1", "latest", "latest.txt"]
    assert folders(tmp_path / "latest") == []


CLAIMS = """
import os, sys
from pathlib import Path
from snapreport.recorders.system import claim
turns, *ranks = sys.argv[1:]
for rank in ranks:
    if not os.fork():
        os.environ["RANK"] = rank
        for _ in range(int(turns)):
            place = claim(Path("."), False)
            with (place.folder / f"snapshot.rank{rank}.pickle").open("x"):
                place.filled()
        os._exit(0)
for _ in ranks:
    assert os.wait()[1] == 0
"""


def run_ranks(folder: Path, ranks: list[int], turns: int, **more: str) -> None:
    """Start the ranks of a run at once, each of which records some times."""
    given = ["-c", CLAIMS, str(turns), *map(str, ranks)]
    result = ready.run(given, folder, {"WORLD_SIZE": "4"} | more, ready.OURS)
    assert result.returncode == 0, result.stderr


@needs_forks
def test_ranks_share_a_folder_for_each_of_their_recordings(tmp_path: Path) -> None:
    run_ranks(tmp_path, [0, 1, 2, 3], 3, TORCHELASTIC_RUN_ID="a")
    assert folders(tmp_path)[-1] == "latest"
    numbers = folders(tmp_path)[:-1]
    assert len(numbers) == 3
    for number in numbers:
        names = [f"snapshot.rank{rank}.pickle" for rank in range(4)]
        assert folders(tmp_path / number) == names


@needs_forks
def test_a_run_never_writes_into_the_folder_of_another(tmp_path: Path) -> None:
    """The first died before all of its ranks recorded; the second has the ids that may repeat."""
    run_ranks(tmp_path, [0], 1, TORCHELASTIC_RUN_ID="a")
    run_ranks(tmp_path, [0, 1], 1, TORCHELASTIC_RUN_ID="b")
    run_ranks(tmp_path, [0, 1], 1, TORCHELASTIC_RUN_ID="b", TORCHELASTIC_RESTART_COUNT="1")
    first, second, third, latest = folders(tmp_path)  # ranks at once may leave a number out
    assert (first, latest) == ("1", "latest")
    assert folders(tmp_path / first) == ["snapshot.rank0.pickle"]
    assert len(folders(tmp_path / second)) == len(folders(tmp_path / third)) == 2


def test_runs_are_told_apart_by_what_started_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")  # what torchrun says without --rdzv-id
    monkeypatch.setattr(system, "_parent", lambda: ["10", "5"])
    run = system._run_id()
    assert run is not None
    monkeypatch.setattr(system, "_parent", lambda: ["11", "7"])
    assert system._run_id() != run
    # On several machines the parents are others, and the id that the launcher gave is the same.
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "mine")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    run = system._run_id()
    monkeypatch.setattr(system, "_parent", lambda: ["12", "9"])
    assert system._run_id() == run


@needs_forks
def test_processes_that_are_alone_and_start_at_once_have_a_folder_each(tmp_path: Path) -> None:
    run_ranks(tmp_path, [0, 0, 0, 0], 4, WORLD_SIZE="1")
    assert len(folders(tmp_path)) == 17
    for number in range(1, 17):
        assert folders(tmp_path / str(number)) == ["snapshot.rank0.pickle"]


def test_a_process_that_is_alone_is_of_no_run() -> None:
    assert multiprocessing.parent_process() is None
    assert system._run_id() is None


def test_of_a_recording_that_wrote_nothing_nothing_stays(tmp_path: Path) -> None:
    given = tmp_path / "given"
    given.mkdir()
    claim(given, False).close()
    claim(tmp_path / "new" / "out", False).close()
    assert folders(tmp_path) == ["given"]
    assert folders(given) == []


def test_the_last_rank_of_a_run_that_wrote_nothing_tidies_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    places = []
    for rank in "01":
        monkeypatch.setenv("RANK", rank)
        places.append(claim(tmp_path / "out", False))
    assert [place.number for place in places] == [1, 1]
    places[1].close()
    assert folders(tmp_path / "out") == ["1"]  # the other still records into it
    places[0].close()
    assert list(tmp_path.iterdir()) == []


def test_a_rank_that_wrote_nothing_leaves_what_others_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    place = claim(tmp_path, False)
    (place.folder / "snapshot.rank0.pickle").touch()
    place.close()
    assert folders(place.folder) == ["snapshot.rank0.pickle"]
    assert claim(tmp_path, False).number == 2  # as after the program restarted its workers
