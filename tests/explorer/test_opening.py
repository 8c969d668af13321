"""Opening files: bundles that are kept, work that is cancelled, and lines of source."""

from __future__ import annotations

import os
import pickle
import shutil
import threading
from pathlib import Path

import pytest

from snapreport import NotASnapshotError, convert
from snapreport.commands.explorer.desk import Panes
from snapreport.commands.explorer.opening import (
    BundleCache,
    Cancelled,
    Sources,
    key_of,
    names_beside,
    open_file,
    paths_by_name,
)
from snapreport.commands.explorer.screen import Viewpoint
from snapreport.ground.progress import silent
from tests.builders import MIB, frame, trace


def test_a_pickle_is_converted_once_and_found_the_second_time(
    samples: Path, tmp_path: Path
) -> None:
    said: list[str] = []

    def progress(what: str, _: float | None) -> None:
        said.append(what)

    source = samples / "training_step.pickle"
    first = open_file(source, folder=tmp_path, progress=progress)
    assert any("Reading" in what and "bundle" not in what for what in said), said
    stamp = first.bundle.stat().st_mtime
    os.utime(first.bundle, (1, 1))
    said.clear()
    second = open_file(source, folder=tmp_path, progress=progress)
    assert set(said) == {"Looking for a kept bundle", "Reading the bundle"} | set(said[2:])
    assert second.bundle == first.bundle
    assert second.bundle.stat().st_mtime >= stamp - 1, "that it was used is noted"
    assert second.snapshot.device().peak == first.snapshot.device().peak
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [first.bundle.name, names_beside(first.bundle).name]
    )


def test_a_snapshot_that_changed_has_another_bundle(samples: Path, tmp_path: Path) -> None:
    copy = tmp_path / "snap.pickle"
    keys = set()
    for name in ("training_step.pickle", "two_streams.pickle"):
        shutil.copy(samples / name, copy)
        keys.add(key_of(copy, silent))
    assert len(keys) == 2


def test_a_bundle_is_opened_as_it_is(samples: Path, tmp_path: Path) -> None:
    bundle = convert(samples / "two_streams.pickle", tmp_path / "two.zip")
    cache = tmp_path / "cache"
    assert open_file(bundle, folder=cache).bundle == bundle
    assert not cache.exists()


def test_the_oldest_bundles_go_where_all_take_too_much(tmp_path: Path) -> None:
    cache = BundleCache(tmp_path / "cache", limit=250)
    for age, name in enumerate(("old", "middle", "new")):
        workplace = cache.workplace()
        made = workplace / "made.zip"
        made.write_bytes(b"x" * 100)
        names_beside(made).write_bytes(b"{}")
        kept = cache.keep(made, name)
        os.utime(kept, (age, age))
        shutil.rmtree(workplace)
    assert cache.find("old") is None
    assert cache.find("middle") is not None
    assert cache.find("new") is not None
    assert not names_beside(cache.folder / "old.zip").exists()
    large = cache.workplace() / "made.zip"
    large.write_bytes(b"x" * 1000)
    cache.keep(large, "large")
    assert [path.stem for path in cache.folder.glob("*.zip")] == ["large"]


def test_a_cache_that_cannot_be_written_to_is_done_without(samples: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    opened = open_file(samples / "two_streams.pickle", folder=blocked / "cache")
    assert opened.snapshot.device().events
    assert not opened.bundle.is_relative_to(tmp_path)


def test_an_opening_that_is_cancelled_leaves_nothing(samples: Path, tmp_path: Path) -> None:
    cancelled = threading.Event()

    def progress(what: str, _: float | None) -> None:
        if what != "Looking for a kept bundle":
            cancelled.set()

    with pytest.raises(Cancelled):
        open_file(
            samples / "training_step.pickle",
            folder=tmp_path / "cache",
            progress=progress,
            cancelled=cancelled,
        )
    assert not list((tmp_path / "cache").iterdir())


def test_what_is_no_snapshot_is_told_as_ever(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.pickle"
    wrong.write_bytes(b"nothing of the kind")
    with pytest.raises(NotASnapshotError, match=r"wrong\.pickle"):
        open_file(wrong, folder=tmp_path / "cache")
    assert not list((tmp_path / "cache").iterdir())


def test_a_line_of_source_is_read_where_the_file_is(tmp_path: Path) -> None:
    code = tmp_path / "train.py"
    code.write_text("import torch\n    loss.backward()\n")
    sources = Sources({"short/train.py": str(code)})
    assert sources.line("short/train.py", 2) == "loss.backward()"
    assert sources.line(str(code), 1) == "import torch"
    for line in (0, -1, 3, 10**9):
        assert sources.line(str(code), line) == ""


def test_a_line_of_source_is_read_in_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "train.py").write_text("import torch\n")
    assert Sources({"train.py": "~/train.py"}).line("train.py", 1) == "import torch"


def test_what_a_stranger_names_is_read_only_where_it_is_a_plain_python_file(
    tmp_path: Path,
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret\n")
    folder = tmp_path / "folder.py"
    folder.mkdir()
    names = [str(secret), str(folder), "//server/share/x.py", r"\\server\share\x.py", "/dev/zero"]
    names += ["", "??", "\0.py", "x" * 5000 + ".py", "/etc/passwd"]
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.py")
        names.append(str(tmp_path / "pipe.py"))
    for name in names:
        assert Sources({}).line(name, 1) == ""
    huge = tmp_path / "huge.py"
    huge.write_bytes(b"x = 1\n" * 500_000)
    assert Sources({}).line(str(huge), 1) == ""


def test_whole_paths_are_kept_by_their_short_ones() -> None:
    assert paths_by_name(["a.py", "b.py", "x"], ["/h/a.py", "b.py", "/\x1b"]) == {"a.py": "/h/a.py"}
    assert paths_by_name(["a.py"], ["/h/a.py", "/h/b.py"]) == {}


def test_the_line_of_source_under_the_cursor_is_shown(tmp_path: Path) -> None:
    code = tmp_path / "project" / "train.py"
    code.parent.mkdir()
    code.write_text("import torch\n\ndef step():\n    loss = model(batch)\n")
    recorded = trace().alloc("a", 4 * MIB, frames=[frame("step", str(code), 4)])
    snapshot = tmp_path / "snap.pickle"
    snapshot.write_bytes(pickle.dumps(recorded.snapshot(), 4))
    opened = open_file(snapshot, folder=tmp_path / "cache")
    panes = Panes([Viewpoint(opened)], lambda _: None, lambda: None)
    for name in ("3", "end"):
        panes.press(name)
        panes.draw(80, 24)
    told = "\n".join(line.text for line in panes.draw(80, 24))
    assert str(code) not in told, "names are short, as everywhere"
    assert "loss = model(batch)" in told
