"""record() when things go wrong: the program's errors, out of memory, and our own troubles."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

import pytest

import snapreport
from tests.recording.fake_torch import GIB, FakeGpu, OutOfMemoryError
from tests.recording.folders import ALL, MIB, metadata, names


def test_an_exception_goes_its_way_with_a_note(gpu: FakeGpu, tmp_path: Path) -> None:
    error = ValueError("the user's")
    with pytest.raises(ValueError, match="the user's") as caught, snapreport.record(tmp_path):
        gpu.alloc(MIB)
        raise error
    assert caught.value is error
    assert error.__cause__ is None
    assert error.__context__ is None
    assert names(tmp_path) == ALL
    if sys.version_info >= (3, 11):
        assert error.__notes__ == [
            f"snapreport: what held the memory is in {tmp_path / '1' / 'report.html'}"
        ]
    assert metadata(tmp_path / "1" / "snapshot.pickle")["failure"] == {
        "type": "ValueError",
        "message": "the user's",
        "step": None,
        "cpu_request": None,
        "place": "test_an_exception_goes_its_way_with_a_note (test_record_failures.py:21)",
    }


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), SystemExit(0)])
def test_ctrl_c_and_exit_leave_the_files_too(
    gpu: FakeGpu, tmp_path: Path, error: BaseException
) -> None:
    with pytest.raises(type(error)) as caught, snapreport.record(tmp_path):
        gpu.alloc(MIB)
        raise error
    assert caught.value is error
    assert names(tmp_path) == ALL
    failure = metadata(tmp_path / "1" / "snapshot.pickle")["failure"]
    assert (failure is None) == (isinstance(error, SystemExit) and error.code == 0)


def test_out_of_memory_is_recorded_at_the_moment_of_failure(gpu: FakeGpu, tmp_path: Path) -> None:
    with pytest.raises(OutOfMemoryError) as caught, snapreport.record(tmp_path):
        held = gpu.alloc(600 * MIB, line=5)
        try:
            gpu.alloc(800 * MIB, line=6)
        finally:
            gpu.free(held)  # as unwinding does
    assert names(tmp_path) == ALL
    device = snapreport.load(tmp_path / "1" / "snap.zip").device()
    assert int(device.curve("allocated")[-1]) == 600 * MIB
    assert "oom" in device.history.other.action
    failure = metadata(tmp_path / "1" / "snapshot.pickle")["failure"]
    assert failure["type"] == "torch.OutOfMemoryError"
    assert "800.0 MiB on cuda:0" in failure["message"]
    if sys.version_info >= (3, 11):
        assert "report.html" in caught.value.__notes__[0]


def test_an_out_of_memory_error_under_another_one_counts(gpu: FakeGpu, tmp_path: Path) -> None:
    with pytest.raises(KeyError), snapreport.record(tmp_path, formats=["pickle"]):
        held = gpu.alloc(600 * MIB)
        try:
            gpu.alloc(GIB)
        except OutOfMemoryError as error:
            gpu.free(held)
            raise KeyError("compiled") from error
    device = snapreport.load(tmp_path / "1" / "snapshot.pickle").device()
    assert int(device.curve("allocated")[-1]) == 600 * MIB


def test_an_out_of_memory_error_that_is_caught_stays_beside_the_last_snapshot(
    gpu: FakeGpu, tmp_path: Path
) -> None:
    told: list[Path] = []
    with snapreport.record(tmp_path, formats=["pickle"], on_oom=told.append):
        held = gpu.alloc(600 * MIB)
        for _ in range(50):  # a search for the largest batch: time is not to go into snapshots
            with pytest.raises(OutOfMemoryError):
                gpu.alloc(GIB)
        gpu.free(held)
    assert told[0] == tmp_path / "1" / "snapshot.oom.pickle"
    assert len(told) < 20
    assert names(tmp_path) == {"snapshot.oom.pickle", "snapshot.pickle"}
    assert (
        int(snapreport.load(tmp_path / "1" / "snapshot.pickle").device().curve("allocated")[-1])
        == 0
    )


def test_a_second_try_that_fails_at_once_is_recorded_at_its_moment_too(
    gpu: FakeGpu, tmp_path: Path
) -> None:
    with pytest.raises(OutOfMemoryError), snapreport.record(tmp_path, formats=["pickle"]):
        held = gpu.alloc(600 * MIB)
        with pytest.raises(OutOfMemoryError):
            gpu.alloc(GIB)
        gpu.free(gpu.alloc(MIB))  # and empty_cache()
        try:
            gpu.alloc(GIB)
        finally:
            gpu.free(held)
    assert names(tmp_path) == {"snapshot.pickle"}
    device = snapreport.load(tmp_path / "1" / "snapshot.pickle").device()
    assert int(device.curve("allocated")[-1]) == 600 * MIB
    assert device.history.other.action.count("oom") == 2


def test_what_fails_in_the_observer_does_not_replace_the_error(
    gpu: FakeGpu, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Path) -> None:
        raise ZeroDivisionError

    with (
        pytest.raises(OutOfMemoryError),
        snapreport.record(tmp_path, formats=["pickle"], on_oom=fail),
    ):
        gpu.alloc(2 * GIB)
    assert "could not be written" in caplog.text


def test_a_full_disk_is_a_warning_and_no_error(
    gpu: FakeGpu,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    from snapreport.recorders import session

    def full(*_: object) -> None:
        raise snapreport.OutputError(f"{tmp_path} cannot be written: No space left on device.")

    monkeypatch.setattr(session, "_dump", full)
    with snapreport.record(tmp_path) as recording:
        gpu.alloc(MIB)
    assert recording.files == {}
    assert "No space left on device" in caplog.text
    assert not gpu.simulator.recorder.on
    with pytest.raises(ValueError, match="mine"), snapreport.record(tmp_path):
        raise ValueError("mine")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_write_that_fails_half_way_leaves_nothing_behind(
    gpu: FakeGpu, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with snapreport.record(tmp_path) as recording:
        (recording.folder / "snapshot.pickle").symlink_to("/dev/full")
        for _ in range(3000):
            gpu.free(gpu.alloc(MIB))
    assert "No space left" in caplog.text
    assert names(tmp_path) == {"snapshot.pickle"}


def test_a_report_that_fails_leaves_the_snapshot(
    gpu: FakeGpu,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("snapreport.api.recording.save_bundle", fail)
    with snapreport.record(tmp_path) as recording:
        gpu.alloc(MIB)
    assert set(recording.files) == {"pickle", "html", "md"}
    assert f"snapreport render {tmp_path / '1' / 'snapshot.pickle'}" in caplog.text


def test_a_folder_that_cannot_be_is_said_before_the_program_runs(
    gpu: FakeGpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    ran = []
    for folder in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / ("x" * 300)):
        with (
            pytest.raises(snapreport.OutputError, match="name a"),
            snapreport.record(folder),
        ):
            ran.append(folder)
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    with (
        pytest.raises(snapreport.OutputError, match="cannot be written to"),
        snapreport.record(tmp_path / "readonly"),
    ):
        ran.append(tmp_path)
    assert not ran
    assert not gpu.simulator.recorder.on


def test_names_of_c_frames_need_no_other_program(
    gpu: FakeGpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[str | None] = []
    snapshot = gpu.torch.cuda.memory._snapshot

    def note_and_take() -> object:
        modes.append(os.environ.get("TORCH_SYMBOLIZE_MODE"))
        return snapshot()

    gpu.torch.cuda.memory._snapshot = note_and_take
    monkeypatch.delenv("TORCH_SYMBOLIZE_MODE", raising=False)
    monkeypatch.delenv("TORCH_DISABLE_ADDR2LINE", raising=False)
    with snapreport.record(tmp_path, formats=["pickle"]):
        gpu.alloc(MIB)
    assert "TORCH_SYMBOLIZE_MODE" not in os.environ
    monkeypatch.setenv("TORCH_SYMBOLIZE_MODE", "addr2line")  # the user's choice stays
    with snapreport.record(tmp_path, formats=["pickle"]):
        gpu.alloc(MIB)
    assert modes == ["fast", "addr2line"]
    assert "TORCH_DISABLE_ADDR2LINE" not in os.environ


def test_without_torch_it_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in [each for each in sys.modules if each.split(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(snapreport.RecordingError, match="pip install torch"):
        snapreport.start(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_allocator_without_history_is_named(gpu: FakeGpu, tmp_path: Path) -> None:
    gpu.torch.cuda.memory.get_allocator_backend = lambda: "cudaMallocAsync"
    with pytest.raises(snapreport.RecordingError, match="cudaMallocAsync allocator keeps no"):
        snapreport.start(tmp_path)


def test_a_build_without_history_is_an_error_of_ours(gpu: FakeGpu, tmp_path: Path) -> None:
    def refuse(**_: object) -> None:
        raise RuntimeError("record_context_cpp is not supported\nC++ stack")

    gpu.torch.cuda.memory._record_memory_history = refuse
    with pytest.raises(snapreport.RecordingError, match=r"not supported$"):
        snapreport.start(tmp_path)
    with pytest.raises(snapreport.RecordingError, match="No recording is running"):
        snapreport.stop()


def test_what_is_wrong_later_is_logged_once(
    gpu: FakeGpu, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with snapreport.record(tmp_path, formats=["pickle"]):
        gpu.torch.cuda.memory._snapshot = lambda: 1 / 0
    assert len(caplog.records) == 1
    assert not gpu.simulator.recorder.on


def test_a_history_that_the_program_switches_off_is_said(
    gpu: FakeGpu, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with snapreport.record(tmp_path, formats=["pickle"]) as recording:
        gpu.torch.cuda.memory._record_memory_history(None)
    assert "switched PyTorch's memory history off" in caplog.text
    assert "pickle" in recording.files


def test_an_error_that_cannot_be_printed_is_no_trouble(gpu: FakeGpu, tmp_path: Path) -> None:
    class SilentError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    with pytest.raises(SilentError), snapreport.record(tmp_path, formats=["pickle"]):
        with pytest.raises(OutOfMemoryError):
            gpu.alloc(2 * GIB)
        raise SilentError
    assert metadata(tmp_path / "1" / "snapshot.pickle")["failure"]["message"] == ""
