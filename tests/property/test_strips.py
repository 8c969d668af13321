"""Strips stack without gap or overlap in birth order, and their top is the requested curve."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise

import numpy as np
import pytest

from snapreport.bundle.strips import sampled_events
from snapreport.figures.curves import find_curves
from snapreport.model.history import DeviceHistory
from tests.laid_strips import Strips, make_strips
from tests.property.simulated import Simulated, device_files, for_simulations

EXACT = 1 << 30


@pytest.mark.parametrize("columns", [1, 2, 3, 7, 20, EXACT])
def test_live_strips_stack_up_to_the_curve_at_every_sampled_event(columns: int) -> None:
    @for_simulations(120)
    def check(simulation: Simulated) -> None:
        for _, device in device_files(simulation):
            strips = make_strips(device, columns)
            requested = find_curves(device)["requested"]
            for event in sampled_events(device, columns).tolist():
                top = 0
                for row in live_rows(device, event):
                    assert offset_at(strips, row, event) == top
                    top += strips.size[row]
                assert top == int(requested[event + 1])

    check()


@pytest.mark.parametrize("columns", [1, 3, 20, EXACT])
def test_births_and_deaths_are_exact(columns: int) -> None:
    @for_simulations(120)
    def check(simulation: Simulated) -> None:
        for _, device in device_files(simulation):
            rows, strips = device.allocations, make_strips(device, columns)
            for row in range(len(rows)):
                born, died = int(rows.alloc_event[row]), int(rows.free_event[row])
                events, offsets = strips.timesteps[row], strips.offsets[row]
                assert events[0] == max(born, 0)
                assert offsets[0] == below(device, row, born)
                # It ends where it lay just before the event that freed it.
                assert events[-1] == (died if died < device.events else max(device.events, 1))
                assert offsets[-1] == below(device, row, died - 1)

    check()


@pytest.mark.parametrize("columns", [1, 3, 20, EXACT])
def test_paths_go_forward_and_never_below_zero(columns: int) -> None:
    @for_simulations(120)
    def check(simulation: Simulated) -> None:
        for _, device in device_files(simulation):
            strips = make_strips(device, columns)
            assert strips.size == device.allocations.size.tolist()
            for events, offsets in zip(strips.timesteps, strips.offsets, strict=True):
                assert len(events) == len(offsets) >= 2
                assert events == sorted(events)
                # What lies below can only be freed, so an offset can only fall.
                assert offsets == sorted(offsets, reverse=True)
                assert offsets[-1] >= 0

    check()


@for_simulations(120)
def test_each_column_is_sampled_at_its_most_requested_event(simulation: Simulated) -> None:
    for _, device in device_files(simulation):
        requested = find_curves(device)["requested"][1:]
        for columns in (1, 3, 20):
            events = sampled_events(device, columns)
            if device.events <= columns:
                assert events.tolist() == list(range(device.events))
                continue
            edges = [i * device.events // columns for i in range(columns + 1)]
            parts = [requested[a:b] for a, b in pairwise(edges)]
            assert len(events) == columns
            assert requested[events].tolist() == [int(part.max()) for part in parts]
            assert (np.searchsorted(edges, events, side="right") - 1).tolist() == list(
                range(columns)
            )


def live_rows(device: DeviceHistory, event: int) -> list[int]:
    rows = device.allocations
    live: list[int] = np.flatnonzero(
        (rows.alloc_event <= event) & (event < rows.free_event)
    ).tolist()
    return live


def below(device: DeviceHistory, row: int, event: int) -> int:
    """Add up what lies under a strip after an event: what was born before it and is live."""
    rows = device.allocations
    live = (rows.alloc_event <= event) & (event < rows.free_event)
    return int(rows.size[:row][live[:row]].sum())


def offset_at(strips: Strips, row: int, event: int) -> float:
    """Read a path as a renderer does: straight between points, the last of several at an event."""
    events, offsets = strips.timesteps[row], strips.offsets[row]
    last = bisect_right(events, event) - 1
    if events[last] == event:
        return offsets[last]
    following = bisect_left(events, event)
    share = (event - events[last]) / (events[following] - events[last])
    return offsets[last] + share * (offsets[following] - offsets[last])
