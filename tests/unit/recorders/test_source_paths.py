"""The folder that the profiler cut off a file's name."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from snapreport.recorders.profiler import full_path


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Two checkouts of one program on sys.path, the one that sorts last behind the other."""
    first, last = tmp_path / "clone", tmp_path / "installed"
    for folder in (first, last):
        (folder / "lab").mkdir(parents=True)
        (folder / "lab" / "train.py").write_text("")
        monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(sys, "path", [str(first), str(last), *sys.path[2:]])
    return first, last


def test_of_two_files_of_one_name_it_is_the_one_that_an_import_would_find(
    folders: tuple[Path, Path],
) -> None:
    assert full_path("lab/train.py") == str(folders[0] / "lab" / "train.py")


def test_of_two_files_of_one_name_it_is_the_one_that_is_loaded(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType("lab_of_the_test")
    module.__file__ = str(folders[1] / "lab" / "train.py")
    monkeypatch.setitem(sys.modules, "lab_of_the_test", module)
    assert full_path("lab/train.py") == module.__file__


def test_a_folder_inside_another_is_the_one_that_was_cut_off(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = folders[0] / "lab"
    monkeypatch.setattr(sys, "path", [str(inner), *sys.path])
    assert full_path("train.py") == str(inner / "train.py")
    assert full_path("lab/train.py") == str(folders[1] / "lab" / "train.py")


@pytest.mark.parametrize("name", ["", "<string>", "/abs/train.py", "lab/nowhere.py"])
def test_what_is_no_such_file_stays_as_it_is(folders: tuple[Path, Path], name: str) -> None:
    assert full_path(name) == name
