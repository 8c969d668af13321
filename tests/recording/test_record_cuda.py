"""record() on a simulated GPU: files, nesting, what was on before, steps, ranks."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import re
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import snapreport
from tests.recording.fake_torch import GIB, FakeGpu, install
from tests.recording.folders import ALL, MIB, allocations, metadata, names


def test_a_block_leaves_snapshot_bundle_and_reports(gpu: FakeGpu, tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    with snapreport.record(out) as recording:
        gpu.free(gpu.alloc(8 * MIB, line=7))
    assert names(out) == ALL
    assert set(recording.files) == {"pickle", "zip", "html", "md"}
    assert allocations(out / "1" / "snapshot.pickle") == [8 * MIB]
    assert allocations(out / "1" / "snap.zip") == [8 * MIB]
    assert "train.py:7" in (out / "1" / "report.md").read_text()


def test_the_pickle_is_of_protocol_4(gpu: FakeGpu, tmp_path: Path) -> None:
    with snapreport.record(tmp_path, formats="pickle"):
        gpu.alloc(MIB)
    assert (tmp_path / "1" / "snapshot.pickle").read_bytes()[:2] == b"\x80\x04"
    assert names(tmp_path) == {"snapshot.pickle"}


def test_a_compressed_snapshot_is_read_back(gpu: FakeGpu, tmp_path: Path) -> None:
    with snapreport.record(tmp_path, compress=True, formats=["pickle", "md"]):
        gpu.alloc(3 * MIB)
    assert names(tmp_path) == {"snapshot.pickle.zst", "report.md"}
    assert allocations(tmp_path / "1" / "snapshot.pickle.zst") == [3 * MIB]


def test_reports_alone_leave_no_pickle(gpu: FakeGpu, tmp_path: Path) -> None:
    with snapreport.record(tmp_path, formats=["html"]) as recording:
        gpu.alloc(MIB)
    assert names(tmp_path) == {"report.html"}
    assert set(recording.files) == {"html"}


def test_history_is_off_again_afterwards(gpu: FakeGpu, tmp_path: Path) -> None:
    with snapreport.record(tmp_path, formats=["pickle"], stacks="python", context="alloc"):
        assert gpu.simulator.recorder.on
    assert not gpu.simulator.recorder.on
    assert gpu.calls[0] == {"enabled": "all", "context": "alloc", "stacks": "python"}
    assert [call["enabled"] for call in gpu.calls] == ["all", None]


@pytest.mark.parametrize(
    ("version", "context"),
    [("2.9.1", "all"), ("2.10.0", "alloc"), ("2.11.0+cu130", "alloc"), ("2.12.0a1", "all")],
)
def test_stacks_of_frees_are_not_recorded_where_that_breaks_checkpointing(
    gpu: FakeGpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, context: str
) -> None:
    monkeypatch.setattr(sys.modules["torch"], "__version__", version)
    with snapreport.record(tmp_path, formats=["pickle"], stacks="python"):
        pass
    assert gpu.calls[0]["context"] == context


@pytest.mark.parametrize(("version", "noted"), [("2.11.0", False), ("2.12.0", True)])
def test_lines_of_forward_are_noted_by_anomaly_mode_which_is_as_before_afterwards(
    gpu: FakeGpu,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    version: str,
    noted: bool,
) -> None:
    mode = [False, True]  # as PyTorch has it: off, and looking for NaN once it is on

    def switch(on: bool, look: bool = True) -> None:
        mode[:] = [on, look]

    monkeypatch.setattr(gpu.torch, "__version__", version)
    vars(gpu.torch).update(
        is_anomaly_enabled=lambda: mode[0],
        is_anomaly_check_nan_enabled=lambda: mode[1],
        set_anomaly_enabled=switch,
    )
    with snapreport.record(tmp_path, formats="pickle", forward_frames=True, context="alloc"):
        gpu.alloc(MIB)
        assert mode == ([True, False] if noted else [False, True])
    assert mode == [False, True]
    assert ("2.12 or newer" in caplog.text) == (not noted)


def test_kinds_of_events_are_left_out_where_pytorch_can(
    gpu: FakeGpu, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given: list[Any] = []

    def record(enabled: str | None, skip_actions: list[str] | None = None) -> None:
        given.append(skip_actions)
        gpu._record(enabled)

    with snapreport.record(tmp_path, formats="pickle", skip_actions=["free_requested"]):
        gpu.alloc(MIB)
    assert "This PyTorch has no skip_actions" in caplog.text
    gpu.torch.cuda.memory._record_memory_history = record
    with snapreport.record(tmp_path, formats="pickle", skip_actions=["free_requested"]):
        gpu.alloc(MIB)
    assert given == [["free_requested"], None]
    with pytest.raises(ValueError, match="skip_actions"):  # reserved memory would be told wrong
        snapreport.record(tmp_path, skip_actions=["segment_alloc"])


def test_a_history_that_was_on_stays_on_and_is_not_in_the_files(
    gpu: FakeGpu, tmp_path: Path
) -> None:
    gpu.simulator.start_recording()
    gpu.alloc(5 * MIB)
    with snapreport.record(tmp_path, formats=["pickle"]):
        gpu.alloc(6 * MIB)
    assert gpu.simulator.recorder.on
    assert gpu.calls == []
    assert allocations(tmp_path / "1" / "snapshot.pickle") == [6 * MIB]
    device = snapreport.load(tmp_path / "1" / "snapshot.pickle").device()
    assert device.curve("requested").tolist()[0] == 5 * MIB


def test_a_recording_inside_another_has_its_own_part(gpu: FakeGpu, tmp_path: Path) -> None:
    with snapreport.record(tmp_path / "outer", formats=["pickle"]):
        gpu.alloc(5 * MIB)
        with snapreport.record(tmp_path / "inner", formats=["pickle"]):
            gpu.alloc(6 * MIB)
        assert gpu.simulator.recorder.on
        gpu.alloc(7 * MIB)
    assert not gpu.simulator.recorder.on
    assert allocations(tmp_path / "inner" / "1" / "snapshot.pickle") == [6 * MIB]
    assert allocations(tmp_path / "outer" / "1" / "snapshot.pickle") == [5 * MIB, 6 * MIB, 7 * MIB]


def test_the_outer_recording_may_end_first(gpu: FakeGpu, tmp_path: Path) -> None:
    outer = snapreport.record(tmp_path / "outer", formats=["pickle"]).start()
    inner = snapreport.record(tmp_path / "inner", formats=["pickle"]).start()
    gpu.alloc(MIB)
    outer.stop()
    assert gpu.simulator.recorder.on
    gpu.alloc(2 * MIB)
    inner.stop()
    assert not gpu.simulator.recorder.on
    assert allocations(inner.files["pickle"]) == [MIB, 2 * MIB]


def test_repeated_recordings_of_a_process_do_not_replace_each_other(
    gpu: FakeGpu, tmp_path: Path
) -> None:
    @snapreport.record(tmp_path, formats=["pickle", "md"])
    def step(size: int) -> str:
        """Do it."""
        gpu.alloc(size)
        return "done"

    assert step(MIB) == "done"
    assert step(2 * MIB) == "done"
    assert step.__doc__ == "Do it."
    assert names(tmp_path) == {"snapshot.pickle", "report.md"}
    assert allocations(tmp_path / "1" / "snapshot.pickle") == [MIB]
    assert allocations(tmp_path / "2" / "snapshot.pickle") == [2 * MIB]


def test_a_coroutine_is_recorded_until_it_is_done(gpu: FakeGpu, tmp_path: Path) -> None:
    @snapreport.record(tmp_path, formats=["pickle"])
    async def step() -> int:
        await asyncio.sleep(0)
        gpu.alloc(MIB)
        return 5

    # In a thread of its own: beside it a loop may be running, as a browser's tests leave one.
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(asyncio.run, step()).result() == 5
    assert allocations(tmp_path / "1" / "snapshot.pickle") == [MIB]


def test_a_generator_is_recorded_until_it_is_done(gpu: FakeGpu, tmp_path: Path) -> None:
    @snapreport.record(tmp_path, formats=["pickle"])
    def batches() -> Iterator[int]:
        gpu.alloc(MIB)
        yield 1
        gpu.alloc(3 * MIB)
        yield 2

    made = batches()
    assert not gpu.simulator.recorder.on
    assert list(made) == [1, 2]
    assert allocations(tmp_path / "1" / "snapshot.pickle") == [MIB, 3 * MIB]


def test_an_asynchronous_generator_is_refused_and_not_left_unrecorded(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="put `with"):

        @snapreport.record(tmp_path)
        async def batches() -> AsyncIterator[int]:
            yield 1


def test_start_and_stop_from_another_thread(gpu: FakeGpu, tmp_path: Path) -> None:
    snapreport.start(tmp_path, formats=["pickle"])
    thread = threading.Thread(target=lambda: (gpu.alloc(MIB), snapreport.stop()))
    thread.start()
    thread.join()
    assert allocations(tmp_path / "1" / "snapshot.pickle") == [MIB]
    with pytest.raises(snapreport.RecordingError, match="No recording is running"):
        snapreport.stop()


def test_marks_and_stages_are_in_the_files(gpu: FakeGpu, tmp_path: Path) -> None:
    snapreport.mark("before any recording")
    with snapreport.stage("likewise"), snapreport.record(tmp_path) as recording:
        gpu.alloc(MIB)
        with snapreport.stage("forward"):
            gpu.alloc(2 * MIB)
        snapreport.mark("epoch 1")
        recording.mark("epoch 2")
    stages = snapreport.load(tmp_path / "1" / "snap.zip").device().stages
    assert [stage.name for stage in stages] == ["forward", "epoch 1", "epoch 2"]
    assert re.search(
        r"Marks: `epoch 1 after [\d.]+ (?:µs|ms), epoch 2",
        (tmp_path / "1" / "report.md").read_text(),
    )
    marks = metadata(tmp_path / "1" / "snapshot.pickle")["marks"]
    assert [mark["name"] for mark in marks] == ["epoch 1", "epoch 2"]


def test_snapshots_at_chosen_steps_have_reports_of_their_own(gpu: FakeGpu, tmp_path: Path) -> None:
    plan = snapreport.schedule(skip=1, every=2, count=2)
    with snapreport.record(tmp_path, formats=["pickle", "md"], schedule=plan) as recording:
        for step in range(8):
            gpu.alloc((step + 1) * MIB)
            recording.step()
    assert names(tmp_path) == {
        f"{stem}{part}.{ending}"
        for stem, ending in (("snapshot", "pickle"), ("report", "md"))
        for part in ("", ".step1", ".step3")
    }
    assert allocations(recording.files["pickle.step3"]) == [MIB, 2 * MIB, 3 * MIB, 4 * MIB]
    assert len(allocations(recording.files["pickle"])) == 8


def test_a_schedule_takes_every_so_manyth_step() -> None:
    plan = snapreport.schedule(skip=3, every=4, count=2)
    assert [step for step in range(30) if plan.takes(step)] == [3, 7]
    with pytest.raises(ValueError, match="every must be 1 or more"):
        snapreport.schedule(every=0)


def test_ranks_have_files_of_their_own(
    gpu: FakeGpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "8")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("GROUP_RANK", "2")
    with snapreport.record(tmp_path, formats=["pickle", "html"], ranks=[3, 4]):
        gpu.alloc(MIB)
    assert names(tmp_path) == {"snapshot.rank3.pickle", "report.rank3.html"}
    noted = metadata(tmp_path / "1" / "snapshot.rank3.pickle")
    assert [noted[key] for key in ("world_size", "local_rank", "node")] == [8, 1, 2]


def test_a_rank_that_is_not_chosen_runs_without_recording(
    gpu: FakeGpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with snapreport.record(tmp_path / "out", ranks=0) as recording, snapreport.stage("forward"):
        recording.step()
        recording.mark("here")
        assert recording.snapshot("now") is None
        gpu.alloc(MIB)
    assert gpu.calls == []
    assert recording.files == {}
    assert not (tmp_path / "out").exists()


def test_metadata_has_devices_before_and_after(gpu: FakeGpu, tmp_path: Path) -> None:
    gpu.free(gpu.alloc(64 * MIB))
    with snapreport.record(tmp_path, formats=["pickle"]):
        gpu.alloc(32 * MIB)
    found = metadata(tmp_path / "1" / "snapshot.pickle")
    (device,) = found["devices"]
    assert (device["device"], device["name"], device["capacity"]) == ("cuda:0", "Fake H100", GIB)
    assert device["stats_before"]["allocated_bytes.all.peak"] == 64 * MIB
    assert "allocated_bytes.all.current" not in device["stats_before"]  # zeros are left out
    assert device["stats_after"]["allocated_bytes.all.current"] == 32 * MIB
    assert device["free_after"] == GIB - 64 * MIB
    assert found["torch"] == "2.99.0+fake"
    assert found["cuda"] == "12.9"
    assert found["started_us"] <= found["ended_us"]


def test_metadata_has_what_private_pools_reserve_and_how_many_requests_were_refused(
    gpu: FakeGpu, tmp_path: Path
) -> None:
    plain = gpu.torch.cuda.memory_stats
    pool = "reserved_bytes_by_private_pools.0_1"
    more = {
        f"{pool}.all.current": 20 * MIB, f"{pool}.all.allocated": 40 * MIB,
        f"{pool}.small_pool.current": MIB, "num_oom_rejections": 0,
    }  # fmt: skip
    gpu.torch.cuda.memory_stats = lambda device: {**plain(device), **more}
    with snapreport.record(tmp_path, formats=["pickle"]):
        gpu.alloc(32 * MIB)
        more["num_oom_rejections"] = 3
    path = tmp_path / "1" / "snapshot.pickle"
    stats = metadata(path)["devices"][0]["stats_after"]
    assert {name: stats[name] for name in stats if "private" in name} == {
        f"{pool}.all.current": 20 * MIB
    }
    (device,) = snapreport.load(path).findings().devices
    (warning,) = (each for each in device.warnings if each.code == "rejected-requests")
    assert warning.title == "PyTorch refused 3 requests because of throw_on_cudamalloc_oom"


def test_a_device_that_is_not_in_use_is_left_so(gpu: FakeGpu, tmp_path: Path) -> None:
    gpu.in_use = [False]
    gpu.torch.cuda.memory_stats = lambda _: {}
    with snapreport.record(tmp_path, formats=["pickle"]):
        pass
    assert gpu.in_use == [False]
    (device,) = metadata(tmp_path / "1" / "snapshot.pickle")["devices"]
    assert device["capacity"] == gpu.capacity
    assert device["free_before"] is None


def test_several_devices_are_recorded_together(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gpu = install(monkeypatch, FakeGpu(devices=2))
    with snapreport.record(tmp_path, formats=["pickle"]):
        gpu.alloc(MIB, device=0)
        gpu.alloc(2 * MIB, device=1)
    loaded = snapreport.load(tmp_path / "1" / "snapshot.pickle")
    assert [device.device.ordinal for device in loaded.devices] == [0, 1]
    assert [row["device"] for row in metadata(tmp_path / "1" / "snapshot.pickle")["devices"]] == [
        "cuda:0",
        "cuda:1",
    ]


def test_a_forked_child_does_not_write_its_parents_files(gpu: FakeGpu, tmp_path: Path) -> None:
    if not hasattr(os, "fork"):
        pytest.skip("this system cannot fork")
    with snapreport.record(tmp_path, formats=["pickle"]):
        gpu.alloc(MIB)
        child = multiprocessing.get_context("fork").Process(target=_exit_as_a_worker)
        child.start()
        child.join()
        assert child.exitcode == 0
        assert names(tmp_path) == set()
    assert names(tmp_path) == {"snapshot.pickle"}


def _exit_as_a_worker() -> None:
    with pytest.raises(snapreport.RecordingError):
        snapreport.stop()


@pytest.mark.parametrize(
    "arguments",
    [
        {"stacks": "c++"},
        {"context": "some"},
        {"max_entries": 1},
        {"formats": ["pdf"]},
        {"formats": []},
    ],
)
def test_an_argument_that_cannot_be_is_refused(arguments: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="|".join(arguments)):
        snapreport.record(tmp_path, **arguments)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_recording_of_few_events_or_none_is_a_history(
    gpu: FakeGpu, tmp_path: Path, count: int
) -> None:
    with snapreport.record(tmp_path, formats=["pickle"]) as recording:
        for _ in range(count):
            gpu.alloc(MIB)
    verdict = snapreport.check(recording.files["pickle"], max_peak=2 * MIB)
    assert verdict.passed, verdict.failures
    (device,) = snapreport.load(recording.files["pickle"]).findings().devices
    assert "no-history" not in [each.code for each in device.warnings]


def test_one_event_of_a_recording_that_was_joined_may_be_all_that_was_kept(
    gpu: FakeGpu, tmp_path: Path
) -> None:
    gpu.simulator.start_recording("state", "all", 100)
    with snapreport.record(tmp_path, formats=["pickle"]) as recording:
        gpu.alloc(MIB)
    (check,) = snapreport.check(recording.files["pickle"], max_peak=2 * MIB).checks
    assert check.outcome == "unknown"
