"""What is given in place of a snapshot is named, with what to do next."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pickle
import struct
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import apsw
import orjson
import pytest

import snapreport

SAVED = "was written by torch.save"
TRACE = "is a profiler's trace"


def refused(path: Path, data: bytes) -> str:
    """Give a file to ``load()`` and ``convert()``, and return what they both say."""
    path.write_bytes(data)
    said = []
    for read in (snapreport.load, lambda path: snapreport.convert(path, path.parent / "x.zip")):
        with pytest.raises(snapreport.SnapreportError) as caught:
            read(path)
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert "\n" not in said[0]
    assert said[0].startswith(f"{path} ")
    assert "; " in said[0] or ". " in said[0], "it says what to do"
    return said[0]


@pytest.mark.parametrize("zipped", [True, False])
def test_what_torch_save_wrote(tmp_path: Path, zipped: bool) -> None:
    torch = pytest.importorskip("torch")
    out = io.BytesIO()
    values = {f"layer{k}": torch.zeros(k) for k in range(1200)}
    torch.save(values, out, _use_new_zipfile_serialization=zipped)
    assert SAVED in refused(tmp_path / "model.pt", out.getvalue())


def test_a_trace_that_the_profiler_exported(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    # What torch.profiler.profile has within, and exports by; that one imports torch._dynamo.
    with torch.autograd.profiler.profile(use_kineto=True, profile_memory=True) as prof:
        torch.ones(8) + 1
    path = tmp_path / "exported.json"
    prof.export_chrome_trace(str(path))
    assert TRACE in refused(tmp_path / "host.pt.trace.json", path.read_bytes())
    assert TRACE in refused(tmp_path / "host.pt.trace.json.gz", gzip.compress(path.read_bytes()))


@pytest.mark.parametrize(
    "trace",
    [
        {"traceEvents": []},
        {"otherData": {}, "a": 1, "traceEvents": [{"ph": "X", "name": "f"}]},
        [{"name": "process_name", "ph": "M", "pid": 1}],
        [{"args": {"x": 1}, "ph": "X"}],
    ],
)
def test_other_traces_of_that_kind(tmp_path: Path, trace: Any) -> None:
    assert TRACE in refused(tmp_path / "trace.json", orjson.dumps(trace))


def test_a_snapshot_of_a_function_that_is_named_as_a_traces_key_is_one(tmp_path: Path) -> None:
    path = tmp_path / "snap.json"
    path.write_bytes(orjson.dumps({"segments": [], "device_traces": [], "traceEvents": []}))
    assert snapreport.load(path).devices == ()


def test_pages(tmp_path: Path, samples: Path) -> None:
    page = snapreport.render(samples / "two_streams.pickle", tmp_path / "page.html")
    assert "is a report that snapreport made" in refused(tmp_path / "a.html", page.read_bytes())
    found = snapreport.diff(samples / "two_streams.pickle", samples / "two_streams.pickle")
    page = snapreport.render_diff(found, tmp_path / "diff.html")
    assert "is a report that snapreport made" in refused(tmp_path / "b.html", page.read_bytes())
    viewer = b'<!DOCTYPE html>\n<script>import x from "https://x.y/torch/utils/viz/MemoryViz.js"'
    assert "a page of PyTorch's memory_viz" in refused(tmp_path / "c.html", viewer)
    assert "is a web page" in refused(tmp_path / "d.html", b"\n<HTML><body>404")


def _database() -> bytes:
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE allocations (id)")
    return connection.serialize("main")


def _safetensors() -> bytes:
    header = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    return struct.pack("<Q", len(header)) + header + b"\0" * 4


def _zip(name: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(name, b"x")
    return out.getvalue()


def _tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("snap.pickle"))
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("elements.db", _database(), "give the bundle (.zip) that it is from"),
        ("model.safetensors", _safetensors(), "is a safetensors file"),
        ("snap.zip", _zip("run/snapshot.pickle"), "is packed with zip; unpack it"),
        ("snap.zip", _zip("notes.txt"), "has no manifest.json"),
        ("snap.tar", _tar(), "is packed with tar; unpack it"),
        ("snap.tar.gz", gzip.compress(_tar(), mtime=0), "is packed with tar; unpack it"),
        ("snap.bz2", bz2.compress(b"x"), "is packed with bzip2; unpack it"),
        ("snap.xz", lzma.compress(b"x"), "is packed with xz; unpack it"),
        ("snap.pickle", b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        ("run.nsys-rep", b"\0\1NVIDIA", "is a report of NVIDIA Nsight"),
        ("events.out.tfevents.17.host.1.0", b"\x18\0\0\0", "is a log of TensorBoard"),
        ("snap.perfetto-trace", b"\x0a\x05", "is a profile or trace"),
        ("live.parquet", b"PAR1", "is a Parquet table"),
        ("snap.pickle", b"", "is empty; was the program still writing it"),
    ],
)  # fmt: skip
def test_others(tmp_path: Path, name: str, data: bytes, said: str) -> None:
    assert said in refused(tmp_path / name, data)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("events", [0, 1, 5_000])
def test_no_snapshot_is_taken_for_another_file(
    tmp_path: Path, samples: Path, protocol: int, events: int
) -> None:
    trace = [
        {"action": "alloc", "addr": k, "size": 1, "stream": 0, "time_us": k, "frames": []}
        for k in range(events)
    ]
    path = tmp_path / "ustar{.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [trace]}, protocol))
    assert snapreport.load(path).devices[0].events == 0 or events


def test_a_folder_says_so_to_a_command_of_one_file(tmp_path: Path) -> None:
    with pytest.raises(snapreport.InputError, match="is a folder; name a file in it"):
        snapreport.load(tmp_path)


def test_a_folder_of_recordings_says_which_is_the_newest(tmp_path: Path) -> None:
    (tmp_path / "12").mkdir()
    (tmp_path / "latest").symlink_to("12")
    with pytest.raises(snapreport.InputError) as error:
        snapreport.load(tmp_path)
    assert str(error.value) == (
        f"{tmp_path} is a folder of recordings; name a file of the newest, in {tmp_path / '12'}."
    )
