"""Paths into stores: what is one, what it is called, and what of it is in no message."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from snapreport.ground.errors import InputError, OutputError
from snapreport.ground.files import write_atomically
from snapreport.ground.stores import as_path, is_remote, local_copy, without_secrets


@pytest.fixture(autouse=True)
def memory() -> Iterator[None]:
    import fsspec

    yield
    fsspec.filesystem("memory").rm("/", recursive=True)


@pytest.mark.parametrize(
    "text", ["a.pickle", "C:\\run\\a.pickle", "C:/a", "c://a", "/tmp/a", "s3:/a", "://a", ""]
)
def test_what_is_of_this_machine(text: str) -> None:
    assert not is_remote(as_path(text))
    assert as_path(text) == Path(text)


def test_an_address_of_a_file_is_its_path() -> None:
    assert as_path("file:///tmp/a.zip") == Path("/tmp/a.zip")


def test_the_parts_of_an_address() -> None:
    path = as_path("s3://bucket/run/rank0.pickle.gz")
    assert is_remote(path)
    assert (path.name, path.suffix, path.stem) == ("rank0.pickle.gz", ".gz", "rank0.pickle")
    assert str(path.parent) == "s3://bucket/run"
    assert [str(each) for each in path.parents] == ["s3://bucket/run", "s3://bucket"]
    assert str(path.parent / "b" / "c.zip") == "s3://bucket/run/b/c.zip"
    assert str(path.with_name("x.zip")) == "s3://bucket/run/x.zip"
    assert str(path.relative_to(as_path("s3://bucket/"))) == "run/rank0.pickle.gz"
    assert as_path("s3://bucket").parent == as_path("s3://bucket")
    assert as_path("s3://bucket/") == as_path("s3://bucket")


@pytest.mark.parametrize(
    "address",
    [
        "https://user:pass@host/run/a.pickle?X-Amz-Signature=pass&X=pass",
        "sftp://user:pa@ss@host/run/a.pickle",
    ],
)
def test_credentials_are_in_no_text(address: str) -> None:
    path = as_path(address)
    scheme = address.partition("://")[0]
    for text in (str(path), f"{path}", repr(path), path.name, *path.parts, str(path.parent)):
        assert "pass" not in text.replace("passed", "")
        assert "ss@" not in text
    assert str(path) == f"{scheme}://host/run/a.pickle"
    assert pickle.loads(pickle.dumps(path)) == path  # but a worker needs them
    assert without_secrets(f"cannot open {address}: no").startswith(f"cannot open {scheme}://host/")


def test_a_file_is_read_by_ranges_and_copied_whole(tmp_path: Path) -> None:
    path = as_path("memory://run/a.bin")
    with write_atomically(path, force=False) as out:
        out.write(b"0123456789")
        assert not path.exists()
    assert (path.is_file(), path.is_dir(), path.stat().st_size) == (True, False, 10)
    with path.open("rb") as file:
        file.seek(-3, 2)
        assert file.read(2) == b"78"
    with local_copy(path) as copy:
        assert copy.read_bytes() == b"0123456789"
        assert copy.name == "a.bin"
    assert not copy.exists()


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    path = as_path("memory://run/a.bin")
    with pytest.raises(ZeroDivisionError), write_atomically(path, force=False) as out:
        out.write(b"half")
        raise ZeroDivisionError
    assert not as_path("memory://run/a.bin").exists()


def test_a_folder_is_listed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from fsspec.implementations.memory import MemoryFileSystem

    for name in ("a/rank0.pickle", "a/rank1.pickle", "b.zip"):
        with write_atomically(as_path(f"memory://run/{name}"), force=False) as out:
            out.write(b"x")
    folder = as_path("memory://run")
    assert folder.is_dir()
    assert sorted(each.name for each in folder.iterdir()) == ["a", "b.zip"]

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("asked again")

    for name in ("find", "info", "ls", "exists"):
        monkeypatch.setattr(MemoryFileSystem, name, refuse)
    inside = folder / "a"
    assert (inside.is_dir(), inside.is_file()) == (True, False)
    assert [each.name for each in inside.iterdir()] == ["rank0.pickle", "rank1.pickle"]
    assert (inside / "rank0.pickle").is_file()
    assert not (inside / "latest.json").exists()
    with pytest.raises(FileNotFoundError):
        (inside / "latest.json").open()


def test_too_little_room_for_a_copy_is_said_first(monkeypatch: pytest.MonkeyPatch) -> None:
    path = as_path("memory://run/a.bin")
    with write_atomically(path, force=False) as out:
        out.write(b"x")
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    with (
        pytest.raises(InputError, match=r"has 1 B, and .* has 1000 B free; set TMPDIR"),
        local_copy(path),
    ):
        pass


def test_a_folder_takes_no_file() -> None:
    with (
        pytest.raises(OutputError, match=r"memory://run/? is a folder; name a file in it\."),
        write_atomically(as_path("memory://run/"), force=True),
    ):
        pass


def test_paths_of_this_machine_need_no_fsspec() -> None:
    code = (
        "import sys, snapreport.commands.convert, snapreport.commands.render;"
        "assert 'fsspec' not in sys.modules and 'distributed' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
