"""Files larger than memory end with a message, as far as the system says what there is."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path

import pytest
import zstandard

import snapreport
from snapreport.allowed import NO_MEMORY_CHECK
from snapreport.errors import NotASnapshotError, NotEnoughMemoryError
from snapreport.read import compiled, memory, unpickle
from tests.builders import trace

GIB = 1 << 30


def system(
    root: Path, groups: str | None = None, available: int | None = 8 * GIB, **files: str
) -> Path:
    """Make a system's files; keys are names below sys/fs/cgroup, / as __ and . as _DOT_."""
    (root / "proc/self").mkdir(parents=True)
    if available is not None:
        text = f"MemTotal: 99999999 kB\nMemFree: 5 kB\nMemAvailable: {available >> 10} kB\n"
        (root / "proc/meminfo").write_text(text + "HugePages_Total: 0\nnonsense\n")
    if groups is not None:
        (root / "proc/self/cgroup").write_text(groups)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_what_linux_says_is_available_counts(tmp_path: Path) -> None:
    assert memory.available_memory(system(tmp_path)) == 8 * GIB


def test_where_nothing_is_known_nothing_is_checked(tmp_path: Path) -> None:
    assert memory.available_memory(tmp_path) is None
    memory.require_memory(2**60, tmp_path)
    odd = system(tmp_path, "no group\n9:cpu:/\n", None, memory_DOT_max="5", cpu__x="1")
    assert memory.available_memory(odd) is None


def test_a_group_leaves_its_limit_less_what_is_used_but_for_file_pages(tmp_path: Path) -> None:
    root = system(
        tmp_path,
        "0::/batch/job_7\n",
        batch__job_7__memory_DOT_max=f"{4 * GIB}\n",
        batch__job_7__memory_DOT_current=f"{3 * GIB}\n",
        batch__job_7__memory_DOT_stat=f"anon 7\nactive_file {GIB}\ninactive_file 10\nfile 3\n",
    )
    assert memory.available_memory(root) == 2 * GIB + 10


def test_the_tightest_of_the_groups_around_counts(tmp_path: Path) -> None:
    root = system(
        tmp_path,
        "0::/batch/job\n",
        batch__job__memory_DOT_max="max\n",
        batch__job__memory_DOT_current="5\n",
        batch__memory_DOT_max=f"{GIB}\n",
        batch__memory_DOT_current=f"{2 * GIB}\n",
    )
    assert memory.available_memory(root) == 0


@pytest.mark.parametrize("path", ["/", "/docker/of/the/host", "/../../elsewhere"])
def test_in_a_container_the_group_is_at_the_top(tmp_path: Path, path: str) -> None:
    root = system(
        tmp_path,
        f"4:cpu,memory:{path}\n0::{path}\n",
        memory__memory_DOT_limit_in_bytes=str(3 * GIB),
        memory__memory_DOT_usage_in_bytes=str(GIB),
        memory__memory_DOT_stat="active_file 9\ntotal_active_file 5\ntotal_inactive_file 2\n",
    )
    assert memory.available_memory(root) == 2 * GIB + 7


def test_a_limit_beyond_the_machine_is_none(tmp_path: Path) -> None:
    root = system(
        tmp_path,
        "4:memory:/\n",
        memory__memory_DOT_limit_in_bytes="9223372036854771712",
        memory__memory_DOT_usage_in_bytes="5",
    )
    assert memory.available_memory(root) == 8 * GIB


def test_too_much_is_refused_with_what_it_needs_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = system(tmp_path)
    memory.require_memory(8 * GIB, root)
    with pytest.raises(NotEnoughMemoryError) as caught:
        memory.require_memory(8 * GIB + 1, root)
    assert "needs about 8.00 GiB of memory, and 8.00 GiB are free" in str(caught.value)
    assert NO_MEMORY_CHECK in str(caught.value)
    assert "\n" not in str(caught.value)
    monkeypatch.setenv(NO_MEMORY_CHECK, "1")
    memory.require_memory(2**60, root)


def test_a_little_is_always_tried(tmp_path: Path) -> None:
    root = system(tmp_path, available=1024)
    memory.require_memory(1 << 28, root)
    with pytest.raises(NotEnoughMemoryError):
        memory.require_memory((1 << 28) + 1, root)


@pytest.fixture
def nearly_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with 100 bytes, of which no program can be sure."""
    monkeypatch.setattr(memory, "available_memory", lambda _root: 100)
    monkeypatch.setattr(memory, "_ALWAYS_TRIED", 0)


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
        monkeypatch.setattr(compiled, "events", lambda: None)
    path.write_bytes(data)
    with pytest.raises(NotEnoughMemoryError) as caught:
        snapreport.load(path)
    assert str(caught.value).startswith(f"{path} needs about ")


def test_memory_is_checked_again_when_the_events_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if compiled.events() is None:
        pytest.skip("events.c was not compiled")
    builder = trace()
    for _ in range(500):
        builder.event("snapshot")
    data = pickle.dumps(builder.snapshot(), 4)
    monkeypatch.setattr(memory, "_ALWAYS_TRIED", 0)
    monkeypatch.setattr(memory, "available_memory", lambda _root: len(data) + 1)
    monkeypatch.setattr(memory, "count_dicts", lambda _data: 0)  # as where the parts have none
    path = tmp_path / "large.pickle"
    path.write_bytes(data)
    with pytest.raises(NotEnoughMemoryError):
        snapreport.load(path)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("n", [10, 300_000])
def test_dicts_are_counted_whatever_the_protocol(protocol: int, n: int) -> None:
    events = [{"action": "alloc", "addr": 1 << 40, "size": i % 999, "stream": 0} for i in range(n)]
    data = pickle.dumps({"segments": [], "device_traces": [events]}, protocol)
    assert memory.count_dicts(data) == pytest.approx(n + 1, rel=0.02)


@pytest.mark.parametrize("form", ["columns", "objects"])
def test_tiny_events_are_known_to_take_more_than_their_bytes(
    monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """They have 26 bytes each in the file, and 174 as columns or 319 as objects in memory."""
    if form == "objects":
        monkeypatch.setattr(compiled, "events", lambda: None)
    elif compiled.events() is None:
        pytest.skip("events.c was not compiled")
    n, each = 5_000, 174 if form == "columns" else 319
    events = [{"action": "alloc", "addr": 1 << 40, "size": i, "stream": 0} for i in range(n)]
    data = pickle.dumps({"segments": [], "device_traces": [events]}, 4)
    assert len(data) < 30 * n
    monkeypatch.setattr(memory, "_ALWAYS_TRIED", 0)
    monkeypatch.setattr(memory, "available_memory", lambda _root: each * n)
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
