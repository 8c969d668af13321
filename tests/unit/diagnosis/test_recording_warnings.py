"""Each warning comes for its case, and none of them for a sound recording."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dev.simulator import layouts
from snapreport.diagnosis.conclude import find, find_figures
from snapreport.diagnosis.recording_warnings import device_warnings
from snapreport.model.diagnoses import SEVERITIES
from snapreport.model.findings import Findings
from snapreport.model.roles import ROLES
from tests.builders import BASE, MIB, TraceBuilder, frame, history_of, trace
from tests.programs import of_code

F: dict[str, Any] = {"frames": [frame("f")]}


def sound() -> TraceBuilder:
    """A segment, a block that stays and one that goes, all of it recorded with stacks."""
    return (
        trace()
        .event("segment_alloc", addr=BASE, size=20 * MIB)
        .alloc(BASE, 4 * MIB, **F)
        .alloc(BASE + 4 * MIB, 2 * MIB, **F)
        .free(BASE + 4 * MIB, **F)
        .segment(BASE, 20 * MIB, (4 * MIB, 4 * MIB, "live"))
    )


def codes(findings: Findings) -> list[str]:
    return [w.code for w in findings.warnings] + [
        w.code for device in findings.devices for w in device.warnings
    ]


def warned(builder: TraceBuilder) -> list[str]:
    return codes(find(builder.file()))


def test_a_sound_recording_gives_no_warning() -> None:
    assert warned(sound()) == []


CASES: dict[str, Callable[[], TraceBuilder]] = {
    "no-history": lambda: trace().segment(BASE, 20 * MIB, (4 * MIB, 1, "live")),
    "oom": lambda: sound().event("oom", addr=None, size=512, device_free=0),
    "unknown-actions": lambda: sound().event("reticulate"),
    "allocator-internal": lambda: (
        sound()
        .alloc("prefix", 9 * MIB, internal_metadata="mallocWithAddress")
        .free("prefix", internal_metadata="mallocWithAddress")
    ),
    "does-not-close": lambda: (
        trace()
        .alloc("a", 1, **F)
        .free("a")
        .segment("b", 20 * MIB, (4 * MIB, 1, "live"))
        .free("b", 2)
    ),
    "odd-events": lambda: sound().free(BASE + 4 * MIB),
    "unmatched-frees": lambda: sound().free(BASE + 10 * MIB, 512),
    "inferred-sizes": lambda: trace().free(BASE, 2 * MIB).segment(BASE, 20 * MIB),
    "started-late": lambda: sound().segment(BASE + 40 * MIB, 20 * MIB, (8 * MIB, 8 * MIB, "live")),
    "reserved-too-low": lambda: (
        sound()
        .event("segment_free", addr=BASE + 80 * MIB, size=2 * MIB)
        .event("segment_alloc", addr=BASE + 99 * MIB, size=32 * MIB)
    ),
}


@pytest.mark.parametrize("code", CASES)
def test_a_warning_comes_for_its_case(code: str) -> None:
    assert code in warned(CASES[code]())


def test_a_ring_of_one_event_is_no_history() -> None:
    builder = trace().alloc(BASE, 4 * MIB, **F).segment(BASE, 20 * MIB, (4 * MIB, 4 * MIB, "live"))
    assert warned(builder) == ["no-history"]


def test_an_out_of_memory_error_is_told_with_its_figures() -> None:
    builder = sound().event("oom", addr=None, size=MIB, device_free=3 * MIB)
    (warning,) = find(builder.file()).devices[0].warnings
    assert "event 5" in warning.paragraph
    assert "1.00 MiB" in warning.paragraph
    assert "3.00 MiB" in warning.paragraph
    assert "4.00 MiB" in warning.paragraph


def test_missing_stacks_are_told_with_their_share() -> None:
    builder = sound().alloc(BASE + 8 * MIB, 2 * MIB).free(BASE + 8 * MIB)
    (warning,) = find(builder.file()).devices[0].warnings
    assert warning.code == "missing-stacks"
    assert "25%" in warning.paragraph  # 2 of 4 + 2 + 2 MiB


def test_events_without_times_are_told() -> None:
    assert codes(find(history_of(layouts.without_times(sound().snapshot())))) == ["no-times"]


def test_a_profile_has_no_allocator() -> None:
    assert "no-allocator" in codes(find(history_of(layouts.profiler_layout(sound().snapshot()))))


def test_unknown_keys_are_named() -> None:
    snapshot = sound().snapshot() | {"brand_new": 1}
    (warning,) = find(history_of(snapshot)).warnings
    assert warning.code == "unknown-keys"
    assert "brand_new" in warning.paragraph


def test_an_overflowed_ring_is_told() -> None:
    assert warned(sound().settings(trace_alloc_overflowed=True)) == ["ring-overflowed"]


@pytest.mark.parametrize("flag", [False, [False, False], 0, [0]])
def test_a_ring_that_did_not_overflow_is_not(flag: object) -> None:
    assert warned(sound().settings(trace_alloc_overflowed=flag)) == []


def test_an_empty_snapshot_says_how_to_record() -> None:
    findings = find(history_of({"segments": [], "device_traces": [[], []]}))
    (warning,) = findings.warnings
    assert warning.code == "nothing-allocated"
    assert "_record_memory_history" in warning.suggestions[0].change


def test_the_closing_difference_is_told_to_the_byte() -> None:
    builder = trace().alloc(BASE, 4 * MIB, **F).alloc(BASE + 4 * MIB, 3 * MIB, **F)
    builder.event("segment_free", addr=BASE + 80 * MIB, size=20 * MIB)
    builder.segment(BASE, 20 * MIB, (4 * MIB, 4 * MIB, "live"))
    closing = find(builder.file()).devices[0].closing
    assert closing is not None
    assert closing.requested == 3 * MIB
    assert closing.allocated == closing.active


def test_a_snapshot_of_one_pool_says_that_the_rest_of_the_device_is_not_known() -> None:
    made = trace().segment("pool", 20 * MIB, (4 * MIB, 4 * MIB, "live"), segment_pool_id=(0, 3))
    for file in (made.snapshot(), made.snapshot()["segments"]):
        (device,) = find(history_of(file)).devices
        explanation = of_code(device, "no-history").explanation
        assert "only the segments of private pool 0,3" in explanation
        assert "what else the device held is not known" in explanation


@pytest.mark.parametrize(("nameless", "severity"), [(11, "warning"), (9, "note")])
def test_a_late_start_is_a_note_unless_a_tenth_of_the_peak_has_no_role(
    nameless: int, severity: str
) -> None:
    """100 MiB at the peak, half of it from before the recording and without a call stack."""
    early = [(BASE + k * 64 * MIB, size) for k, size in enumerate((nameless, 50 - nameless))]
    built = trace().event("segment_alloc", addr=1 << 40, size=50 * MIB)
    built.alloc(1 << 40, 50 * MIB, **F).free(1 << 40)
    built.segment(1 << 40, 50 * MIB)
    for address, size in early:
        built.segment(address, size * MIB, (size * MIB, size * MIB, "live"))
    tables = built.file()
    (history,) = tables.devices
    figures = find_figures(tables, 0)
    role = np.full(len(history.allocations), ROLES.index("parameter"), np.int8)
    role[history.allocations.size == nameless * MIB] = ROLES.index("unknown")
    found = device_warnings(
        history,
        tables,
        figures.curves,
        (),
        None,
        figures.peaks["allocated"],
        lambda: replace(figures.roles, role=role),
    )
    (late,) = [each for each in found if each.code == "started-late"]
    assert late.severity == severity
    order = [SEVERITIES.index(each.severity) for each in found]
    assert order == sorted(order)
