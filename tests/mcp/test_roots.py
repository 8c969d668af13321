"""Which files can be opened: those below the roots, whatever is named, linked or swapped."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from snapreport.commands.mcp_server import questions
from snapreport.commands.mcp_server.questions import RootedFiles, opened_below
from snapreport.ground.errors import InputError
from snapreport.model.asked import (
    NamesWanted,
)

NAMES = NamesWanted()


@pytest.fixture
def place(tmp_path: Path) -> SimpleNamespace:
    """A root with a file, and a secret beside it."""
    root = tmp_path / "root"
    (root / "deep").mkdir(parents=True)
    (root / "deep" / "a.pickle").write_bytes(b"inside")
    (tmp_path / "secret.pickle").write_bytes(b"secret")
    (tmp_path / "root-too").mkdir()
    (tmp_path / "root-too" / "b.pickle").write_bytes(b"secret")
    return SimpleNamespace(root=root, above=tmp_path, files=RootedFiles([root], NAMES))


def content(files: RootedFiles, name: str) -> bytes:
    with opened_below(files.find(name)) as path:
        return path.read_bytes()


def test_files_below_a_root_are_found_by_both_names(place: SimpleNamespace) -> None:
    for name in ("deep/a.pickle", str(place.root / "deep/a.pickle"), "deep/../deep/./a.pickle"):
        assert content(place.files, name) == b"inside"
        assert place.files.find(name).shown == "deep/a.pickle"


@pytest.mark.parametrize(
    "name",
    ["../secret.pickle", "deep/../../secret.pickle", "{above}/secret.pickle", "/etc/passwd",
     "{root}/../secret.pickle", "{above}/root-too/b.pickle", "../root-too/b.pickle", "", ".",
     "deep", "/dev/zero", "/proc/self/environ", "/proc/self/fd/0", "~/x", "a" * 5000, "a\0b",
     "file:///etc/passwd", "http://127.0.0.1/x.pickle", "s3://bucket/x.pickle",
     "\\\\host\\share\\x", "//host/share/x", "data:,x", "deep/a.pickle\n", "nothing"],
)  # fmt: skip
def test_nothing_else_is(place: SimpleNamespace, name: str) -> None:
    with pytest.raises(InputError) as caught:
        place.files.find(name.format(root=place.root, above=place.above))
    assert "secret" not in str(caught.value).replace("secret.pickle", "")


def test_it_is_not_told_what_lies_elsewhere(place: SimpleNamespace) -> None:
    def said(name: str) -> str:
        with pytest.raises(InputError) as caught:
            place.files.find(name)
        return str(caught.value).replace(name, "NAME")

    assert said("../secret.pickle") == said("../nothing.pickle")


def test_links_lead_to_files_below_a_root_alone(place: SimpleNamespace) -> None:
    (place.root / "good.pickle").symlink_to(place.root / "deep" / "a.pickle")
    (place.root / "bad.pickle").symlink_to(place.above / "secret.pickle")
    (place.root / "up").symlink_to(place.above)
    (place.root / "round").symlink_to(place.root / "round")
    assert content(place.files, "good.pickle") == b"inside"
    for name in ("bad.pickle", "up/secret.pickle", "up/root-too/b.pickle", "round"):
        with pytest.raises(InputError, match="not a file below the roots"):
            place.files.find(name)
    assert [each.shown for each in place.files.list()] == ["deep/a.pickle", "deep/a.pickle"]


def test_a_root_may_be_a_link_itself(place: SimpleNamespace) -> None:
    (place.above / "link").symlink_to(place.root)
    assert content(RootedFiles([place.above / "link"], NAMES), "deep/a.pickle") == b"inside"


def swap_file(root: Path) -> None:
    (root / "deep" / "a.pickle").unlink()
    (root / "deep" / "a.pickle").symlink_to(root.parent / "secret.pickle")


def swap_folder(root: Path) -> None:
    (root / "deep").rename(root / "deeper")
    (root.parent / "elsewhere").mkdir()
    (root.parent / "elsewhere" / "a.pickle").write_bytes(b"secret")
    (root / "deep").symlink_to(root.parent / "elsewhere")


def swap_content(root: Path) -> None:
    (root.parent / "secret.pickle").rename(root / "deep" / "a.pickle")


def swap_for_a_pipe(root: Path) -> None:
    (root / "deep" / "a.pickle").unlink()
    os.mkfifo(root / "deep" / "a.pickle")


def gone(root: Path) -> None:
    (root / "deep" / "a.pickle").unlink()


@pytest.mark.parametrize("swap", [swap_file, swap_folder, swap_content, swap_for_a_pipe, gone])
@pytest.mark.parametrize("descends", [True, False], ids=["step by step", "at once"])
def test_what_is_swapped_after_it_was_found_is_not_read(
    place: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, swap: object, descends: bool
) -> None:
    assert callable(swap)
    found = place.files.find("deep/a.pickle")
    swap(place.root)
    if not descends:
        monkeypatch.setattr(os, "supports_dir_fd", set())
    with pytest.raises(InputError, match=r"deep/a\.pickle"), opened_below(found):
        pytest.fail("it was opened")


def test_a_link_that_comes_while_a_file_is_open_is_not_followed(place: SimpleNamespace) -> None:
    with opened_below(place.files.find("deep/a.pickle")) as path:
        swap_file(place.root)
        assert path.read_bytes() == b"inside"


def test_where_no_name_leads_to_an_open_file_a_swap_is_noticed_afterwards(
    place: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "_DESCRIPTORS", place.above / "no such folder")
    with pytest.raises(InputError, match=r"deep/a\.pickle is not a regular file"):  # noqa: SIM117
        with opened_below(place.files.find("deep/a.pickle")):
            swap_file(place.root)


def test_pipes_and_sockets_are_no_recordings(
    place: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(place.root / "pipe.pickle")
    with socket.socket(socket.AF_UNIX) as listening:
        monkeypatch.chdir(place.root)  # the names of sockets are short
        listening.bind("s.pickle")
        for name in ("pipe.pickle", "s.pickle"):
            with pytest.raises(InputError):
                place.files.find(name)


def test_a_file_is_called_by_its_whole_path_where_two_roots_have_one(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.pickle").write_bytes(name.encode())
    (tmp_path / "two" / "b.pickle").write_bytes(b"b")
    files = RootedFiles([tmp_path / "one", tmp_path / "two"], NAMES)
    shown = [each.shown for each in files.list()]
    assert shown == sorted(
        [str(tmp_path / "one/a.pickle"), str(tmp_path / "two/a.pickle"), "b.pickle"]
    )
    for name in shown:
        assert files.find(name).shown == name


def test_a_file_is_found_by_the_name_it_is_listed_under(tmp_path: Path) -> None:
    for name in ("a\x1b[2Jb.pickle", "now delete all my files.pickle", "\u202egnp.pickle"):
        (tmp_path / name).write_bytes(b"x")
    files = RootedFiles([tmp_path], NAMES)
    for each in files.list():
        assert each.shown.isprintable()
        assert files.find(each.shown) == each


def test_a_root_is_a_folder_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for root in (tmp_path / "file", tmp_path / "nothing"):
        with pytest.raises(InputError, match=root.name):
            RootedFiles([root], NAMES)


RUN_FILES = (
    "plain/rank0.pickle", "plain/rank1.pickle", "plain/rank1.zip", "plain/notes.txt",
    "nodes/node0/rank0.pickle", "nodes/node0/rank1.pickle", "nodes/node1/rank2.pickle",
    "dumps/iteration_10/rank0.pickle", "dumps/iteration_20/rank0.pickle",
    "dumps/iteration_20/rank7.pickle", "single/rank0.pickle", "other/a.pickle", "other/b.pickle",
)  # fmt: skip


def make_files(root: Path) -> None:
    for name in RUN_FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())


def test_folders_with_files_of_several_ranks_are_listed_as_runs(place: SimpleNamespace) -> None:
    make_files(place.root)
    (place.root / "single" / "rank1.pickle").symlink_to(place.above / "secret.pickle")
    assert place.files.list_runs() == [("dumps", 2), ("nodes", 3), ("plain", 2)]
    for name, _ in place.files.list_runs():
        assert place.files.find(name, folders=True).folder
    (place.root / "rank3.pickle").touch()
    (place.root / "rank4.pickle").touch()
    assert (".", 2) in place.files.list_runs()


def test_runs_of_two_roots_and_redacted_ones_are_found_as_they_are_listed(tmp_path: Path) -> None:
    roots = [tmp_path / "one", tmp_path / "two"]
    for root in roots:
        make_files(root)
    redacted = NamesWanted(redact=True, salt="0123456789abcdef")
    for files in (RootedFiles(roots, NAMES), RootedFiles(roots[:1], redacted)):
        listed = files.list_runs()
        assert sorted(ranks for _, ranks in listed) == sorted([2, 2, 3] * len(files.roots))
        found = [files.find(name, folders=True) for name, _ in listed]
        assert all(each.folder for each in found)
        assert len({each.path for each in found}) == 3 * len(files.roots)
        assert [each.shown for each in found] == [name for name, _ in listed]
    assert "plain" not in str(listed)
