"""Every view of a moment adds up to the curve there, whatever the history and the event."""

from __future__ import annotations

import statistics as standard
from collections import defaultdict
from math import floor

import numpy as np
import pytest

from snapreport.api.device import Device
from snapreport.diagnosis.conclude import find
from snapreport.figures.uses import curves_statistics
from snapreport.model.asked import (
    GROUPINGS,
)
from tests.property.simulated import Simulated, device_files, for_simulations, some_events

CURVES = ("allocated", "requested", "active")


def devices(simulation: Simulated) -> list[Device]:
    return [
        Device(file, found)
        for file, _ in [next(device_files(simulation))]
        for found in find(file).devices
    ]


@for_simulations(60)
def test_what_is_live_sums_to_the_curve_however_it_is_grouped(simulation: Simulated) -> None:
    for device in devices(simulation):
        for event in some_events(device.events, 3):
            for curve in CURVES:
                moment = device.at(event, curve=curve)
                live = moment.live()
                assert int(live.bytes.sum()) == moment.bytes
                assert (np.diff(live.bytes) <= 0).all()
                assert int(moment.tree().bytes[0]) == moment.bytes
                parts = moment.parts()
                assert parts.baseline_bytes + parts.dynamic_bytes == moment.bytes
                assert parts.baseline_count + parts.dynamic_count == len(live.rows)
                for by in GROUPINGS:
                    groups = moment.by(by)
                    assert sum(group.bytes for group in groups) == moment.bytes
                    assert sum(group.count for group in groups) == len(live.rows)
                    assert len({group.name for group in groups}) == len(groups)


@for_simulations(80)
def test_lines_sum_to_the_curve_with_and_without_patterns(simulation: Simulated) -> None:
    for device in devices(simulation):
        for event in some_events(device.events, 3):
            for curve in CURVES:
                moment = device.at(event, curve=curve)
                for include, exclude in (((), ()), (("a",), ()), (("*.py",), ("/e/",))):
                    lines = moment.lines(include, exclude)
                    assert sum(line.bytes for line in lines) == moment.bytes
                    running = 0
                    for line in lines:
                        running += line.bytes
                        assert line.cumulative == running
                        assert line.total >= line.bytes
                        assert line.median * line.count <= 2 * line.bytes or line.count == 1


@for_simulations(60)
def test_lines_are_a_recount_of_their_call_sites(simulation: Simulated) -> None:
    """Without patterns, a line holds the allocations whose call site is on it; medians too."""
    for device in devices(simulation):
        rows = device.allocations
        for event in some_events(device.events, 2):
            moment = device.at(event)
            sizes: dict[str, list[int]] = defaultdict(list)
            names = device.site_names(np.arange(len(rows)))
            for i in moment.live().rows.tolist():
                sizes[names[i].split("  ")[-1]].append(int(rows.block_size[i]))
            for line in moment.lines():
                if line.line is not None:
                    found = sizes[line.location]
                    assert (line.bytes, line.count) == (sum(found), len(found))
                    assert line.median == floor(standard.median(found))


@for_simulations(60)
def test_categories_partition_memory_over_time(simulation: Simulated) -> None:
    for device in devices(simulation):
        for by in ("category", "stage", "context"):
            for curve in CURVES:
                profile = device.profile(by, curve=curve)
                whole = device.curve(curve)
                assert profile.total.tolist() == whole.tolist()
                summed = sum((group.bytes for group in profile.groups), np.zeros_like(whole))
                assert summed.tolist() == whole.tolist()
                assert sum(group.at_peak for group in profile.groups) == profile.peak_bytes
                for group in profile.groups:
                    assert int(group.bytes.max()) == group.peak_bytes
                    assert int(group.bytes[group.peak_event + 1]) == group.peak_bytes
                short = device.profile(by, curve=curve, points=7)
                assert int(short.total.max()) == profile.peak_bytes
                assert short.events[0] == -1
                assert short.events[-1] == device.events - 1


@for_simulations(60)
def test_peaks_in_spans_are_those_of_the_curve(simulation: Simulated) -> None:
    for device in devices(simulation):
        whole = device.curve("allocated")
        assert device.at().bytes == int(whole.max()) or not device.figures.recorded
        events = some_events(device.events, 4)
        for first in events:
            for last in events:
                if first <= last:
                    moment = device.at(between=(first, last))
                    span = whole[first + 1 : last + 2]
                    assert moment.bytes == int(span.max())
                    assert first <= moment.event <= last
                    assert not (whole[first + 1 : moment.event + 1] == moment.bytes).any()


@for_simulations(60)
def test_the_moment_of_an_allocation_is_where_it_appears_and_goes(simulation: Simulated) -> None:
    for device in devices(simulation):
        rows = device.allocations
        for i in range(0, len(rows), 5):
            name = (int(rows.addr[i]), int(rows.version[i]))
            if rows.alloc_event[i] >= 0:
                event = device.at(alloc=name).event
                assert i in device.at(event).live().rows
                assert i not in device.at(event - 1).live().rows
            if 0 <= rows.free_requested_event[i] < device.events:
                event = device.at(free=name).event
                assert i not in device.at(event).live().rows


@for_simulations(80)
def test_averages_lie_between_the_least_and_the_most(simulation: Simulated) -> None:
    for device in devices(simulation):
        for curve in CURVES:
            over = device.statistics(curve)
            assert over.minimum <= over.average <= over.peak
            values = device.curve(curve).tolist()
            times = device.times.tolist()
            if over.by_time:
                clock = np.maximum.accumulate(device.times).tolist()
                weighted = sum(
                    value * (after - now)
                    for value, now, after in zip(values[1:], clock, clock[1:], strict=False)
                )
                assert over.average == weighted // (clock[-1] - clock[0])
            assert len(values) == len(times) + 1


def test_an_average_over_time_is_exact_beyond_what_64_bits_hold() -> None:
    curve = np.array([0, 10**11, 10**11 + 1, 0], np.int64)
    times = np.array([0, 10**12, 3 * 10**12], np.int64)
    over = curves_statistics({"": curve}, times)[""]
    assert over.average == (10**11 + 2 * (10**11 + 1)) // 3
    assert over.by_time


@pytest.mark.parametrize("times", [[], [5, 5, 5], [-1, 2, 3]])
def test_without_passing_time_every_event_counts_alike(times: list[int]) -> None:
    curve = np.array([0, 4, 4, 4][: len(times) + 1], np.int64)
    if len(times) == 3 and times[0] < 0:
        from snapreport.model.snapshot import NO_TIME

        times = [NO_TIME, 2, 3]
    over = curves_statistics({"": curve}, np.array(times, np.int64))[""]
    assert not over.by_time
    assert over.average == int(curve.sum()) // len(curve)
