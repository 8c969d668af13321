"""Segments over time and fragmentation, against the definitions event by event."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np

from snapreport.figures.curves import find_curves, find_fragmentation
from snapreport.figures.segments import find_allocator_use, sum_of_first_below
from snapreport.history.segments import lives_of, segments_at
from snapreport.model.history import START, DeviceHistory, Events
from tests.property.simulated import Simulated, device_pairs, for_simulations


@for_simulations(120)
def test_segments_never_overlap_and_add_up_to_reserved(simulation: Simulated) -> None:
    for history, truth in device_pairs(simulation):
        lives = lives_of(history)
        assert (lives.start_event < lives.end_event).all()
        for event in range(-1, history.events):
            rows = segments_at(lives, event)
            ends = lives.address[rows] + lives.size[rows]
            assert (ends[:-1] <= lives.address[rows][1:]).all()
            assert int(lives.size[rows].sum()) == truth.reserved[event + 1]


@for_simulations(120)
def test_the_last_segments_are_those_of_the_file(simulation: Simulated) -> None:
    for history, _ in device_pairs(simulation):
        lives, segments = lives_of(history), history.segments
        rows = segments_at(lives, history.events - 1)
        assert lives.final[rows].tolist() == list(range(len(segments)))
        for name in ("address", "size", "stream", "pool", "expandable"):
            assert (getattr(lives, name)[rows] == getattr(segments, name)).all()
        assert (lives.kind[rows] == segments.large).all()
        assert ((lives.final >= 0) == (lives.end_event == history.events)).all()


@for_simulations(200)
def test_fragmentation_over_time_is_that_of_every_single_event(simulation: Simulated) -> None:
    for history, _ in device_pairs(simulation):
        assert_fragmentation_at_every_event(history)


@for_simulations(100)
def test_fragmentation_holds_when_segment_events_are_missing(simulation: Simulated) -> None:
    for history, _ in device_pairs(simulation):
        kept = np.flatnonzero(
            np.random.default_rng(history.events).random(len(history.other)) < 0.7
        )
        other = history.other
        some = Events(
            other.event[kept],
            [other.action[i] for i in kept],
            *(
                getattr(other, name)[kept]
                for name in ("addr", "size", "time_us", "stream", "pool", "stack")
            ),
        )
        assert_fragmentation_at_every_event(replace(history, other=some))


def assert_fragmentation_at_every_event(history: DeviceHistory) -> None:
    curves = find_curves(history)
    fragmentation = find_allocator_use(history, curves).fragmentation
    known = np.arange(-1, history.events) >= (curves.reserved_from or 0)
    if curves.reserved_from == START:
        known[:] = True
    expected = [find_fragmentation(history, event) for event in range(-1, history.events)]
    assert fragmentation.tolist() == np.where(known, expected, -1).tolist()


@for_simulations(100)
def test_the_figures_at_start_peak_and_end_are_on_the_curve(simulation: Simulated) -> None:
    for device in simulation.findings.devices:
        for amounts in (device.start, device.peak, device.end):
            assert device.allocator.fragmentation[amounts.event + 1] == amounts.fragmentation


@for_simulations(100)
def test_pools_and_kinds_that_are_found_are_true(simulation: Simulated) -> None:
    for device in simulation.findings.devices:
        rows, lives = device.history.allocations, device.allocator.segments
        for life in range(len(lives)):
            inside = (
                (rows.addr >= lives.address[life])
                & (rows.addr < lives.address[life] + lives.size[life])
                & (rows.alloc_event < lives.end_event[life])
                & (rows.free_event > lives.start_event[life])
            )
            pools = set(rows.pool[inside].tolist()) - {-1}
            assert pools <= {int(lives.pool[life])}
            assert set(rows.stream[inside].tolist()) <= {int(lives.stream[life])}
            large = (rows.block_size[inside] > 1 << 20).tolist()
            assert set(large) <= {bool(lives.kind[life])}
            if inside.any():
                assert lives.kind[life] >= 0


def test_sums_of_first_below_are_those_added_one_by_one() -> None:
    chance = random.Random(1)
    for size in (0, 1, 2, 7, 50):
        for queries in (1, 2, 3, 8, 40):
            values = [chance.randrange(20) for _ in range(size)]
            weights = [chance.randrange(-5, 6) for _ in range(size)]
            first = [chance.randint(0, size) for _ in range(queries)]
            bound = [chance.randrange(22) for _ in range(queries)]
            expected = [
                sum(w for v, w in zip(values[:n], weights[:n], strict=True) if v < below)
                for n, below in zip(first, bound, strict=True)
            ]
            arrays = [np.array(column, np.int64) for column in (values, weights, first, bound)]
            assert sum_of_first_below(*arrays).tolist() == expected
