"""What can be given as a snapshot file: pickles, packed ones, JSON, and what is none."""

from __future__ import annotations

import gc
import gzip
import hashlib
import os
import pickle
from pathlib import Path

import orjson
import pytest
import zstandard

from snapreport.ground.errors import InputError, NotASnapshotError
from snapreport.history.build import build_history
from snapreport.read import read_snapshot
from tests.builders import MIB, differences, read_bytes, stack, trace


def sample() -> dict[str, object]:
    return (
        trace()
        .alloc("a", 4 * MIB, frames=stack("f", "main"), pool_id=(0, 1))
        .free("a", frames=stack("g"))
        .alloc("a", 3 * MIB)
        .segment("a", 20 * MIB, (3 * MIB, 3 * MIB, "live"))
        .settings(max_split_size=-1, garbage_collection_threshold=0.5)
        .start("step", 5)
        .end("step", 25)
        .snapshot()
    )


_OF_THE_FILE = ("raw.source", "raw.length")
"""What differs where the same is written in another way."""


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_protocol_gives_the_same(protocol: int) -> None:
    ours = read_bytes(pickle.dumps(sample(), protocol))
    plain = read_bytes(pickle.dumps(sample(), 4))
    assert all(line.startswith(_OF_THE_FILE) for line in differences(ours, plain, "raw"))
    assert len(ours.traces[0]) == 4


def test_packed_files_and_json_are_told_by_their_first_bytes() -> None:
    pickled = pickle.dumps(sample(), 4)
    plain = read_bytes(pickled)
    for data in (
        gzip.compress(pickled),
        gzip.compress(pickled[:50]) + gzip.compress(pickled[50:]),
        zstandard.compress(pickled),
        zstandard.compress(pickled[:50]) + zstandard.compress(pickled[50:]),
        orjson.dumps(sample()),
        b"\n  " + orjson.dumps(sample()),
        gzip.compress(orjson.dumps(sample())),
    ):
        ours = read_bytes(data)  # always under the name snap.pickle
        assert all(line.startswith(_OF_THE_FILE) for line in differences(ours, plain, "raw"))


def test_the_source_is_the_file_as_it_lies_on_disk(tmp_path: Path) -> None:
    data = gzip.compress(pickle.dumps(sample(), 4))
    path = tmp_path / "run.pickle.gz"
    path.write_bytes(data)
    source = read_snapshot(path).source
    assert source.name == "run.pickle.gz"
    assert source.size == len(data)
    assert source.sha256 == hashlib.sha256(data).hexdigest()


def test_a_zstd_file_cut_off_says_so() -> None:
    data = zstandard.compress(pickle.dumps(sample(), 4))
    with pytest.raises(NotASnapshotError, match="zstd file that is cut off"):
        read_bytes(data[:-1])


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_a_packed_file_cut_off_at_any_byte_is_no_snapshot(pack: object) -> None:
    assert callable(pack)
    data = pack(pickle.dumps(sample(), 4))
    for length in range(4, len(data)):
        with pytest.raises(NotASnapshotError):
            read_bytes(data[:length])


def test_json_cut_off_at_any_byte_is_no_snapshot() -> None:
    data = orjson.dumps(sample())
    for length in range(1, len(data), 7):
        with pytest.raises(NotASnapshotError):
            read_bytes(data[:length])


def test_a_missing_file_a_folder_and_an_empty_file_say_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        read_snapshot(tmp_path / "missing.pickle")
    with pytest.raises(InputError, match="is a folder"):
        read_snapshot(tmp_path)
    with pytest.raises(InputError, match=r"does not exist|cannot be read"):
        read_snapshot(tmp_path / "x" / "missing.pickle")
    empty = tmp_path / "empty.pickle"
    empty.touch()
    with pytest.raises(NotASnapshotError, match=r"empty\.pickle is empty"):
        read_snapshot(empty)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.timeout(20)
def test_a_named_pipe_does_not_hang(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.pickle"
    os.mkfifo(pipe)
    with pytest.raises((InputError, NotASnapshotError)) as caught:
        read_snapshot(pipe)
    assert str(pipe) in str(caught.value)


@pytest.mark.skipif(not Path(os.devnull).is_char_device(), reason="there is no such device")
def test_a_device_is_no_snapshot() -> None:
    with pytest.raises((InputError, NotASnapshotError)):
        read_snapshot(Path(os.devnull))


@pytest.mark.parametrize(
    "top",
    [
        {},
        {"segments": 3},
        {"segments": {}},
        {"device_traces": 3},
        {"device_traces": [3]},
        {"segments": [3]},
        {"segments": [{"address": 1}]},
        {"segments": [], "device_traces": [{}]},
        {"segments": [], "device_traces": [[3]]},
        {"loss": [0.5]},
        [1, 2, 3],
        [{"loss": 1}],
        3,
        "text",
        None,
        {"segments": [], "allocator_settings": 3},
        {"segments": [], "external_annotations": 3},
        {"segments": [], "external_annotations": [3]},
        {"segments": [], "host_traces": 3},
        {"segments": [], "host_traces": [3]},
        {"segments": [], "host_segments": 3},
        {"segments": [], "traces": 3},
    ],
)
def test_another_object_is_no_snapshot(top: object) -> None:
    with pytest.raises(NotASnapshotError) as caught:
        read_bytes(pickle.dumps(top, 4))
    assert "snap.pickle" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("failing", [False, True])
def test_the_garbage_collector_is_as_it_was(failing: bool) -> None:
    for on in (True, False):
        if on:
            gc.enable()
        else:
            gc.disable()
        try:
            if failing:
                with pytest.raises(NotASnapshotError):
                    read_bytes(b"\x80\x04}")
            else:
                read_bytes(pickle.dumps(sample(), 4))
            assert gc.isenabled() == on
        finally:
            gc.enable()


def test_a_circular_snapshot_is_no_traceback() -> None:
    loop: list[object] = []
    loop.append(loop)
    for snapshot in (
        {"segments": loop},
        {"segments": [], "device_traces": loop},
        {"segments": [], "allocator_settings": {"a": loop}},
        {"segments": [], "device_traces": [[{"action": "alloc", "frames": loop}]]},
    ):
        with pytest.raises(NotASnapshotError):
            build_history(read_bytes(pickle.dumps(snapshot, 4)))
