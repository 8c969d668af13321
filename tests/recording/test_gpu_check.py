"""What ``make gpu-check`` compares, on a simulated GPU."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

import snapreport
from dev.benchmarks.gpu_check import CURVES, SKIPPED, SNAPSHOT, differences
from dev.benchmarks.gpu_programs import CASES, Case
from tests.conftest import REPOSITORY
from tests.recording import ready
from tests.recording.fake_torch import FakeGpu
from tests.recording.folders import MIB


def recorded(gpu: FakeGpu, folder: Path, **wrong: int) -> Path:
    """Record something, and leave the simulated counters where the check looks for PyTorch's."""
    with snapreport.record(folder) as recording:
        held = [gpu.alloc(5 * MIB + 100 * i) for i in range(8)]
        for block in held[::2]:
            gpu.free(block)
        truth = gpu.simulator.truth()
    stats = {}
    for curve, counter in CURVES.items():
        values = getattr(truth, curve)
        stats[f"{counter}.peak"] = int(values.max())
        stats[f"{counter}.current"] = int(values[-1])
    expected = {"stats": stats | wrong, "ended": "as it should"}
    (recording.folder / "expected.json").write_bytes(orjson.dumps(expected))
    return recording.folder


def test_counters_that_agree_are_no_difference(gpu: FakeGpu, tmp_path: Path) -> None:
    assert differences(CASES["churn"], recorded(gpu, tmp_path)) == []


def test_a_byte_of_difference_is_found(gpu: FakeGpu, tmp_path: Path) -> None:
    folder = recorded(gpu, tmp_path, **{"allocated_bytes.all.peak": 1})
    found = differences(CASES["churn"], folder)
    assert [line.split(":")[0] for line in found] == [SNAPSHOT, "snap.zip"]
    assert "allocated peak" in found[0]


def test_a_program_that_should_fail_and_does_not_is_found(gpu: FakeGpu, tmp_path: Path) -> None:
    found = differences(Case(CASES["churn"].program, fails=True), recorded(gpu, tmp_path))
    assert "it ended as it should, not out of memory" in found
    assert any("no failed request" in line for line in found)


def test_a_recording_without_what_its_program_is_for_is_found(gpu: FakeGpu, tmp_path: Path) -> None:
    folder = recorded(gpu, tmp_path)
    shown = ("started_late", "compiled", "cuda_graph", "two_streams", "expandable_churn")
    for name in shown:
        found = differences(CASES[name], folder)
        assert found, name
        assert all("does not show what it is for" in line for line in found)
    assert differences(CASES["churn"], folder) == []


@pytest.mark.parametrize(
    ("sample", "program"),
    [
        ("private_pool.json", "cuda_graph"),
        ("two_streams.pickle", "two_streams"),
        ("expandable_segments.pickle.zst", "expandable_segments"),
    ],
)
def test_what_a_program_is_for_is_found_in_a_sample_of_it(sample: str, program: str) -> None:
    snapshot = snapreport.load(REPOSITORY / "sample_snapshots" / sample)
    shows = CASES[program].shows
    assert shows is not None
    assert shows(snapshot.device().history)


def test_a_file_that_was_not_written_is_found(gpu: FakeGpu, tmp_path: Path) -> None:
    folder = recorded(gpu, tmp_path)
    (folder / "snap.zip").unlink()
    assert differences(CASES["churn"], folder) == ["no snap.zip"]


def test_without_a_gpu_it_says_so_with_a_status_of_its_own() -> None:
    result = ready.run(["-m", "dev.benchmarks.gpu_check"], REPOSITORY, {})
    assert result.returncode == SKIPPED == 77
    assert result.stdout.startswith("gpu-check: skipped, ")
