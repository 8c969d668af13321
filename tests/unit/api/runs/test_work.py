"""What is kept of each file for its run."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from snapreport.api.loading import load
from snapreport.api.runs.many_files import gather
from snapreport.model.findings import Findings
from snapreport.model.run import DeviceFacts
from tests.builders import MIB, trace
from tests.diseases import at, fail, start
from tests.programs import Plan, Program, figures, leaks, of_code


def rank_devices(findings: Findings) -> tuple[DeviceFacts, ...]:
    return gather(findings).devices


def rows(folder: Path, snapshot: object) -> list[tuple[str, int, bool]]:
    (folder / "snap.pickle").write_bytes(pickle.dumps(snapshot))
    devices = rank_devices(load(folder / "snap.pickle").findings())
    return [(each.device, each.place, each.opens) for each in devices]


def test_the_growth_is_what_the_leak_adds_in_a_step(tmp_path: Path) -> None:
    program = Program(Plan(0, each=leaks(3 * MIB))).run()
    (tmp_path / "snap.pickle").write_bytes(pickle.dumps(program.simulator.snapshot()))
    (device,) = rank_devices(load(tmp_path / "snap.pickle").findings())
    said = figures(of_code(program.analysed(), "leak"))["growth per step"]
    (leak,) = [each for each in device.findings if each.code == "leak"]
    assert leak.growth == said
    assert leak.severity != "note"


def test_a_failed_request_leads(tmp_path: Path) -> None:
    made = start()
    at(made, "hold")
    made.malloc(600 * MIB)
    snapshot = fail(made, 700 * MIB).snapshot()
    (tmp_path / "snap.pickle").write_bytes(pickle.dumps(snapshot))
    (device,) = rank_devices(load(tmp_path / "snap.pickle").findings())
    (failed,) = device.failed
    assert (failed.size, device.findings[0].code) == (700 * MIB, "oom")
    assert device.allocated == 600 * MIB


def test_the_reserved_peak_is_its_own(samples: Path) -> None:
    (device,) = rank_devices(load(samples / "training_step.pickle").findings())
    peaks = load(samples / "training_step.pickle").device().peaks
    assert (device.allocated, device.reserved) == (
        peaks["allocated"].bytes,
        peaks["reserved"].bytes,
    )
    assert peaks["reserved"].event != peaks["allocated"].event


def test_devices_without_anything_are_left_out(tmp_path: Path) -> None:
    used = trace(1).alloc("a", MIB).free("a").snapshot()
    assert rows(tmp_path, used) == [("cuda:1", 1, True)]
    assert rows(tmp_path, {"segments": [], "device_traces": [[], []]}) == [("cuda:0", 0, True)]


def test_a_bug_is_an_outcome_with_its_traceback_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from snapreport.api.runs.many_files import Task, run_task
    from snapreport.ground.progress import silent

    def wrong(*_: object, **__: object) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr("snapreport.api.making.convert", wrong)
    outcome = run_task(Task("convert", Path("a.pickle"), tmp_path / "a.zip", {}), silent)
    assert outcome.path is None
    assert outcome.error == "a.pickle meets an error in snapreport: ZeroDivisionError: by nothing."
    assert "Traceback" in caplog.text
