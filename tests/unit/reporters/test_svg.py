"""The still picture: curves that lose no peak; stages, events, peak and failed requests on it."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from snapreport.model.findings import DeviceFindings
from snapreport.reporters.svg import (
    HEIGHT,
    SMALL_HEIGHT,
    SMALL_WIDTH,
    CurvePicture,
    draw_curves,
    draw_small_curves,
    event_ticks,
)
from tests.browser.builders import MIB, DeviceSpec, Row, findings, training


def _device(spec: DeviceSpec) -> DeviceFindings:
    return findings(spec).devices[0]


def _picture(spec: DeviceSpec) -> CurvePicture:
    return draw_curves(_device(spec))


def test_the_still_picture_keeps_a_one_event_peak() -> None:
    rows = [Row(MIB), Row(9 * MIB, 4000, 4001)]
    picture = _picture(DeviceSpec(rows, events=10_000))
    heights = [float(y) for y in re.findall(r"V([\d.]+)", picture.requested)]
    (peak,) = picture.marks
    assert 100 * min(heights) / HEIGHT == pytest.approx(peak.y, abs=0.05)
    assert peak.x == pytest.approx(40.01, abs=0.02)
    assert peak.title == "peak 10.00 MiB"


def test_equal_columns_of_the_still_picture_are_one_step_over_its_whole_width() -> None:
    picture = _picture(DeviceSpec([Row(8 * MIB), Row(MIB, 1000, 5000)], events=10_000))
    assert re.sub(r"V[\d.]+", "V", picture.requested) == "M0 48Vh100Vh402Vh498"


def test_stages_are_bands_over_their_own_events_one_row_for_each_depth() -> None:
    picture = _picture(training())
    outer, inner = picture.bands
    # Event s begins at s + 1 of 101: the start comes first.
    assert (outer.name, outer.row) == ("train step", 0)
    assert outer.left == pytest.approx(100 * 6 / 101, abs=0.001)
    assert outer.left + outer.width == pytest.approx(100 * 91 / 101, abs=0.002)
    assert (inner.name, inner.row) == ("forward", 1)
    assert inner.left + inner.width == pytest.approx(100 * 41 / 101, abs=0.002)
    assert picture.all_stages


def test_a_stages_tone_is_that_of_the_timeline() -> None:
    spec = training()
    spec.stages[:] = [("foo", 0, 0, 50), ("f\u00fcr \U0001f525", 0, 50, 99)]
    # What hash() of app/lib/picture/colours.ts gives; the first is FNV-1a's value for "foo".
    hashes = (0xA9F37ED7, 0x13F8FCC7)
    assert [band.tone for band in _picture(spec).bands] == ["abc"[value % 3] for value in hashes]


def test_many_stages_leave_whole_inner_levels_out_and_say_so() -> None:
    spec = DeviceSpec([Row(MIB, 0, None)], events=1000)
    spec.stages[:] = [
        *[(f"step {k}", 0, k * 10, k * 10 + 10) for k in range(100)],
        *[(f"part {k}", 1, k * 10, k * 10 + 5) for k in range(100)],
    ]
    picture = _picture(spec)
    assert {band.row for band in picture.bands} == {0}
    assert len(picture.bands) == 100
    assert not picture.all_stages


def test_bands_stay_few_when_there_are_thousands_of_stages() -> None:
    spec = DeviceSpec([Row(MIB, 0, None)], events=10_000)
    spec.stages[:] = [(f"step {k}", 0, k * 2, k * 2 + 2) for k in range(5000)]
    picture = _picture(spec)
    assert len(picture.bands) == 120
    assert not any(band.named for band in picture.bands)
    assert not picture.all_stages


@pytest.mark.parametrize("events", [2, 5, 99, 100, 1248, 1_200_000])
def test_events_are_round_ascending_and_leave_room_for_each_other(events: int) -> None:
    ticks = event_ticks(events)
    assert ticks[0][0] == pytest.approx(100 * 1.5 / (events + 1), abs=0.01)
    assert ticks[0][1] == "0"
    assert 2 <= len(ticks) <= 7
    places = [x for x, _, _ in ticks]
    assert places[-1] < 100
    assert all(b - a >= 9 for a, b in pairwise(places))
    values = [int(label.replace(",", "")) for _, label, _ in ticks]
    apart = str(values[1] - values[0]).rstrip("0")
    assert apart in {"1", "2", "5"}


def test_failed_requests_are_marked_where_they_happened_under_the_peak() -> None:
    spec = DeviceSpec([Row(64 * MIB, 0, None), Row(MIB, 50, 60)], events=100)
    spec.ooms[:] = [(30, 256 * MIB, None), (90, 512 * MIB, None)]
    marks = _picture(spec).marks
    assert [mark.kind for mark in marks] == ["oom", "oom", "peak"]  # the last is on top
    assert marks[0].x == pytest.approx(100 * 31.5 / 101, abs=0.01)
    assert marks[1].title == "out of memory: 512.0 MiB requested"
    assert all(mark.label is not None for mark in marks)


def test_requests_that_failed_in_one_place_are_one_mark() -> None:
    spec = DeviceSpec([Row(64 * MIB, 0, None)], events=1_000_000)
    spec.ooms[:] = [(500_000 + k, MIB, None) for k in range(3)]
    oom, _ = _picture(spec).marks
    assert oom.title == "out of memory: 1.00 MiB requested, 2 more"


def test_labels_stay_in_the_picture_and_apart_on_a_narrow_screen() -> None:
    spec = DeviceSpec([Row(64 * MIB, 0, None)], events=100)
    spec.ooms[:] = [(event, 512 * MIB, None) for event in (0, 2, 4, 96, 98, 99)]
    marks = [mark for mark in _picture(spec).marks if mark.label]
    boxes = []
    for mark in marks:
        assert mark.label is not None
        width = 6.6 * len(mark.label.text)
        x = 3.8 * mark.x + mark.label.dx - (width if mark.label.anchor == "end" else 0)
        y = 1.68 * mark.y + mark.label.dy
        assert 0 <= x <= x + width <= 380
        assert 12 <= y <= 168
        boxes.append((x, y, width))
    assert len(boxes) > 2
    for k, (x, y, width) in enumerate(boxes):
        for other_x, other_y, other_width in boxes[:k]:
            apart = x + width <= other_x or other_x + other_width <= x
            assert apart or abs(y - other_y) >= 14.9


_SMALL = re.compile(r"M([\d.]+) 40|V([\d.]+)h([\d.]+)")


def _steps(path: str) -> list[tuple[float, float, float]]:
    """The pieces of a small curve: from, to, and share of the height."""
    x, steps = 0.0, []
    for start, y, width in _SMALL.findall(path):
        if start:
            x = float(start)
        else:
            end = round(x + float(width), 1)
            steps.append((x, end, 1 - float(y) / SMALL_HEIGHT))
            x = end
    assert path.endswith("V40Z")
    return steps


def test_small_curves_share_one_scale_and_lose_no_peak() -> None:
    large = DeviceSpec([Row(MIB), Row(99 * MIB, 4000, 4001)], events=10_000, times=False)
    small = DeviceSpec([Row(10 * MIB)], events=50, ordinal=1, times=False)
    drawn = draw_small_curves([_device(large), _device(small)])
    assert (drawn.first_us, drawn.axes.endswith("over the events of each device")) == (None, True)
    first, second = (_steps(each.path) for each in drawn.curves)
    assert max(share for _, _, share in first) == 1
    (peak,) = [(x, to) for x, to, share in first if share == 1]
    assert peak[0] <= SMALL_WIDTH * 4001 / 10_001 < peak[1]
    assert [(x, to, round(share, 6)) for x, to, share in second] == [(0, SMALL_WIDTH, 0.1)]


def test_small_curves_lie_where_their_times_do() -> None:
    # Times are ten microseconds an event: the second device's recording is the first half.
    rows = [Row(8 * MIB, 0, None), Row(8 * MIB, 60, 80), Row(4 * MIB, 98, 100)]
    first = DeviceSpec(rows, events=101, ooms=[(75, MIB, None)])
    second = DeviceSpec([Row(4 * MIB, 0, 50)], events=51, ordinal=1)
    drawn = draw_small_curves([_device(first), _device(second)])
    assert drawn.axes == "Allocated bytes on one scale, over the 1.0 ms of all devices"
    one, other = (_steps(each.path) for each in drawn.curves)
    assert drawn.span_us == 1000
    heights = [(x, round(100 * share)) for x, _, share in one]
    assert heights == [(0, 50), (120, 100), (161, 50), (196, 75)]
    assert [(x, to, round(100 * share)) for x, to, share in other] == [(0, 101, 25)]
    assert (drawn.curves[0].ooms, drawn.curves[1].ooms) == ((75.0,), ())


def test_recordings_of_different_times_are_not_laid_over_one_another() -> None:
    first, second = _device(training()), _device(replace(training(), ordinal=1))
    later = replace(second, times=np.where(second.times < 0, -1, second.times + 10**9))
    assert draw_small_curves([first, second]).first_us == first.first_time_us
    assert draw_small_curves([first, later]).first_us is None


def test_an_unused_device_has_no_small_curve_and_does_not_stop_the_others() -> None:
    unused = _device(DeviceSpec([], events=0, ordinal=1, times=False, reserved=0))
    drawn = draw_small_curves([_device(training()), unused])
    assert drawn.first_us is not None
    assert [bool(each.path) for each in drawn.curves] == [True, False]
