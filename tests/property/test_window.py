"""A recording that was cut says nothing that the whole recording would contradict."""

from __future__ import annotations

from typing import Any

from snapreport.model.findings import DeviceFigures, StageUse
from tests.builders import history_of
from tests.property.simulated import Simulated, figures_of, for_simulations

FIGURES = ("start_bytes", "end_bytes", "peak_bytes", "change", "allocations", "allocated_bytes")


def without_first_events(snapshot: dict[str, Any], count: int) -> dict[str, Any]:
    """Return the snapshot as a ring that lost its first events would have it."""
    return {**snapshot, "device_traces": [each[count:] for each in snapshot["device_traces"]]}


def known(stage: StageUse) -> dict[str, int]:
    """Return the figures that claim to be those of the whole stage."""
    if stage.cut in ("start", "both"):  # of the recorded part, but for the end
        return {} if stage.end_bytes is None else {"end_bytes": stage.end_bytes}
    return {name: getattr(stage, name) for name in FIGURES}


@for_simulations(100)
def test_stage_figures_of_a_cut_recording_are_those_of_the_whole(simulation: Simulated) -> None:
    snapshot = simulation.snapshot()
    for count in (1, 10, 40):
        cut = figures_of(history_of(without_first_events(snapshot, count)))
        for full, part in zip(simulation.figures, cut, strict=True):
            assert_no_contradiction(full, part)


def assert_no_contradiction(full: DeviceFigures, part: DeviceFigures) -> None:
    if full.inferred_blocks or part.inferred_blocks:
        return  # lower bounds may differ: a longer recording knows more
    whole = {(s.name, s.start_time_us, s.end_time_us): s for s in full.stages}
    for stage in part.stages:
        truth = whole[stage.name, stage.start_time_us, stage.end_time_us]
        for name, value in known(stage).items():
            assert value == getattr(truth, name), (stage.name, name)
