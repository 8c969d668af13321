"""What a change frees at least and at most holds, whichever blocks the allocator then finds."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from dev.simulator import AllocatorSettings, Simulator
from snapreport.diagnosis.advice.edits import edited_peak, scaled
from snapreport.diagnosis.block_room import find_room, freed_by
from snapreport.ground.native.columns import sum_live
from snapreport.model.history import DeviceHistory, History
from snapreport.roles.steps import allocated_curve, allocated_outline
from tests.builders import MIB, history_of, trace

KIB = 1 << 10
Script = Sequence[tuple[int, int]]
"""Requests, as their number and size, and frees, as the number of the request and 0."""


def script(seed: int, count: int = 150) -> Script:
    """Make requests of up to 6 MiB and frees in a random order."""
    draw, made, live = random.Random(seed), [], []
    for i in range(count):
        made.append((i, draw.randint(1, 48) * 128 * KIB))
        live.append(i)
        while live and draw.random() < 0.44:
            made.append((live.pop(draw.randrange(len(live))), 0))
    return made


def run(steps: Script, expandable: bool = False) -> tuple[int, History]:
    """Return the allocated peak on the simulated card, and what was recorded."""
    made = Simulator(AllocatorSettings(expandable_segments=expandable), capacity=4096 * MIB)
    made.start_recording()
    blocks, peak = {}, 0
    for number, size in steps:
        if size:
            blocks[number] = made.malloc(size)
            peak = max(peak, made.allocators[0].counters.allocated)
        else:
            made.free(blocks.pop(number))
    return peak, history_of(made.snapshot())


@pytest.mark.parametrize("expandable", [False, True])
def test_the_peak_with_smaller_requests_is_within_bounds(expandable: bool) -> None:
    more = 0
    for seed in range(30):
        steps = script(seed)
        peak, file = run(steps, expandable)
        (device,) = file.devices
        # Every third request from the fortieth on is for half as much.
        shrinks = np.array([i >= 40 and i % 3 == 0 for i in range(len(device.allocations))])
        smaller = [(i, size // 2 if shrinks[i] else size) for i, size in steps]
        measured, changed = run(smaller, expandable)
        edit = scaled(device, shrinks, 0.5)
        room = find_room(device, file)
        unused, too_much = room.after(int(edit.begin.min()))
        bound = edited_peak(room.history, room.widest, [edit], unused, too_much)[0]
        outline = allocated_outline(room.history)
        assert edited_peak(room.history, outline, [edit])[0] <= measured <= bound
        assert bound < peak or not expandable
        ever = [each.block_size.sum() for each in (room.history.allocations, device.allocations)]
        more += find_room(changed.devices[0], changed).unused.sum() > ever[1] - ever[0]
    assert bool(more) == (not expandable)  # after the change more is unused than ever was before


@pytest.mark.parametrize("seed", range(8))
def test_the_peak_without_some_memory_is_within_bounds(seed: int) -> None:
    steps = script(seed)
    peak, file = run(steps)
    gone = [i for i in range(40, 150) if i % 4 == 0]
    measured, _ = run([(i, size) for i, size in steps if i not in gone])
    (device,) = file.devices
    rows = np.array(gone)
    frees = freed_by(file, device, rows, device.allocations.alloc_event[rows])
    assert frees.least <= peak - measured <= frees.most
    assert frees.least < frees.most


def rooms(device: DeviceHistory, file: History, first: int) -> list[float]:
    unused, _ = find_room(device, file).after(first)
    return [each / MIB for each in unused.tolist()]


def test_only_large_blocks_made_after_the_change_may_be_larger_than_their_requests() -> None:
    made = trace().alloc("before", 3 * MIB).alloc("small", MIB).alloc("large", 2 * MIB)
    file = made.file()
    assert rooms(file.devices[0], file, first=1) == [0, 0, 1]
    assert rooms(file.devices[0], file, first=-1) == [1, 0, 1]
    paged = made.settings(expandable_segments=True).file()
    assert rooms(paged.devices[0], paged, first=-1) == [0, 0, 0]
    limited = made.settings(expandable_segments=False, max_split_size=3 * MIB).file()
    assert rooms(limited.devices[0], limited, first=-1) == [20, 0, 1]


@pytest.mark.parametrize("seed", range(4))
def test_the_room_after_a_change_is_what_each_block_may_hold_then(seed: int) -> None:
    _, file = run(script(seed))
    (device,) = file.devices
    room, rows = find_room(device, file), device.allocations
    lives = rows.alloc_event, rows.free_requested_event, device.events
    placed = np.random.default_rng(seed).random(len(rows)) < 0.3
    for first in (-1, 0, device.events // 2, device.events):
        for some in (None, placed):
            before = rows.alloc_event < first
            kept = before if some is None else before | some
            rows_of_some = None if some is None else np.flatnonzero(some)
            unused, too_much = room.after(first, rows_of_some)
            assert (unused == np.where(kept, room.unused, room.possible)).all()
            curve = room.widest.curve - sum_live(*too_much, device.events)
            assert (curve == allocated_curve(room.history) + sum_live(unused, *lives)).all()
