"""A small snapshot, broken inputs, and the command line run in an empty folder."""

from __future__ import annotations

import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import orjson
import pytest
from click.testing import CliRunner, Result

from snapreport.commands import cli
from tests.ready_workers import fork_workers

Run: TypeAlias = Callable[..., Result]

MIB = 2**20


class RunsCode:
    """Pickles to a call of ``os.system`` that would leave a file behind."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {self.marker}",)


def event(action: str, addr: int, size: int, time_us: int) -> dict[str, Any]:
    frames = [
        {"name": "forward", "filename": "model.py", "line": 7},
        {"name": "<module>", "filename": "train.py", "line": 1},
    ]
    return {
        "action": action,
        "addr": addr,
        "size": size,
        "stream": 0,
        "time_us": time_us,
        "frames": frames,
    }


def one_block_snapshot() -> dict[str, Any]:
    """One device that gets a segment, allocates 1 MiB twice and frees the second again."""
    first, second = 0x7F0000000000, 0x7F0000000000 + MIB
    trace = [
        event("segment_alloc", first, 20 * MIB, 1_700_000_000_000_000),
        event("alloc", first, MIB, 1_700_000_000_000_010),
        event("alloc", second, MIB, 1_700_000_000_000_020),
        event("free_requested", second, MIB, 1_700_000_000_000_030),
        event("free_completed", second, MIB, 1_700_000_000_000_030),
    ]
    block = {"address": first, "size": MIB, "requested_size": MIB, "state": "active_allocated"}
    rest = {"address": second, "size": 19 * MIB, "requested_size": 0, "state": "inactive"}
    segment = {
        "device": 0,
        "address": first,
        "total_size": 20 * MIB,
        "allocated_size": MIB,
        "active_size": MIB,
        "requested_size": MIB,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": [block | {"frames": trace[1]["frames"]}, rest | {"frames": []}],
    }
    return {"segments": [segment], "device_traces": [trace]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the current one."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return here


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    path = tmp_path / "snap.pickle"
    path.write_bytes(pickle.dumps(one_block_snapshot()))
    return path


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run ``snapreport`` with these arguments in the empty folder; a bug's traceback surfaces."""
    monkeypatch.setenv("COLUMNS", "100")
    fork_workers(monkeypatch)

    def invoke(*arguments: str | Path) -> Result:
        result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


@pytest.fixture
def bundle(run: Run, snapshot: Path, tmp_path: Path) -> Path:
    path = tmp_path / "snap.zip"
    assert run("convert", snapshot, "-o", path).exit_code == 0
    return path


@pytest.fixture
def broken(tmp_path: Path, snapshot: Path, bundle: Path) -> Callable[[str], Path]:
    """Make an input that is wrong in the way that its name says."""

    def make(kind: str) -> Path:
        path = tmp_path / f"{kind}.pickle"
        whole, zipped = snapshot.read_bytes(), bundle.read_bytes()
        marker = tmp_path / "it-ran"
        contents: dict[str, Callable[[], bytes]] = {
            "empty": lambda: b"",
            "text": lambda: b"Dear colleague, find the snapshot attached.\n",
            "binary": lambda: bytes(range(255, -1, -1)),
            "truncated-pickle": lambda: whole[: len(whole) // 2],
            "other-pickle": lambda: pickle.dumps({"loss": [0.5, 0.25]}),
            "other-json": lambda: b'{"loss": [0.5, 0.25]}',
            "truncated-json": lambda: b'{"segments": [{"device": 0, "addr',
            "truncated-gzip": lambda: b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xab",
            "truncated-zstd": lambda: b"\x28\xb5\x2f\xfd\x24\x05",
            "truncated-zip": lambda: zipped[: len(zipped) // 2],
            "runs-code": lambda: pickle.dumps(RunsCode(marker)),
            "runs-code-inside": lambda: pickle.dumps(
                one_block_snapshot() | {"external_annotations": [RunsCode(marker)]}
            ),
        }
        if kind == "missing":
            return path
        if kind == "folder":
            path.mkdir()
        elif kind == "other-zip":
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("readme.txt", "no bundle")
        elif kind == "newer-bundle":
            rewrite_manifest(bundle, path, format=999)
        else:
            path.write_bytes(contents[kind]())
        return path

    return make


def rewrite_manifest(bundle: Path, target: Path, **changes: object) -> None:
    with zipfile.ZipFile(bundle) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "manifest.json":
                manifest = orjson.loads(data)
                assert changes.keys() <= manifest.keys()
                data = orjson.dumps(manifest | changes)
            new.writestr(name, data)
