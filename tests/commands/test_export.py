"""``snapreport export``: every format from a snapshot and a bundle, and what it refuses."""

from __future__ import annotations

import errno
import os
import pickle
import sqlite3
import sys
from pathlib import Path

import orjson
import pytest

import snapreport
from snapreport.reporters.exports import EXPORTS
from tests.builders import assert_same_history
from tests.commands.conftest import MIB, Run, one_block_snapshot
from tests.commands.test_errors import assert_one_line_error


@pytest.mark.parametrize("kind", EXPORTS)
@pytest.mark.parametrize("source", ["snapshot", "bundle"])
def test_each_format_is_written_under_a_name_from_the_input(
    run: Run, folder: Path, kind: str, source: str, request: pytest.FixtureRequest
) -> None:
    result = run("export", kind, request.getfixturevalue(source))
    name = f"snap{EXPORTS[kind]}"
    assert result.exit_code == 0
    assert result.stdout == (f"{name}\n" if kind != "snapviewer" else "")
    assert os.listdir(folder) == [name]
    rebuilt = source == "bundle" and kind in ("json", "pickle")
    assert ("Rebuilt from a bundle" in result.stderr) == rebuilt


@pytest.mark.parametrize("kind", EXPORTS)
def test_bundle_and_snapshot_give_equal_bytes(
    run: Run, snapshot: Path, bundle: Path, folder: Path, kind: str
) -> None:
    if kind in ("json", "pickle"):  # one is as recorded, the other rebuilt
        pytest.skip("the raw snapshot is compared below")
    for name, source in (("a", snapshot), ("b", bundle)):
        assert run("export", kind, source, "-o", folder / name).exit_code == 0
    if kind == "snapviewer":
        for name in ("elements.db", "allocations.json"):
            assert (folder / "a" / name).read_bytes() == (folder / "b" / name).read_bytes()
    else:
        assert (folder / "a").read_bytes() == (folder / "b").read_bytes()


def test_the_raw_snapshot_is_what_was_recorded(run: Run, snapshot: Path, folder: Path) -> None:
    assert run("export", "json", snapshot, "-o", "raw.json").exit_code == 0
    raw = one_block_snapshot()
    raw["segments"][0]["segment_pool_id"] = [0, 0]
    assert orjson.loads((folder / "raw.json").read_bytes()) == raw
    assert run("export", "pickle", snapshot, "-o", "raw.pickle").exit_code == 0
    content = (folder / "raw.pickle").read_bytes()
    assert content[:2] == b"\x80\x04"
    assert pickle.loads(content) == one_block_snapshot()


@pytest.mark.parametrize("kind", ["json", "pickle"])
def test_a_bundle_s_raw_snapshot_loads_to_the_same(
    run: Run, bundle: Path, folder: Path, kind: str
) -> None:
    assert run("export", kind, bundle, "-o", "raw").exit_code == 0
    again, before = snapreport.load("raw"), snapreport.load(bundle)
    assert_same_history(again.devices[0].allocations, before.devices[0].allocations)  # type: ignore[arg-type]
    assert_same_history(again.devices[0].segments, before.devices[0].segments)  # type: ignore[arg-type]


def test_snapviewer_s_files_open_in_any_sqlite(run: Run, bundle: Path, folder: Path) -> None:
    assert run("export", "snapviewer", bundle, "-o", "files").exit_code == 0
    assert sorted(os.listdir("files")) == ["allocations.json", "elements.db"]
    strips = orjson.loads(Path("files/allocations.json").read_bytes())
    connection = sqlite3.connect("files/elements.db")
    rows = connection.execute("SELECT idx, size FROM allocs ORDER BY idx").fetchall()
    connection.close()
    assert rows == [(strip["elem"], strip["size"]) for strip in strips] == [(0, MIB), (1, MIB)]
    assert_one_line_error(run("export", "snapviewer", bundle, "-o", "files"), "--force")
    assert run("export", "snapviewer", bundle, "-o", "files", "--force").exit_code == 0


@pytest.mark.parametrize("good", [0, 1])
def test_a_failed_export_leaves_no_folder(
    run: Run, bundle: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, good: int
) -> None:
    synced: list[int] = []

    def fsync(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) > good:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)
    done = run("export", "snapviewer", bundle, "-o", "files")
    assert_one_line_error(done, "files", "No space left on device")
    assert os.listdir(folder) == []


def test_a_moment_chooses_what_a_flame_graph_shows(run: Run, bundle: Path, folder: Path) -> None:
    for event, total in ((0, 0), (1, MIB), (2, 2 * MIB), (4, MIB)):
        run("export", "collapsed", bundle, "-o", "out", "--force", "--event", str(event))
        lines = Path("out").read_text().splitlines()
        assert sum(int(line.rpartition(" ")[2]) for line in lines) == total
    assert lines == [f"<module> (train.py:1);forward (model.py:7) {MIB}"]


def test_a_table_has_all_allocations_or_those_of_a_moment(
    run: Run, bundle: Path, folder: Path
) -> None:
    run("export", "csv", bundle, "-o", "all")
    run("export", "csv", bundle, "-o", "live", "--event", "4")
    assert len(Path("all").read_text().splitlines()) == 1 + 2 * 2  # a stack of two frames each
    assert len(Path("live").read_text().splitlines()) == 1 + 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("json", "--event", "1"), ("entire",)),
        (("perfetto", "--event", "1"), ("entire",)),
        (("snapviewer", "--stage", "x"), ("entire",)),
        (("pickle", "--device", "0"), ("entire",)),
        (("csv", "--device", "7"), ("no device '7'",)),
        (("snapviewer", "--device", "7"), ("no device '7'",)),
        (("pprof", "--event", "99"), ("no event 99",)),
        (("speedscope", "--curve", "reserved"), ("reserved", "requested")),
    ],
)
def test_what_cannot_be_exported_is_one_line(
    run: Run, bundle: Path, folder: Path, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    kind, *options = arguments
    assert_one_line_error(run("export", kind, bundle, *options), *words)
    assert os.listdir(folder) == []


@pytest.mark.parametrize("kind", EXPORTS)
def test_nothing_is_replaced_without_force(run: Run, bundle: Path, kind: str) -> None:
    Path("out").mkdir() if kind == "snapviewer" else Path("out").write_text("mine")
    if kind == "snapviewer":
        Path("out/elements.db").write_text("mine")
    assert_one_line_error(run("export", kind, bundle, "-o", "out"), "--force")


def test_parquet_without_pyarrow_says_what_to_install(
    run: Run, bundle: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    result = run("export", "parquet", bundle)
    assert_one_line_error(result, "pip install pyarrow")
    assert os.listdir(folder) == []


@pytest.mark.parametrize("kind", ["other-pickle", "runs-code", "truncated-zip", "text"])
@pytest.mark.parametrize("form", ["json", "pickle", "csv"])
def test_a_broken_input_is_one_line(
    run: Run, broken: object, folder: Path, kind: str, form: str
) -> None:
    path = broken(kind)  # type: ignore[operator]
    assert_one_line_error(run("export", form, path, "-o", "out"), str(path))
    assert os.listdir(folder) == []
