"""Strips stack without gap or overlap in birth order, and their top is the requested curve."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise

import numpy as np
import pytest

from snapreport.bundle.strips import sampled_steps
from snapreport.figures.curves import find_curves
from snapreport.model.history import DeviceHistory
from tests.laid_strips import Strips, make_strips
from tests.property.simulated import Simulated, device_files, for_simulations

EXACT = 1 << 30


@pytest.mark.parametrize("columns", [1, 2, 3, 7, 20, EXACT])
def test_live_strips_stack_up_to_the_curve_at_every_sampled_step(columns: int) -> None:
    @for_simulations(120)
    def check(simulation: Simulated) -> None:
        for _, device in device_files(simulation):
            strips = make_strips(device, columns)
            requested = find_curves(device).requested
            for step in sampled_steps(device, columns).tolist():
                top = 0
                for row in live_rows(device, step):
                    assert offset_at(strips, row, step) == top
                    top += strips.size[row]
                assert top == int(requested[step + 1])

    check()


@pytest.mark.parametrize("columns", [1, 3, 20, EXACT])
def test_births_and_deaths_are_exact(columns: int) -> None:
    @for_simulations(120)
    def check(simulation: Simulated) -> None:
        for _, device in device_files(simulation):
            rows, strips = device.allocations, make_strips(device, columns)
            for row in range(len(rows)):
                born, died = int(rows.alloc_step[row]), int(rows.free_step[row])
                steps, offsets = strips.timesteps[row], strips.offsets[row]
                assert steps[0] == max(born, 0)
                assert offsets[0] == below(device, row, born)
                # It ends where it lay just before the event that freed it.
                assert steps[-1] == (died if died < device.events else max(device.events, 1))
                assert offsets[-1] == below(device, row, died - 1)

    check()


@pytest.mark.parametrize("columns", [1, 3, 20, EXACT])
def test_paths_go_forward_and_never_below_zero(columns: int) -> None:
    @for_simulations(120)
    def check(simulation: Simulated) -> None:
        for _, device in device_files(simulation):
            strips = make_strips(device, columns)
            assert strips.size == device.allocations.size.tolist()
            for steps, offsets in zip(strips.timesteps, strips.offsets, strict=True):
                assert len(steps) == len(offsets) >= 2
                assert steps == sorted(steps)
                # What lies below can only be freed, so an offset can only fall.
                assert offsets == sorted(offsets, reverse=True)
                assert offsets[-1] >= 0

    check()


@for_simulations(120)
def test_each_column_is_sampled_at_its_most_requested_step(simulation: Simulated) -> None:
    for _, device in device_files(simulation):
        requested = find_curves(device).requested[1:]
        for columns in (1, 3, 20):
            steps = sampled_steps(device, columns)
            if device.events <= columns:
                assert steps.tolist() == list(range(device.events))
                continue
            edges = [i * device.events // columns for i in range(columns + 1)]
            parts = [requested[a:b] for a, b in pairwise(edges)]
            assert len(steps) == columns
            assert requested[steps].tolist() == [int(part.max()) for part in parts]
            assert (np.searchsorted(edges, steps, side="right") - 1).tolist() == list(
                range(columns)
            )


def live_rows(device: DeviceHistory, step: int) -> list[int]:
    rows = device.allocations
    live: list[int] = np.flatnonzero((rows.alloc_step <= step) & (step < rows.free_step)).tolist()
    return live


def below(device: DeviceHistory, row: int, step: int) -> int:
    """Add up what lies under a strip after a step: what was born before it and is live."""
    rows = device.allocations
    live = (rows.alloc_step <= step) & (step < rows.free_step)
    return int(rows.size[:row][live[:row]].sum())


def offset_at(strips: Strips, row: int, step: int) -> float:
    """Read a path as a renderer does: straight between points, the last of several at a step."""
    steps, offsets = strips.timesteps[row], strips.offsets[row]
    last = bisect_right(steps, step) - 1
    if steps[last] == step:
        return offsets[last]
    following = bisect_left(steps, step)
    share = (step - steps[last]) / (steps[following] - steps[last])
    return offsets[last] + share * (offsets[following] - offsets[last])
