"""What ``dev.benchmarks.gpu_settings`` tells and compares, with the simulator as the GPU."""

from __future__ import annotations

import pickle
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import snapreport
from dev.benchmarks import gpu_settings
from dev.benchmarks.gpu_settings import Measured, compare, line
from tests.counterfactuals import simulated
from tests.scripts import AMPLE, Kind, Script, draw_script, run


@pytest.fixture
def script() -> Script:
    return draw_script(3, Kind(empties=False))


def recorded(script: Script, folder: Path) -> snapreport.Device:
    path = folder / "snapshot.pickle"
    path.write_bytes(pickle.dumps(run(script, simulated("default")).simulator.snapshot(), 4))
    return snapreport.load(path).device("cuda:0")


def test_what_is_told_is_what_a_simulated_gpu_does(script: Script, tmp_path: Path) -> None:
    def measure(settings: str, limit: int | None) -> Measured:
        done = run(script, simulated(settings or "default"), AMPLE, (limit or 0) / AMPLE)
        return Measured(done.peak, not done.failed)

    rows = list(compare(recorded(script, tmp_path), measure))
    assert [row.settings for row in rows] == list(gpu_settings.SETTINGS)
    assert all(row.well for row in rows), "\n".join(map(line, rows))
    assert len({row.capacity.most for row in rows}) > 2


def test_a_gpu_that_does_otherwise_is_found(script: Script, tmp_path: Path) -> None:
    device = recorded(script, tmp_path)
    row = next(compare(device, lambda *_: Measured(1, served=True)))
    assert not row.well
    assert "<- not as predicted" in line(row)
    assert replace(row, reserved=row.peak.least, below=False).well


def test_without_a_gpu_it_says_so_with_a_status_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["gpu_settings"])
    monkeypatch.setattr(gpu_settings, "why_not", lambda: "there is no GPU")
    assert gpu_settings.main() == 77
    assert capsys.readouterr().out == "gpu-settings: skipped, there is no GPU.\n"
