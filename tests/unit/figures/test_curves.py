"""Curves, peaks, reserved replay and fragmentation, in cases worked out by hand."""

from __future__ import annotations

import pytest

from snapreport.diagnosis.conclude import find_figures
from snapreport.figures.curves import find_curves, find_fragmentation
from snapreport.history.segments import lives_of, segments_at
from snapreport.model.findings import DeviceFigures
from tests.builders import BASE, FIRST_US, MIB, TraceBuilder, trace


def found(builder: TraceBuilder) -> DeviceFigures:
    return find_figures(builder.file(), 0)


def test_requested_falls_at_completion_and_allocated_at_the_request() -> None:
    curves = find_curves(trace().alloc("a", 4).free("a").history())
    assert curves["requested"].tolist() == [0, 4, 4, 0]
    assert curves["allocated"].tolist() == [0, 512, 0, 0]
    assert curves["active"].tolist() == [0, 512, 512, 0]


def test_a_baseline_allocation_counts_from_the_start() -> None:
    curves = find_curves(trace().alloc("b", 2).free("a", 4).history())
    assert curves["requested"].tolist() == [4, 6, 6, 2]
    assert curves["allocated"].tolist() == [512, 1024, 512, 512]


def test_peak_is_the_first_of_two_equal_maxima() -> None:
    peaks = found(trace().alloc("a", 4).free("a").alloc("b", 4)).peaks
    assert (peaks["requested"].bytes, peaks["requested"].event) == (4, 0)
    assert peaks["requested"].time_us == FIRST_US


def test_the_peak_may_be_before_the_first_event() -> None:
    peaks = found(trace().free("a", 4)).peaks
    assert (peaks["requested"].bytes, peaks["requested"].event) == (4, -1)
    assert peaks["requested"].time_us is None


def test_each_curve_has_its_own_peak() -> None:
    # While "a" awaits its free, "b" makes the requested peak; the allocated one is before.
    device = found(trace().alloc("a", 4096).request("a").alloc("b", 512).complete("a"))
    assert (device.peaks["requested"].event, device.peaks["requested"].bytes) == (2, 4608)
    assert (device.peaks["allocated"].event, device.peaks["allocated"].bytes) == (0, 4096)
    assert (device.peaks["active"].event, device.peaks["active"].bytes) == (2, 4608)
    assert device.peak.event == 0


def test_reserved_is_replayed_backwards_from_the_final_segments() -> None:
    builder = (
        trace()
        .event("segment_free", addr=BASE, size=2 * MIB)
        .event("segment_alloc", addr=BASE, size=20 * MIB)
        .event("snapshot", size=99)
        .event("segment_map", addr=BASE + 40 * MIB, size=4 * MIB)
        .event("segment_unmap", addr=BASE + 42 * MIB, size=2 * MIB)
        .segment(BASE, 20 * MIB)
        .segment(BASE + 40 * MIB, 2 * MIB, is_expandable=True)
    )
    curves = find_curves(builder.history())
    assert [size // MIB for size in curves["reserved"].tolist()] == [2, 0, 20, 20, 24, 22]
    device = found(builder)
    assert device.reserved_events.tolist() == [-1, 0, 1, 3, 4]
    assert [size // MIB for size in device.reserved_bytes.tolist()] == [2, 0, 20, 24, 22]


def test_an_unmap_in_the_middle_leaves_two_runs_and_a_map_joins_them() -> None:
    builder = (
        trace()
        .event("segment_unmap", addr=BASE + 2 * MIB, size=2 * MIB)
        .event("segment_map", addr=BASE + 2 * MIB, size=2 * MIB)
        .event("segment_map", addr=BASE + 6 * MIB, size=2 * MIB)
        .segment(BASE, 8 * MIB, is_expandable=True)
    )
    lives = lives_of(builder.history())
    runs = [
        [
            ((a - BASE) // MIB, s // MIB)
            for a, s in zip(lives.address[rows].tolist(), lives.size[rows].tolist(), strict=True)
        ]
        for rows in (segments_at(lives, event) for event in (-1, 0, 1, 2))
    ]
    assert runs == [[(0, 6)], [(0, 2), (4, 2)], [(0, 6)], [(0, 8)]]


def test_a_segment_event_that_fits_none_is_counted() -> None:
    builder = trace().event("segment_alloc", addr=BASE, size=2 * MIB)
    assert builder.history().anomalies == {"segment event that fits no segment": 1}


def test_fragmentation_leaves_out_segments_without_a_live_block() -> None:
    builder = (
        trace()
        .segment(BASE, 20 * MIB, (4 * MIB, 4 * MIB, "live"))
        .segment(BASE + 40 * MIB, 20 * MIB)
        .segment(BASE + 80 * MIB, 20 * MIB, (2 * MIB, 2 * MIB, "pending"))
    )
    history = builder.history()
    assert find_fragmentation(history, -1) == 16 * MIB + 18 * MIB
    end = found(builder).end
    assert end.inactive == 54 * MIB
    assert end.slack == 0


def test_slack_is_block_minus_requested_bytes() -> None:
    end = found(trace().segment(BASE, 20 * MIB, (5 * MIB, 4 * MIB, "live"))).end
    assert end.slack == MIB
    assert (end.requested, end.allocated, end.active) == (4 * MIB, 5 * MIB, 5 * MIB)


def test_the_closing_law_says_by_how_much_it_is_broken() -> None:
    builder = trace().alloc("a", 4 * MIB).segment("a", 20 * MIB)
    closing = found(builder).closing
    assert closing is not None
    assert not closing.closes
    assert closing.requested == closing.allocated == closing.active == 4 * MIB


def test_no_segments_at_the_end_are_a_state_of_no_bytes() -> None:
    closing = found(trace().alloc("a", 4)).closing
    assert closing is not None
    assert (closing.requested, closing.closes) == (4, False)
    settled = found(trace().alloc("a", 4).free("a")).closing
    assert settled is not None
    assert settled.closes


def test_the_width_of_the_peak_counts_events_other_than_that_of_the_lower_bound() -> None:
    # A block of 20 to 21 MiB from before the recording, then one of 20.5 MiB: which was more?
    builder = trace().segment("a", 30 * MIB).free("a", 20 * MIB).alloc("b", 20 * MIB + MIB // 2)
    peak = found(builder).peaks["allocated"]
    assert (peak.bytes, peak.width) == (20 * MIB + MIB // 2, MIB // 2)


@pytest.mark.parametrize("event", [0, 1])
def test_an_out_of_memory_event_shows_the_state_at_its_event(event: int) -> None:
    builder = trace()
    if event:
        builder.alloc("a", 4096)
    builder.event("oom", addr=None, size=9 * MIB, device_free=MIB)
    (oom,) = found(builder).ooms
    assert (oom.event, oom.size, oom.device_free) == (event, 9 * MIB, MIB)
    assert oom.allocated == (4096 if event else 0)


def test_a_device_without_events_has_its_end_for_a_start() -> None:
    device = found(trace().segment(BASE, 20 * MIB, (4 * MIB, 4 * MIB, "live")))
    assert device.start == device.peak == device.end
    assert device.start.event == -1
    assert not device.recorded
