"""Recording this process's CPU memory while it runs."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import snapreport
from snapreport.ground.errors import RecordingError
from snapreport.history.build import build_history
from snapreport.model.history import DeviceHistory
from snapreport.read import read_bytes
from snapreport.recorders import cpu as module
from snapreport.recorders.cpu import CpuRecorder
from snapreport.recorders.recorder import Options, Recorder
from tests.needed import needed

torch = needed("torch")

KIB = 1024


@pytest.fixture
def recorder() -> Iterator[CpuRecorder]:
    made = CpuRecorder(Options())
    yield made
    made.stop()
    assert not torch._C._autograd._profiler_enabled()


def kibibytes(n: int) -> Any:
    return torch.empty(n * KIB, dtype=torch.uint8)


def cpu(recorder: Recorder) -> DeviceHistory:
    file = build_history(read_bytes(pickle.dumps(recorder.snapshot(), 4), "here"))
    (device,) = file.devices
    assert str(device.device) == "cpu:0"
    assert file.oddities == {}
    return device


def test_it_is_a_recorder() -> None:
    recorder: Recorder = CpuRecorder()
    assert recorder.kind == "cpu"


def test_what_was_made_between_start_and_stop_is_in_the_snapshot(recorder: CpuRecorder) -> None:
    before = kibibytes(3)
    recorder.start()
    inside = kibibytes(5)
    recorder.stop()
    after = kibibytes(7)
    assert cpu(recorder).allocations.size.tolist() == [5 * KIB]
    del before, inside, after


def test_a_snapshot_while_recording_goes_on_and_the_next_holds_both_parts(
    recorder: CpuRecorder,
) -> None:
    recorder.start()
    first = kibibytes(5)
    assert cpu(recorder).allocations.size.tolist() == [5 * KIB]
    second = kibibytes(7)
    del first
    device = cpu(recorder)
    assert device.allocations.size.tolist() == [5 * KIB, 7 * KIB]
    # The free is seen though the profiler was off in between.
    assert (device.allocations.free_event < device.events).tolist() == [True, False]
    recorder.stop()
    assert cpu(recorder).allocations.size.tolist() == [5 * KIB, 7 * KIB]
    del second


def test_a_stage_holds_what_happens_in_it_even_across_a_snapshot(recorder: CpuRecorder) -> None:
    recorder.start()
    kept = [kibibytes(1)]
    with recorder.stage("outer"):
        kept.append(kibibytes(2))
        recorder.snapshot()
        with recorder.stage("inner"):
            kept.append(kibibytes(3))
    kept.append(kibibytes(4))
    recorder.stop()
    device = cpu(recorder)
    stages = device.stages
    assert stages.name == ["outer", "inner"]
    assert stages.parent.tolist() == [-1, 0]
    assert device.allocations.size.tolist() == [KIB, 2 * KIB, 3 * KIB, 4 * KIB]
    assert stages.start_event.tolist() == [1, 2]
    assert stages.end_event.tolist() == [3, 3]


def test_a_stage_that_fails_ends_there_and_passes_the_error_on(recorder: CpuRecorder) -> None:
    recorder.start()
    kept = [kibibytes(1)]
    with pytest.raises(KeyError), recorder.stage("broken"):
        raise KeyError
    kept.append(kibibytes(2))
    recorder.stop()
    assert cpu(recorder).stages.end_event.tolist() == [1]
    del kept


def test_marks_are_in_the_snapshot(recorder: CpuRecorder) -> None:
    recorder.start()
    recorder.mark("epoch 1")
    recorder.stop()
    (mark,) = recorder.snapshot()["snapreport"]["marks"]
    assert mark["name"] == "epoch 1"
    assert mark["time_us"] > 1_600_000_000_000_000


def test_a_recording_inside_a_recording_shares_the_profiler(recorder: CpuRecorder) -> None:
    recorder.start()
    kept = [kibibytes(1)]
    inner = CpuRecorder()
    with recorder.stage("before"):
        pass
    inner.start()
    with inner.stage("both"):
        kept.append(kibibytes(2))
    inner.stop()
    inner.stop()
    kept.append(kibibytes(3))
    recorder.stop()
    assert cpu(inner).allocations.size.tolist() == [2 * KIB]
    assert cpu(inner).stages.name == ["both"]
    assert cpu(recorder).allocations.size.tolist() == [KIB, 2 * KIB, 3 * KIB]
    assert cpu(recorder).stages.name == ["before", "both"]


def test_a_recorder_can_be_started_again(recorder: CpuRecorder) -> None:
    recorder.start()
    recorder.stop()
    recorder.start()
    kept = kibibytes(2)
    recorder.stop()
    assert cpu(recorder).allocations.size.tolist() == [2 * KIB]
    del kept


def test_a_profiler_that_is_on_is_left_alone() -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        with pytest.raises(RecordingError, match="from_profile"):
            CpuRecorder().start()
        torch.ones(3)
    assert "aten::ones" in {event.key for event in profile.key_averages()}


def test_a_second_thread_is_refused_as_two_profilers_would_end_the_process(
    recorder: CpuRecorder,
) -> None:
    recorder.start()
    said: list[str] = []

    def second() -> None:
        try:
            CpuRecorder().start()
        except RecordingError as error:
            said.append(str(error))

    thread = threading.Thread(target=second)
    thread.start()
    thread.join()
    (message,) = said
    assert message == (
        "Another thread is already recording the CPU's memory; PyTorch can record only one thread"
        " at a time."
    )
    inside = kibibytes(5)
    recorder.stop()
    assert cpu(recorder).allocations.size.tolist() == [5 * KIB]
    del inside


def test_a_profiler_of_another_thread_is_left_alone() -> None:
    said: list[str] = []

    def second() -> None:
        try:
            CpuRecorder().start()
        except RecordingError as error:
            said.append(str(error))

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert "from_profile" in said[0]


def test_only_its_own_thread_reads_it_and_stages_come_from_any(recorder: CpuRecorder) -> None:
    recorder.start()
    problems: list[str] = []

    def elsewhere() -> None:
        with recorder.stage("helper"):
            pass
        for act in (recorder.snapshot, recorder.stop):
            try:
                act()
            except RecordingError as error:
                problems.append(str(error))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    kept = kibibytes(2)
    recorder.stop()
    assert len(problems) == 2
    assert "thread" in problems[0]
    device = cpu(recorder)
    assert device.stages.name == ["helper"]
    assert device.allocations.size.tolist() == [2 * KIB]
    del kept


def test_without_a_start_there_is_no_snapshot() -> None:
    with pytest.raises(RecordingError, match="start"):
        CpuRecorder().snapshot()
    CpuRecorder().stop()


def test_context_none_leaves_python_out() -> None:
    recorder = CpuRecorder(Options(context="none"))
    recorder.start()
    kept = kibibytes(2)
    recorder.stop()
    (row,) = recorder.snapshot()["device_traces"][-1]
    assert [frame["name"] for frame in row["frames"]] == ["aten::empty"]
    del kept


def test_an_empty_recording_is_one_of_the_cpu(recorder: CpuRecorder) -> None:
    recorder.start()
    recorder.stop()
    assert cpu(recorder).events == 0


def test_the_machine_is_described() -> None:
    (device,) = CpuRecorder().devices()
    assert device["device"] == "cpu:0"
    assert 0 < device["free"] <= device["total"]


def test_a_recording_that_ends_is_read_once_and_does_not_record_its_own_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[object] = []
    begin = module._Session.begin

    def counted(session: Any) -> None:
        begun.append(session)
        begin(session)

    monkeypatch.setattr(module._Session, "begin", counted)
    with snapreport.record(tmp_path, formats=["pickle"], quiet=True) as recording:
        kept = kibibytes(5)
    assert len(begun) == 1
    (device,) = snapreport.load(recording.files["pickle"]).devices
    assert device.allocations.size.tolist() == [5 * KIB]
    del kept
