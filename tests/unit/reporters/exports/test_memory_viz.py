"""PyTorch's own viewer takes the pickles that we write; it needs torch, which few have here."""

from __future__ import annotations

import pickle
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import snapreport

SAMPLES = ["training_step.pickle", "three_devices.pickle", "expandable_segments.pickle.zst"]


@pytest.fixture(scope="module")
def memory_viz() -> ModuleType:
    reason = "torch is not installed: its viewer was NOT asked"
    module: ModuleType = pytest.importorskip("torch.cuda._memory_viz", reason=reason)
    return module


@pytest.mark.parametrize("by_bundle", [False, True], ids=["as recorded", "rebuilt"])
@pytest.mark.parametrize("name", SAMPLES)
def test_memory_viz_reads_a_pickle_as_it_reads_the_original(
    memory_viz: ModuleType, samples: Path, tmp_path: Path, name: str, by_bundle: bool
) -> None:
    source = samples / name
    if by_bundle:
        source = snapreport.convert(source, tmp_path / "snap.zip")
    ours = pickle.loads(snapreport.export(source, "pickle", tmp_path / "ours").read_bytes())
    recorded = snapreport.export(samples / name, "json", tmp_path / "recorded.json")
    import orjson

    original: dict[str, Any] = orjson.loads(recorded.read_bytes())
    assert memory_viz.segsum(ours) == memory_viz.segsum(original)
    for device in range(len(original["device_traces"])):
        one = {**ours, "device_traces": [ours["device_traces"][device]]}
        other = {**original, "device_traces": [original["device_traces"][device]]}
        told, expected = memory_viz.trace(one), memory_viz.trace(other)
        if by_bundle:  # it prints unknown events as they are, with keys that say nothing
            assert told.splitlines()[-1:] == expected.splitlines()[-1:]
            assert told.count("\n") == expected.count("\n")
        else:
            assert told == expected
    for page in (memory_viz.trace_plot(ours), memory_viz.segment_plot(ours)):
        assert "<script" in page
