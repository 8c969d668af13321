"""Which files of folders are taken, and why others are not."""

from __future__ import annotations

import gzip
import os
import pickle
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zstandard

import snapreport
from snapreport.api.making import convert
from snapreport.api.runs.inputs import (
    CONVERTED,
    DEEPER,
    DEEPEST,
    NAMED,
    NO_BUNDLE,
    NO_CONVERTING,
    NO_FILE,
    NO_SNAPSHOT,
    NO_SNAPSHOT_NAME,
    OTHER,
    Skipped,
    find_inputs,
    skipped_words,
    the_recording,
)
from snapreport.api.runs.tasks import memory_needed
from snapreport.bundle.run_archive import is_run_bundle
from snapreport.ground.errors import InputError
from tests.builders import MIB, trace


@pytest.fixture
def data() -> bytes:
    return pickle.dumps(trace().alloc("a", MIB).free("a").snapshot())


def names(folder: Path, *, bundles: bool = False) -> list[str]:
    return [path.name for path in find_inputs([folder], bundles=bundles).files]


def reasons(folder: Path, *, bundles: bool = False) -> dict[str, str]:
    return {each.path.name: each.reason for each in find_inputs([folder], bundles=bundles).skipped}


def test_ranks_come_in_the_order_of_their_numbers(tmp_path: Path, data: bytes) -> None:
    for rank in (10, 9, 1):
        (tmp_path / f"rank{rank}.pickle").write_bytes(data)
    assert names(tmp_path) == ["rank1.pickle", "rank9.pickle", "rank10.pickle"]


def test_every_packing_is_taken(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.pickle").write_bytes(data)
    (tmp_path / "b.PKL").write_bytes(data)
    (tmp_path / "c.pickle.gz").write_bytes(gzip.compress(data))
    (tmp_path / "d.pickle.zst").write_bytes(zstandard.compress(data))
    (tmp_path / "e.json").write_bytes(b'{"segments": [], "device_traces": []}')
    (tmp_path / "f.pickle").write_bytes(pickle.dumps(trace().segment("a", MIB).segments))
    assert len(names(tmp_path)) == 6
    assert reasons(tmp_path) == {}


def test_of_a_programs_recordings_the_newest_is_taken(tmp_path: Path, data: bytes) -> None:
    for number in ("1", "2", "3"):
        (tmp_path / number).mkdir()
        for rank in (0, 1):
            (tmp_path / number / f"snapshot.rank{rank}.pickle").write_bytes(data)
    assert len(names(tmp_path)) == 6  # nothing says that these are recordings
    (tmp_path / "latest").symlink_to("2")
    found = find_inputs([tmp_path], bundles=False)
    newest = [tmp_path / "2" / f"snapshot.rank{rank}.pickle" for rank in (0, 1)]
    assert list(found.files) == newest
    assert found.skipped == (Skipped(tmp_path / "1", OTHER), Skipped(tmp_path / "3", OTHER))
    (tmp_path / "latest").unlink()
    (tmp_path / "latest.txt").write_text("2\n")
    assert found == find_inputs([tmp_path], bundles=False)


def test_the_reports_of_a_recording_are_passed_over_without_a_word(
    tmp_path: Path, data: bytes
) -> None:
    reports = ("report.html", "report.md", "report.rank3.html", "report.pid17.oom.md")
    for name in reports:
        (tmp_path / name).touch()
    with pytest.raises(InputError, match=r"only .*report\.html.*\(a recording's report\)"):
        find_inputs([tmp_path], bundles=True)
    (tmp_path / "snapshot.pickle").write_bytes(data)
    assert names(tmp_path) == ["snapshot.pickle"]
    assert reasons(tmp_path) == {}


def test_what_is_no_snapshot_is_skipped_with_the_reason(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "snap.pickle").write_bytes(data)
    (tmp_path / ".snap.pickle").write_bytes(data)
    (tmp_path / "config.json").write_bytes(b'{"lr": 1}')
    (tmp_path / "weights.pkl").write_bytes(pickle.dumps({"w": [1.0]}))
    (tmp_path / "packed.pkl.gz").write_bytes(gzip.compress(pickle.dumps({"w": [1.0]})))
    (tmp_path / "log.txt").write_text("segments")
    (tmp_path / "snap.zip").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe.pickle")
    assert names(tmp_path) == ["snap.pickle"]
    assert reasons(tmp_path) == {
        "config.json": NO_SNAPSHOT,
        "weights.pkl": NO_SNAPSHOT,
        "packed.pkl.gz": NO_SNAPSHOT,
        "pipe.pickle": NO_FILE,
        "log.txt": NO_SNAPSHOT_NAME,
        "snap.zip": NO_CONVERTING,
    }


def test_a_damaged_snapshot_is_taken_so_that_its_error_is_seen(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "cut.pickle").write_bytes(data[: len(data) // 2])
    (tmp_path / "empty.pickle").write_bytes(b"")
    (tmp_path / "cut.pickle.gz").write_bytes(b"\x1f\x8b\x08\xff" + b"\xff" * 60)
    (tmp_path / "cut.zip").write_bytes(b"PK\x03\x04 and no more")
    assert names(tmp_path, bundles=True) == [
        "cut.pickle", "cut.pickle.gz", "cut.zip", "empty.pickle"
    ]  # fmt: skip


def test_a_strangers_folder_neither_hangs_nor_ends_the_run(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "rank0.pickle").write_bytes(data)
    os.mkfifo(tmp_path / "rank1.zip")
    (tmp_path / "rank2.zip").symlink_to("/dev/zero")
    (tmp_path / "rank3.pickle").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "latest.txt")
    with zipfile.ZipFile(tmp_path / "rank4.zip", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("manifest.json", bytes(1000))
    damaged = bytearray((tmp_path / "rank4.zip").read_bytes())
    damaged[60:70] = b"\xff" * 10
    (tmp_path / "rank4.zip").write_bytes(damaged)
    (tmp_path / "rank5.zip").symlink_to("nowhere")
    assert names(tmp_path, bundles=True) == ["rank0.pickle", "rank4.zip", "rank5.zip"]
    special = dict.fromkeys(("rank1.zip", "rank2.zip", "rank3.pickle"), NO_FILE)
    assert reasons(tmp_path, bundles=True) == special
    loaded = snapreport.load_run(tmp_path, jobs=1)
    assert [bool(each.error) for each in loaded.run.ranks] == [False, True, True]
    assert [error.count("\n") for error in loaded.errors] == [0, 0]


def test_a_zip_of_more_members_than_any_bundle_has_is_passed_over_at_once(tmp_path: Path) -> None:
    path = tmp_path / "code.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(30_000):
            archive.writestr(f"{number}", b"")
    began = time.process_time()
    with pytest.raises(InputError, match=r"only .*code\.zip \(a zip, but not a bundle\)"):
        find_inputs([tmp_path], bundles=True)
    assert not is_run_bundle(path)
    assert memory_needed(path) == memory_needed(tmp_path / "none")
    assert time.process_time() - began < 0.1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_folder_that_cannot_be_searched_is_left_out(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        run = Path(name)
        for folder in ("open", "closed"):
            (run / folder).mkdir()
            (run / folder / "rank0.pickle").write_bytes(data)
        (run / "link.pickle").symlink_to("closed/rank0.pickle")
        run.chmod(0o755)
        (run / "closed").chmod(0o744)
        with as_nobody():
            found = find_inputs([run], bundles=True)
            with pytest.raises(InputError, match=r"closed cannot be read: Permission denied\."):
                find_inputs([run / "closed"], bundles=True)
            named = run / "closed" / "rank0.pickle"
            assert find_inputs([named], bundles=True).files == (named,)
    assert found.files == (run / "link.pickle", run / "open/rank0.pickle")
    assert found.skipped == (Skipped(run / "closed", "cannot be read: Permission denied"),)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Do what is in the block with the rights of a user who owns nothing."""
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_of_a_snapshot_and_its_bundle_the_bundle_is_taken(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "rank0.pickle").write_bytes(data)
    (tmp_path / "rank1.pickle").write_bytes(data)
    convert(tmp_path / "rank0.pickle", tmp_path / "made.zip")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("readme.txt", "no bundle")
    assert names(tmp_path, bundles=True) == ["made.zip", "rank1.pickle"]
    assert reasons(tmp_path, bundles=True) == {"rank0.pickle": CONVERTED, "other.zip": NO_BUNDLE}
    assert names(tmp_path) == ["rank0.pickle", "rank1.pickle"]


def test_folders_in_folders_are_read_whatever_leads_to_them(tmp_path: Path, data: bytes) -> None:
    for place in ("run/rank10", "run/rank2/deep", "run/.hidden", "run"):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        (tmp_path / place / "snap.pickle").write_bytes(data)
    (tmp_path / "run" / "latest").symlink_to("rank10")
    (tmp_path / "run" / "rank2" / "up").symlink_to("..")
    found = find_inputs([tmp_path / "run"], bundles=False)
    assert [path.relative_to(tmp_path).as_posix() for path in found.files] == [
        "run/snap.pickle", "run/rank2/deep/snap.pickle", "run/rank10/snap.pickle"
    ]  # fmt: skip
    assert found.skipped == ()


def test_a_folder_has_a_bottom(
    tmp_path: Path, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "snap.pickle").write_bytes(data)
    deep = tmp_path.joinpath(*(f"f{k}" for k in range(DEEPEST + 1)))
    deep.mkdir(parents=True)
    (deep.parent / "low.pickle").write_bytes(data)
    (deep / "lower.pickle").write_bytes(data)
    assert names(tmp_path) == ["snap.pickle", "low.pickle"]
    assert reasons(tmp_path) == {deep.name: DEEPER}
    monkeypatch.setattr("snapreport.api.runs.inputs.MOST_ENTRIES", DEEPEST)
    with pytest.raises(InputError, match="name the folders of the run"):
        find_inputs([tmp_path], bundles=False)


def test_a_bundle_in_another_folder_stands_for_its_own_snapshot_alone(
    tmp_path: Path, data: bytes
) -> None:
    other = pickle.dumps(trace().alloc("a", 2 * MIB).free("a").snapshot())
    assert len(other) == len(data)
    for rank, content in (("rank0", data), ("rank1", other)):
        (tmp_path / rank).mkdir()
        (tmp_path / rank / "snap.pickle").write_bytes(content)
    (tmp_path / "bundles").mkdir()
    convert(tmp_path / "rank1" / "snap.pickle", tmp_path / "bundles" / "made.zip")
    found = find_inputs([tmp_path], bundles=True)
    assert found.files == (tmp_path / "bundles/made.zip", tmp_path / "rank0/snap.pickle")
    assert found.skipped == (Skipped(tmp_path / "rank1/snap.pickle", CONVERTED),)


def test_files_that_were_named_are_taken_whatever_they_are(tmp_path: Path) -> None:
    named = [tmp_path / "notes.txt", tmp_path / "missing"]
    named[0].touch()
    assert find_inputs(named, bundles=False).files == tuple(named)


def test_a_file_that_was_named_is_not_taken_again(tmp_path: Path, data: bytes) -> None:
    for name in ("a.pickle", "b.pickle"):
        (tmp_path / name).write_bytes(data)
    found = find_inputs([tmp_path, tmp_path / "a.pickle"], bundles=False)
    assert found.files == (tmp_path / "b.pickle", tmp_path / "a.pickle")
    assert found.skipped == (Skipped(tmp_path / "a.pickle", NAMED),)


def test_a_folder_with_one_recording_is_that_recording(tmp_path: Path, data: bytes) -> None:
    for number in ("1", "2"):
        folder = tmp_path / "out" / number
        folder.mkdir(parents=True)
        (folder / "snapshot.pickle").write_bytes(data)
        (folder / "report.html").touch()
    (tmp_path / "out" / "latest").symlink_to("2")
    convert(tmp_path / "out/2/snapshot.pickle", tmp_path / "out/2/snap.zip")
    assert the_recording(tmp_path / "out") == tmp_path / "out/2/snap.zip"
    assert the_recording(tmp_path / "out/latest") == tmp_path / "out/latest/snap.zip"
    assert the_recording(tmp_path / "out/1") == tmp_path / "out/1/snapshot.pickle"
    file, missing = tmp_path / "out/1/snapshot.pickle", tmp_path / "missing"
    assert (the_recording(file), the_recording(missing)) == (file, missing)
    for rank in range(3):
        (tmp_path / "out" / "1" / f"rank{rank}.pickle").write_bytes(data)
        assert the_recording(tmp_path / "out/1") == tmp_path / "out/1"
    file.unlink()
    assert the_recording(tmp_path / "out/1") == tmp_path / "out/1"


def test_a_file_given_twice_is_an_error(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.pickle").write_bytes(data)
    (tmp_path / "link.pickle").symlink_to("a.pickle")
    with pytest.raises(InputError, match=r"link\.pickle is given twice"):
        find_inputs([tmp_path / "a.pickle", tmp_path / "link.pickle"], bundles=False)


def test_a_folder_with_nothing_to_take_is_an_error_that_says_what_it_has(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file in it"):
        find_inputs([tmp_path], bundles=False)
    (tmp_path / "log.txt").touch()
    with pytest.raises(InputError, match=r"only .*log\.txt \(not named like"):
        find_inputs([tmp_path], bundles=True)


def test_many_skipped_files_are_a_line_for_each_reason() -> None:
    skipped = [Skipped(Path(f"{k}.txt"), NO_SNAPSHOT_NAME) for k in range(6)]
    skipped.insert(2, Skipped(Path("a"), DEEPER))
    assert list(skipped_words(skipped)) == [
        f"0.txt, 1.txt, 2.txt and 3 more ({NO_SNAPSHOT_NAME})",
        f"a ({DEEPER})",
    ]
