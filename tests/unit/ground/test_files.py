"""Output names, and writing a file whole or not at all."""

from __future__ import annotations

import errno
import gzip
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from snapreport.ground import files
from snapreport.ground.errors import OutputError, OutputExistsError
from snapreport.ground.files import (
    check_output,
    gzipped,
    output_path,
    remove_unfinished,
    write_atomically,
    writing_as,
)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("snap.pickle", "snap.html"),
        ("far/away/snap.pickle.gz", "snap.html"),
        ("snap.pkl.zst", "snap.html"),
        ("SNAP.JSON", "SNAP.html"),
        ("snap.zip", "snap.html"),
        ("run.2024.01", "run.2024.01.html"),
        ("snap", "snap.html"),
        (".pickle", ".pickle.html"),
    ],
)
def test_the_name_comes_from_the_input_in_the_current_folder(source: str, name: str) -> None:
    assert output_path(Path(source), None, ".html") == Path(name)


def test_an_output_that_is_a_folder_is_written_into(tmp_path: Path) -> None:
    assert output_path(Path("a/snap.pickle"), tmp_path, ".zip") == tmp_path / "snap.zip"


def test_a_given_output_is_taken_as_it_is() -> None:
    assert output_path(Path("snap.pickle"), Path("other.bin"), ".zip") == Path("other.bin")


def test_the_input_itself_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "snap.zip"
    source.touch()
    with pytest.raises(OutputError, match="is the input itself"):
        output_path(source, tmp_path, ".zip")


def test_the_file_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "out.zip"
    with write_atomically(target, force=False) as out:
        out.write(b"half")
        assert not target.exists()
        out.write(b" and half")
    assert target.read_bytes() == b"half and half"
    assert os.listdir(tmp_path) == ["out.zip"]


def test_bytes_and_name_are_on_the_disk_before_the_file_is_said_to_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "out.zip"
    synced: list[tuple[str, bool, int]] = []

    def fsync(descriptor: int) -> None:
        name = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        synced.append((name, target.exists(), os.fstat(descriptor).st_size))

    monkeypatch.setattr(os, "fsync", fsync)
    with write_atomically(target, force=False) as out:
        out.write(b"whole")
    (file, named, size), (folder, named_then, _) = synced
    assert (Path(file).parent, named, size) == (tmp_path, False, 5)
    assert (Path(folder), named_then) == (tmp_path, True)


def test_what_does_not_reach_the_disk_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fsync(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fsync)
    number = errno.EIO
    with (
        pytest.raises(OutputError, match="cannot be written: Input/output error"),
        write_atomically(tmp_path / "out.zip", force=False) as out,
    ):
        out.write(b"lost")
    assert os.listdir(tmp_path) == []
    number = errno.EINVAL  # a file system that knows no such thing
    with write_atomically(tmp_path / "out.zip", force=False) as out:
        out.write(b"kept")
    assert os.listdir(tmp_path) == ["out.zip"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_nothing_is_left_after_an_exception(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error), write_atomically(tmp_path / "out.zip", force=False) as out:
        out.write(b"half")
        raise error
    assert os.listdir(tmp_path) == []


def test_the_old_file_survives_a_failure(tmp_path: Path) -> None:
    target = tmp_path / "out.zip"
    target.write_bytes(b"old")
    with pytest.raises(ValueError, match="no"), write_atomically(target, force=True) as out:
        out.write(b"new")
        raise ValueError("no")
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out.zip"]


def test_an_existing_file_is_replaced_only_by_force(tmp_path: Path) -> None:
    target = tmp_path / "out.zip"
    target.write_bytes(b"old")
    message = "out.zip already exists; pass --force to replace it."
    with pytest.raises(OutputExistsError, match=message), write_atomically(target, force=False):
        pytest.fail("the body must not run")
    with write_atomically(target, force=True) as out:
        out.write(b"new")
    assert target.read_bytes() == b"new"


def test_a_file_made_by_somebody_else_meanwhile_is_kept(tmp_path: Path) -> None:
    target = tmp_path / "out.zip"
    with pytest.raises(OutputExistsError), write_atomically(target, force=False):
        target.write_bytes(b"theirs")
    assert target.read_bytes() == b"theirs"
    assert os.listdir(tmp_path) == ["out.zip"]


def test_a_file_made_by_somebody_else_after_the_last_look_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "out.zip"
    for name in ("link", "replace"):
        step = getattr(os, name)

        def after_somebody_else(one: Path, other: Path, step: Callable[..., None] = step) -> None:
            target.write_bytes(b"theirs")
            step(one, other)

        monkeypatch.setattr(os, name, after_somebody_else)
    with pytest.raises(OutputExistsError), write_atomically(target, force=False) as out:
        out.write(b"ours")
    assert target.read_bytes() == b"theirs"
    assert os.listdir(tmp_path) == ["out.zip"]


@pytest.mark.parametrize("error", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_is_written_where_there_are_no_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    def refuse(*_: Path) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "link", refuse)
    with write_atomically(tmp_path / "out.zip", force=False) as out:
        out.write(b"new")
    assert (tmp_path / "out.zip").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["out.zip"]


def test_a_folder_is_refused_even_by_force(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="is a folder"):
        check_output(tmp_path, force=True)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="there is no folder"):
        check_output(tmp_path / "no" / "out.zip", force=False)


def test_a_file_in_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="there is no folder"):
        check_output(tmp_path / "file" / "out.zip", force=False)


def test_a_full_disk_is_an_expected_error(tmp_path: Path) -> None:
    with (
        pytest.raises(OutputError, match=r"out.zip cannot be written: No space left"),
        write_atomically(tmp_path / "out.zip", force=False),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert os.listdir(tmp_path) == []


def test_an_error_about_another_file_is_left_alone(tmp_path: Path) -> None:
    with (
        pytest.raises(FileNotFoundError),
        write_atomically(tmp_path / "out.zip", force=False),
    ):
        raise FileNotFoundError(errno.ENOENT, "another file")


def test_a_link_keeps_pointing_at_the_new_file(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link, real = tmp_path / "link.zip", tmp_path / "real" / "out.zip"
    real.write_bytes(b"old")
    link.symlink_to(real)
    with write_atomically(link, force=True) as out:
        out.write(b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"


def test_a_device_is_written_to_and_not_replaced() -> None:
    with write_atomically(Path(os.devnull), force=False) as out:
        out.write(b"gone")
    assert Path(os.devnull).is_char_device()


def test_the_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    with write_atomically(tmp_path / "ours", force=False):
        pass
    (tmp_path / "any").touch()
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "any").stat().st_mode


def test_a_dash_is_not_taken_for_a_file_s_name() -> None:
    with pytest.raises(OutputError, match="/dev/stdout"):
        output_path(Path("snap.pickle"), Path("-"), ".zip")


@pytest.mark.parametrize("letter", ["a", "\u00e9", "\u4e2d", "\U0001f4be"])
def test_a_name_as_long_as_names_may_be_can_be_written(tmp_path: Path, letter: str) -> None:
    name = letter * (251 // len(os.fsencode(letter))) + ".zip"
    target = tmp_path / name
    with write_atomically(target, force=False) as out:
        out.write(b"new")
        (beside,) = os.listdir(tmp_path)
    assert beside.startswith(f".{letter}")
    assert beside.endswith(".part")
    assert target.read_bytes() == b"new"
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("letter", ["a", "\u4e2d"])
def test_what_a_process_left_of_a_long_name_is_removed(tmp_path: Path, letter: str) -> None:
    target = tmp_path / (letter * (251 // len(os.fsencode(letter))) + ".zip")
    with writing_as("mine"), write_atomically(target, force=False):
        (beside,) = tmp_path.iterdir()
        remove_unfinished(tmp_path, "yours")
        remove_unfinished(tmp_path, str(os.getpid()))
        assert beside.exists()
        remove_unfinished(tmp_path, "mine")
        assert not beside.exists()
        beside.touch()


def test_an_error_when_the_file_is_renamed_is_an_expected_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Path) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "replace", refuse)
    with (
        pytest.raises(OutputError, match=r"out.zip cannot be written: Operation not permitted"),
        write_atomically(tmp_path / "out.zip", force=True),
    ):
        pass
    assert os.listdir(tmp_path) == []


def test_an_interrupt_between_opening_and_writing_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = os.open

    def interrupt(path: str, how: int, mode: int) -> None:
        os.close(whole(path, how, mode))
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "open", interrupt)
    with (
        pytest.raises(KeyboardInterrupt),
        write_atomically(tmp_path / "out.zip", force=False),
    ):
        pytest.fail("the body must not run")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.name != "posix", reason="there are no such permissions")
@pytest.mark.parametrize(
    ("modes", "mask", "mode"),
    [
        ([], 0o022, 0o644),
        ([0o644], 0o022, 0o644),
        ([0o600], 0o022, 0o600),
        ([0o640, 0o604], 0o000, 0o600),
        ([0o666], 0o077, 0o600),
        ([0o400], 0o022, 0o600),
        ([0o777], 0o002, 0o664),
    ],
)
def test_who_may_not_read_a_source_may_not_read_the_output(
    tmp_path: Path, modes: list[int], mask: int, mode: int
) -> None:
    sources = [tmp_path / f"{number}.pickle" for number in range(len(modes))]
    for source, its in zip(sources, modes, strict=True):
        source.touch()
        source.chmod(its)
    target = tmp_path / "out.zip"
    before = os.umask(mask)
    try:
        with write_atomically(target, False, sources) as out:
            (beside,) = tmp_path.glob(".*")
            assert beside.stat().st_mode & 0o777 == mode
            out.write(b"x")
        assert target.stat().st_mode & 0o777 == mode
        target.chmod(0o600)
        with write_atomically(target, True, sources):
            pass
    finally:
        os.umask(before)
    assert target.stat().st_mode & 0o777 == 0o600


def test_a_link_that_leads_nowhere_is_written_through_by_force_alone(tmp_path: Path) -> None:
    link, there = tmp_path / "out.zip", tmp_path / "there.zip"
    link.symlink_to(there)
    for refuse in (check_output, lambda path, force: write_atomically(path, force).__enter__()):
        with pytest.raises(OutputExistsError, match=r"is a link to .*there\.zip, where nothing is"):
            refuse(link, False)
    assert os.listdir(tmp_path) == ["out.zip"]
    with write_atomically(link, True) as out:
        out.write(b"x")
    assert link.is_symlink()
    assert there.read_bytes() == b"x"


def test_what_gzip_makes_is_the_same_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    here = gzipped([b"a ", b"report"], 6)
    assert gzip.decompress(here) == b"a report"
    of_windows = here[:9] + b"\x0a" + here[10:]  # zlib writes there by which system it was made
    packer = SimpleNamespace(compress=lambda data: b"", flush=lambda: of_windows)
    monkeypatch.setattr(files, "zlib", SimpleNamespace(compressobj=lambda level, wbits: packer))
    assert gzipped([b"a ", b"report"], 6) == here
