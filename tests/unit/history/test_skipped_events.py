"""What a recording with skip_actions is known to have left out, and what is then not shown."""

from __future__ import annotations

from typing import Any

import pytest

from dev.simulator import Simulator
from dev.simulator.layouts import without_actions
from snapreport.diagnosis.conclude import find
from snapreport.model.findings import DeviceFindings
from tests.builders import MIB, frame, history_of
from tests.programs import of_code


@pytest.fixture
def snapshot() -> dict[str, Any]:
    """Steps that reuse addresses, and a segment that is given back and got again."""
    made = Simulator()
    made.start_recording()
    made.set_stack([frame("step", "train.py", 3)])
    made.malloc(4 * MIB)
    for _ in range(3):
        large = made.malloc(40 * MIB)
        made.free(made.malloc(8 * MIB))
        made.free(large)
        made.empty_cache()
    made.malloc(30 * MIB)
    return made.snapshot()


def told(snapshot: dict[str, Any], *skipped: str) -> DeviceFindings:
    (device,) = find(history_of(without_actions(snapshot, *skipped))).devices
    assert device.history.skipped == skipped
    return device


def test_a_complete_recording_leaves_nothing_out(snapshot: dict[str, Any]) -> None:
    device = told(snapshot)
    assert "skipped-actions" not in {each.code for each in device.warnings}
    assert {each.bound for each in device.peaks.values()} == {""}


def test_without_one_kind_of_free_the_curves_that_fall_there_are_bounds(
    snapshot: dict[str, Any],
) -> None:
    whole = told(snapshot)
    device = told(snapshot, "free_requested")
    assert {name: each.bound for name, each in device.peaks.items()} == {
        "requested": "", "allocated": "most", "active": "", "reserved": "",
    }  # fmt: skip
    assert device.peak.allocated == whole.peak.allocated
    assert of_code(device, "skipped-actions").title == (
        "The recording left out every free_requested event: allocated memory may have fallen"
        " earlier than shown"
    )
    device = told(snapshot, "free_completed")
    assert {name for name, each in device.peaks.items() if each.bound == "least"} == {
        "requested", "active",
    }  # fmt: skip


@pytest.mark.parametrize("skipped", [("alloc",), ("free_requested", "free_completed")])
def test_without_one_side_of_all_pairs_only_the_final_state_is_told(
    snapshot: dict[str, Any], skipped: tuple[str, ...]
) -> None:
    device = told(snapshot, *skipped)
    assert not device.recorded
    assert device.history.events == 0
    assert device.peak.allocated == device.end.allocated == 34 * MIB
    assert device.closing is not None
    assert device.closing.closes
    assert device.trust.verdict == "no history"
    assert of_code(device, "skipped-actions").severity == "warning"
    assert "left out every" in of_code(device, "no-history").explanation


@pytest.mark.parametrize(
    "skipped", [("segment_alloc",), ("segment_free",)], ids=["made", "returned"]
)
def test_without_events_of_segments_no_reserved_bytes_are_told(
    snapshot: dict[str, Any], skipped: tuple[str, ...]
) -> None:
    device = told(snapshot, *skipped)
    assert "reserved" not in device.peaks
    assert device.peak.reserved is None
    assert device.end.reserved == device.history.segments.size.sum()
    assert device.peak.allocated == told(snapshot).peak.allocated
    title = of_code(device, "skipped-actions").title
    assert title.endswith("reserved memory is not known before the end")
    assert "no-allocator" not in {each.code for each in device.warnings}


def test_a_recording_that_began_late_is_not_said_to_leave_segments_out() -> None:
    made = Simulator()
    kept = made.malloc(4 * MIB)
    made.start_recording()
    made.set_stack([frame("step", "train.py", 3)])
    made.malloc(8 * MIB)  # fits into the segment that is there
    made.free(kept)
    (device,) = find(history_of(made.snapshot())).devices
    assert device.history.skipped == ()
    assert device.peak.reserved == 20 * MIB
