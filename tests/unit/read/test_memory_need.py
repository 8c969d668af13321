"""Files larger than memory end with a message, as far as the system says what there is."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path

import pytest
import zstandard

import snapreport
from snapreport.ground.errors import NotASnapshotError, NotEnoughMemoryError
from snapreport.ground.processes import NO_MEMORY_CHECK
from snapreport.read import parsed, unpickle
from tests.builders import trace
from tests.unit.ground.test_machine import system

GIB = 1 << 30


def test_too_much_is_refused_with_what_it_needs_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed.require_memory(2**60, tmp_path)  # where nothing is known, nothing is checked
    root = system(tmp_path)
    parsed.require_memory(8 * GIB, root)
    with pytest.raises(NotEnoughMemoryError) as caught:
        parsed.require_memory(8 * GIB + 1, root)
    assert "needs about 8.00 GiB of memory, and 8.00 GiB is free" in str(caught.value)
    assert NO_MEMORY_CHECK in str(caught.value)
    assert "\n" not in str(caught.value)
    monkeypatch.setenv(NO_MEMORY_CHECK, "1")
    parsed.require_memory(2**60, root)


def test_a_little_is_always_tried(tmp_path: Path) -> None:
    root = system(tmp_path, available=1024)
    parsed.require_memory(1 << 28, root)
    with pytest.raises(NotEnoughMemoryError):
        parsed.require_memory((1 << 28) + 1, root)


@pytest.fixture
def nearly_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with 100 bytes, of which no program can be sure."""
    monkeypatch.setattr(parsed, "available_memory", lambda _root: 100)
    monkeypatch.setattr(parsed, "_ALWAYS_TRIED", 0)


@pytest.mark.parametrize("form", ["pickle", "gz", "zst", "json", "objects"])
@pytest.mark.usefixtures("nearly_none")
def test_every_kind_of_file_is_checked_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    data = pickle.dumps(trace().alloc("a", 4).snapshot(), 4)
    path = tmp_path / "large.pickle"
    if form == "json":
        data = b'{"segments": [], "device_traces": [[]], "allocator_settings": {}}'
    elif form == "gz":
        data = gzip.compress(data)
    elif form == "zst":
        data = zstandard.compress(data)
    elif form == "objects":
        monkeypatch.setattr(unpickle, "parse", lambda *_: None)
    path.write_bytes(data)
    with pytest.raises(NotEnoughMemoryError) as caught:
        snapreport.load(path)
    assert str(caught.value).startswith(f"{path} needs about ")


def test_memory_is_checked_again_when_the_events_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = trace()
    for _ in range(500):
        builder.event("snapshot")
    data = pickle.dumps(builder.snapshot(), 4)
    monkeypatch.setattr(parsed, "_ALWAYS_TRIED", 0)
    monkeypatch.setattr(parsed, "available_memory", lambda _root: len(data) + 1)
    monkeypatch.setattr(parsed, "count_dicts", lambda _data: 0)  # as where the parts have none
    path = tmp_path / "large.pickle"
    path.write_bytes(data)
    with pytest.raises(NotEnoughMemoryError):
        snapreport.load(path)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("n", [10, 300_000])
def test_dicts_are_counted_whatever_the_protocol(protocol: int, n: int) -> None:
    events = [{"action": "alloc", "addr": 1 << 40, "size": i % 999, "stream": 0} for i in range(n)]
    data = pickle.dumps({"segments": [], "device_traces": [events]}, protocol)
    assert parsed.count_dicts(data) == pytest.approx(n + 1, rel=0.02)


@pytest.mark.parametrize("form", ["columns", "objects"])
def test_tiny_events_are_known_to_take_more_than_their_bytes(
    monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """They have 26 bytes each in the file, and 174 as columns or 319 as objects in memory."""
    n, each = 5_000, 174 if form == "columns" else 319
    events = [{"action": "alloc", "addr": 1 << 40, "size": i, "stream": 0} for i in range(n)]
    data = pickle.dumps({"segments": [], "device_traces": [events]}, 4)
    assert len(data) < 30 * n
    monkeypatch.setattr(parsed, "_ALWAYS_TRIED", 0)
    monkeypatch.setattr(unpickle, "ALWAYS_PARSED", 0)
    monkeypatch.setattr(parsed, "available_memory", lambda _root: each * n)
    monkeypatch.setattr(unpickle, "parse", lambda *_: pytest.fail("it began to read"))
    if form == "objects":
        monkeypatch.setattr(unpickle, "parse", lambda *_: None)
        monkeypatch.setattr(unpickle, "_load", lambda *_: pytest.fail("it began to load"))
    with pytest.raises(NotEnoughMemoryError):
        unpickle.load_snapshot_pickle(data)


@pytest.mark.usefixtures("nearly_none")
def test_a_damaged_file_is_still_called_damaged(tmp_path: Path) -> None:
    path = tmp_path / "bent.pickle.zst"
    path.write_bytes(zstandard.compress(b"x" * 10)[:5])
    with pytest.raises(NotASnapshotError, match="zstd"):
        snapreport.load(path)


def test_what_is_read_without_counting_its_dicts_is_always_tried() -> None:
    most_dicts = b"}(" * (parsed.ALWAYS_PARSED // 2)
    assert parsed.parsed_memory(most_dicts) <= parsed._ALWAYS_TRIED
    assert parsed.parsed_memory(most_dicts * 2) > parsed._ALWAYS_TRIED
