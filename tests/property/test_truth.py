"""What is concluded from a simulated snapshot is what the allocator really did."""

from __future__ import annotations

from typing import Any

import numpy as np

from dev.simulator import DeviceTruth, layouts
from snapreport.diagnosis.recording_warnings import find_closing
from snapreport.figures.curves import find_curves
from snapreport.history.segments import lives_of, segments_at
from tests.builders import history_of
from tests.property.simulated import (
    Simulated,
    device_files,
    device_pairs,
    for_simulations,
    history_rows,
    some_events,
    truth_rows,
)


@for_simulations(300)
def test_requested_active_and_reserved_curves_are_true_at_every_event(
    simulation: Simulated,
) -> None:
    for history, truth in device_pairs(simulation):
        curves = find_curves(history)
        assert curves["requested"].tolist() == truth.requested.tolist()
        assert curves["reserved"].tolist() == truth.reserved.tolist()
        assert (curves["active"] <= truth.active).all()


@for_simulations(300)
def test_the_allocated_curve_is_true_within_its_stated_width(simulation: Simulated) -> None:
    for history, truth in device_pairs(simulation):
        rows = history.allocations
        curves = find_curves(history)
        width = rows.block_size_max - rows.block_size
        assert (width >= 0).all()
        for end, low, true in (
            (rows.free_requested_event, curves["allocated"], truth.allocated),
            (rows.free_event, curves["active"], truth.active),
        ):
            deltas = np.zeros(history.events + 2, np.int64)
            np.add.at(deltas, rows.alloc_event + 1, width)
            np.add.at(deltas, end + 1, -width)
            high = low + np.cumsum(deltas)[: history.events + 1]
            assert (low <= true).all()
            assert (true <= high).all()
            assert low[low == high].tolist() == true[low == high].tolist()


@for_simulations(300)
def test_every_allocation_is_found_with_its_events_and_size(simulation: Simulated) -> None:
    for history, truth in device_pairs(simulation):
        ours, true = history_rows(history), truth_rows(truth)
        rows = history.allocations
        assert rows.addr[ours].tolist() == truth.address[true].tolist()
        assert rows.size[ours].tolist() == truth.size[true].tolist()
        assert rows.alloc_event[ours].tolist() == truth.alloc_event[true].tolist()
        assert rows.free_event[ours].tolist() == truth.free_event[true].tolist()
        asked = truth.free_requested_event[true]
        assert rows.free_requested_event[ours].tolist() == asked.tolist()
        assert rows.stream[ours].tolist() == truth.stream[true].tolist()


@for_simulations(300)
def test_block_sizes_are_recovered_exactly_or_within_their_range(simulation: Simulated) -> None:
    for history, truth in device_pairs(simulation):
        ours, true = history_rows(history), truth_rows(truth)
        rows, actual = history.allocations, truth.block_size[true]
        low, high = rows.block_size[ours], rows.block_size_max[ours]
        in_trace = rows.alloc_event[ours] >= 0
        assert low[in_trace].tolist() == actual[in_trace].tolist()
        assert high[in_trace].tolist() == actual[in_trace].tolist()
        assert (low <= actual).all()
        assert (actual <= high).all()


@for_simulations(200)
def test_a_recording_closes_and_nothing_in_it_is_odd(simulation: Simulated) -> None:
    for history, _ in device_pairs(simulation):
        assert history.anomalies == {}
        closing = find_closing(history, find_curves(history))
        assert (closing is None) == (not len(history.segments) and not history.events)
        assert closing is None or closing.closes


@for_simulations(200)
def test_the_live_set_at_any_event_is_true(simulation: Simulated) -> None:
    for history, truth in device_pairs(simulation):
        for event in some_events(history.events):
            for curve, end in (
                ("requested", truth.free_event),
                ("active", truth.free_event),
                ("allocated", truth.free_requested_event),
            ):
                alive = (truth.alloc_event <= event) & (event < end)
                ours = history.allocations.addr[history.allocations.live_at(event, curve)]
                assert sorted(ours.tolist()) == sorted(truth.address[alive].tolist())


@for_simulations(200)
def test_peaks_are_the_first_events_that_attain_the_most(simulation: Simulated) -> None:
    findings = simulation.findings
    for device, truth in zip(findings.devices, simulation.truths, strict=True):
        for name in ("requested", "reserved"):
            true = getattr(truth, name).tolist()
            assert device.peaks[name].bytes == max(true)
            assert device.peaks[name].event == true.index(max(true)) - 1
        if device.peak.allocated_width == 0 and device.inferred_blocks == 0:
            true = truth.allocated.tolist()
            assert device.peaks["allocated"].bytes == max(true)
            assert device.peaks["allocated"].event == true.index(max(true)) - 1
        if device.recorded:
            assert device.peak.event == device.peaks["allocated"].event
            assert device.peak.allocated == device.peaks["allocated"].bytes
        else:  # one event or none: what is known is the end
            assert device.peak == device.end


@for_simulations(200)
def test_segments_replayed_forward_are_those_found_backward(simulation: Simulated) -> None:
    for history, truth in device_pairs(simulation):
        lives = lives_of(history)
        rows = segments_at(lives, -1)
        mapped = granules(lives.address[rows], lives.size[rows])
        at = 0
        for event in range(history.events):
            other = history.other
            while at < len(other) and int(other.event[at]) == event:
                part = granules(other.addr[at : at + 1], other.size[at : at + 1])
                if other.action[at] in ("segment_alloc", "segment_map"):
                    assert not mapped & part
                    mapped |= part
                elif other.action[at] in ("segment_free", "segment_unmap"):
                    assert part <= mapped
                    mapped -= part
                at += 1
            if event % 7 == 0 or event == history.events - 1:
                rows = segments_at(lives, event)
                address, size = lives.address[rows], lives.size[rows]
                assert int(size.sum()) == truth.reserved[event + 1]
                assert granules(address, size) == mapped
        assert mapped == granules(history.segments.address, history.segments.size)


GRANULE = 2 << 20


def granules(address: Any, size: Any) -> set[int]:
    """Return the starts of the 2 MiB granules that ranges cover."""
    return {
        granule
        for start, length in zip(address.tolist(), size.tolist(), strict=True)
        for granule in range(start, start + length, GRANULE)
    }


@for_simulations(120)
def test_fragmentation_counts_the_rest_of_segments_in_use(simulation: Simulated) -> None:
    for _, device in device_files(simulation):
        end = simulation.findings.devices[device.device.ordinal].end
        segments = device.segments
        wasted = 0
        for row in range(len(segments)):
            own = segments.block_segment == row
            used = int(segments.block_size[own & (segments.block_state != 2)].sum())
            if used:
                wasted += int(segments.size[row]) - used
        assert end.fragmentation == wasted
        assert end.reserved == int(segments.size.sum())


def older(simulation: Simulated, version: layouts.Version) -> list[tuple[Any, DeviceTruth]]:
    """Return each device as a version of PyTorch writes it, with the truth about it."""
    snapshot = simulation.snapshot()
    kept = [
        np.array([layouts.is_recorded(event, version) for event in trace], np.bool_)
        for trace in snapshot["device_traces"]
    ]
    devices = history_of(layouts.as_of(snapshot, version)).devices
    truths = map(DeviceTruth.keeping, simulation.truths, kept)
    return list(zip(devices, truths, strict=True))


@for_simulations(300)
def test_every_versions_layout_gives_the_same_curves(simulation: Simulated) -> None:
    version = layouts.VERSIONS[len(simulation.file) % len(layouts.VERSIONS)]
    for device, truth in older(simulation, version):
        curves = find_curves(device)
        assert curves["requested"].tolist() == truth.requested.tolist()
        assert curves["reserved"].tolist() == truth.reserved.tolist()


@for_simulations(60)
def test_pinned_memory_is_as_true(simulation: Simulated) -> None:
    last = len(simulation.truths) - 1
    for device in history_of(layouts.pinned(simulation.snapshot())).devices:
        pinned = device.device.kind == "host"
        assert pinned or device.device.ordinal < last or not device.events
        if pinned or device.device.ordinal < last:
            truth = simulation.truths[last if pinned else device.device.ordinal]
            curves = find_curves(device)
            assert curves["requested"].tolist() == truth.requested.tolist()
            assert curves["reserved"].tolist() == truth.reserved.tolist()


@for_simulations(60)
def test_files_without_times_give_the_same_curves(simulation: Simulated) -> None:
    history = history_of(layouts.without_times(simulation.snapshot()))
    for device, truth in zip(history.devices, simulation.truths, strict=True):
        curves = find_curves(device)
        assert curves["requested"].tolist() == truth.requested.tolist()
        assert curves["reserved"].tolist() == truth.reserved.tolist()


@for_simulations(100)
def test_torch21_gives_true_block_sizes_under_default_settings(simulation: Simulated) -> None:
    if simulation.settings != type(simulation.settings)():
        return  # that layout has no settings, so the defaults are taken
    for device, truth in older(simulation, (2, 1)):
        ours, true = history_rows(device), truth_rows(truth)
        in_trace = device.allocations.alloc_event[ours] >= 0
        low = device.allocations.block_size[ours]
        assert low[in_trace].tolist() == truth.block_size[true][in_trace].tolist()


@for_simulations(100, plain=True)
def test_torch21_gives_true_block_sizes(simulation: Simulated) -> None:
    for device, truth in older(simulation, (2, 1)):
        ours, true = history_rows(device), truth_rows(truth)
        assert device.allocations.block_size[ours].tolist() == truth.block_size[true].tolist()


@for_simulations(100)
def test_a_list_of_segments_gives_the_final_state(simulation: Simulated) -> None:
    truths = simulation.truths
    for device in history_of(layouts.segment_list(simulation.snapshot())).devices:
        truth = truths[device.device.ordinal]
        curves = find_curves(device)
        assert curves["requested"].tolist() == [truth.requested[-1]]
        assert curves["allocated"].tolist() == [truth.allocated[-1]]
        assert curves["active"].tolist() == [truth.active[-1]]
        assert curves["reserved"].tolist() == [truth.reserved[-1]]


@for_simulations(100)
def test_a_trace_without_free_requests_gives_the_requested_curve(simulation: Simulated) -> None:
    snapshot = simulation.snapshot()
    history = history_of(layouts.only_free_completed(snapshot))
    for device, trace, truth in zip(
        history.devices, snapshot["device_traces"], simulation.truths, strict=True
    ):
        kept = np.array([event["action"] != "free_requested" for event in trace], np.bool_)
        expected = truth.keeping(kept)
        assert find_curves(device)["requested"].tolist() == expected.requested.tolist()


@for_simulations(100, plain=True)
def test_a_profiler_snapshot_gives_the_requested_curve(simulation: Simulated) -> None:
    snapshot = simulation.snapshot()
    reduced = layouts.profiler_layout(snapshot)
    history = history_of(reduced)
    if history.layout != "profiler":
        return  # nothing in it tells: no segment, and no allocation
    for device, trace, truth in zip(
        history.devices, snapshot["device_traces"], simulation.truths, strict=False
    ):
        tensor = ("alloc", "free_requested", "free_completed")
        kept = np.array([event["action"] in tensor for event in trace], np.bool_)
        expected = truth.keeping(kept).requested
        # Blocks that await their free are no tensors any more, so such a file has none.
        pending = [
            block["requested_size"]
            for segment in snapshot["segments"]
            if segment["device"] == truth.device
            for block in segment["blocks"]
            if block["state"] == "active_pending_free"
        ]
        if not pending:
            assert find_curves(device, reserves=False)["requested"].tolist() == expected.tolist()
