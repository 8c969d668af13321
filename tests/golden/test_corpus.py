"""Every figure of the golden table of real snapshots, through the public API."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import pytest

import snapreport
from snapreport.model.snapshot import INACTIVE, NO_STACK
from tests.corpus import loaded

Load: TypeAlias = Callable[[str], snapreport.Snapshot]


class Golden(NamedTuple):
    """One row of section 8's table; None where the table has a dash."""

    file: str
    device: int
    events: int
    baseline: int
    requested: tuple[int, int]
    """Peak bytes and its event."""
    allocated: tuple[int, int] | None
    reserved: tuple[int, int, int] | None
    """At the start, the most, at the end."""
    reserved_end: int


TABLE = [
    Golden(
        *("mem_snapshot", 0, 97, 0),
        *((3249143816, 52), (3249144832, 52)),
        *((0, 3781165056, 3781165056), 3781165056),
    ),
    Golden(
        *("memory_forward_bf16_128", 0, 2811, 523811840),
        *((779837440, 2630), (815783936, 2630)),
        *((861929472, 861929472, 861929472), 861929472),
    ),
    Golden(
        *("medium_512_training", 0, 22332, 5095567360),
        *((12426629128, 3485), (12434494464, 3485)),
        *((12593397760, 12660506624, 12660506624), 12660506624),
    ),
    Golden(
        *("memory_ctx128_forward_", 0, 4657, 13628553216),
        *((19352504320, 4656), (19498420224, 4656)),
        *((13763608576, 19667091456, 19667091456), 19667091456),
    ),
    Golden(
        *("oom_snapshot_torch20", 0, 1, 11840159744),
        *((11840159744, -1), (11840159744, -1)),
        *((11844714496, 11844714496, 11844714496), 11844714496),
    ),
    Golden(
        *("three_gpus_expandable_oom", 0, 6445, 0),
        *((8456473388, 6278), (8456489984, 6278)),
        *((0, 8541700096, 8541700096), 8541700096),
    ),
    Golden(
        *("three_gpus_expandable_oom", 1, 596, 0),
        *((84063351764, 420), (84063358976, 420)),
        *((0, 84202749952, 84202749952), 84202749952),
    ),
    Golden(
        *("three_gpus_expandable_oom", 2, 882, 0),
        *((21564645800, 715), (21564660224, 715)),
        *((0, 21883781120, 21883781120), 21883781120),
    ),
    Golden(
        *("compiled_2.7b_forward", 0, 8694, 29702023684),
        *((33895840260, 3404), None, None, 34898706432),
    ),
    Golden(
        *("no_times_torch21", 0, 10307, 1095725248),
        *((5876132840, 3697), None, None, 6471811072),
    ),
    Golden(
        *("sgd_annotated", 0, 23105, 0),
        *((1783664516, 11205), None, None, 1897922560),
    ),
    Golden(
        *("snapshot_event_inside", 0, 902, 186240),
        *((5692437840, 847), None, None, 9196011520),
    ),
    Golden(
        *("compiled_lone_end", 0, 1, 31830431880),
        *((31830431880, -1), None, None, 31843155968),
    ),
    Golden(
        *("one_event_ring", 0, 1, 16380108176),
        *((16380108176, -1), None, None, 17133731840),
    ),
]


@pytest.fixture(scope="module")
def load(corpus: Path) -> Load:
    """Load a file of the corpus by its name without the ending, once."""
    return lambda name: loaded(corpus / f"{name}.pickle")


def row_id(row: Golden) -> str:
    return f"{row.file}-{row.device}"


@pytest.mark.parametrize("row", TABLE, ids=row_id)
def test_requested_figures_are_golden(load: Load, row: Golden) -> None:
    device = load(row.file).device(row.device).figures
    assert device.history.events == row.events
    assert device.start.requested == row.baseline
    assert (device.peaks["requested"].bytes, device.peaks["requested"].event) == row.requested


@pytest.mark.parametrize("row", [row for row in TABLE if row.allocated], ids=row_id)
def test_allocated_figures_are_golden(load: Load, row: Golden) -> None:
    device = load(row.file).device(row.device).figures
    assert (device.peaks["allocated"].bytes, device.peaks["allocated"].event) == row.allocated
    if device.recorded:
        assert (device.peak.allocated, device.peak.event) == row.allocated
    else:  # one event or none: what is known is the end
        assert device.peak == device.end


@pytest.mark.parametrize("row", TABLE, ids=row_id)
def test_reserved_figures_are_golden(load: Load, row: Golden) -> None:
    device = load(row.file).device(row.device).figures
    assert device.end.reserved == row.reserved_end
    if row.reserved is not None:
        most = device.peaks["reserved"].bytes
        assert (device.start.reserved, most, device.end.reserved) == row.reserved


@pytest.mark.parametrize("row", TABLE, ids=row_id)
def test_peak_trees_and_amounts_agree_with_the_curves(load: Load, row: Golden) -> None:
    device = load(row.file).device(row.device).figures
    peak = device.peak
    assert device.tree.bytes[0] == device.peaks["allocated"].bytes
    assert device.tree.count[0] == peak.live
    assert sum(site.bytes for site in device.sites) == peak.allocated
    assert peak.slack == peak.active - peak.requested
    assert peak.reserved is not None
    assert peak.inactive == peak.reserved - peak.active
    assert peak.fragmentation is not None
    assert 0 <= peak.fragmentation <= peak.inactive


@pytest.mark.parametrize("row", TABLE, ids=row_id)
def test_no_real_block_is_known_within_a_range_alone(load: Load, row: Golden) -> None:
    """Two files had four such blocks, of 3,440,640 bytes together, before their ends were found."""
    device = load(row.file).device(row.device)
    assert device.peaks["allocated"].width == 0
    rows = device.figures.history.allocations
    assert (rows.block_size == rows.block_size_max).all()


def test_the_forward_trace_has_its_baseline_stacks_and_peak_blocks(load: Load) -> None:
    snapshot = load("memory_forward_bf16_128")
    device = snapshot.device(0).figures
    rows = device.history.allocations
    baseline = rows.alloc_event == -1
    assert int(baseline.sum()) == 137
    assert int(rows.size[baseline].sum()) == 523811840
    assert int(rows.block_size[baseline].sum()) == 525286400
    in_trace = ~baseline & (rows.alloc_event <= 2630) & (rows.free_event > 2630)
    assert int(in_trace.sum()) == 90
    assert int(rows.size[in_trace].sum()) == 256025600
    assert int(rows.block_size[in_trace].sum()) == 290497536
    assert device.end.requested == device.start.requested
    assert int((~baseline).sum()) == 937
    assert len(device.history.segments) == 43
    assert len(device.history.segments.block_state) == 178
    assert int((device.history.segments.block_state != INACTIVE).sum()) == 137


def test_the_forward_trace_has_133_stacks_of_363_frames(load: Load) -> None:
    history = load("memory_forward_bf16_128").history
    (device,) = history.devices
    rows = device.allocations
    in_trace = rows.alloc_event >= 0
    used = np.concatenate([rows.stack[in_trace], rows.free_stack[in_trace]])
    distinct = set(used.tolist()) - {NO_STACK}
    assert len(distinct) == 133
    assert len({frame for stack in distinct for frame in history.stacks.path(stack)}) == 363


def test_29_small_requests_of_the_forward_trace_fill_blocks_of_2_mib(load: Load) -> None:
    rows = load("memory_forward_bf16_128").device(0).history.allocations
    live = (rows.alloc_event >= 0) & (rows.alloc_event <= 2630) & (rows.free_event > 2630)
    unsplit = live & (rows.block_size > rows.size)
    assert int(unsplit.sum()) == 46
    assert int((unsplit & (rows.size == 1179648) & (rows.block_size == 2097152)).sum()) == 29


def test_the_second_gpu_ran_out_of_memory_at_event_421(load: Load) -> None:
    snapshot = load("three_gpus_expandable_oom")
    device = snapshot.device(1).figures
    (oom,) = device.ooms
    assert (oom.event, oom.size, oom.device_free) == (421, 5308694528, 95682560)
    before = [
        action
        for event, action in zip(
            device.history.other.event.tolist(), device.history.other.action, strict=True
        )
        if event < 421
    ]
    assert before[-7:] == ["segment_unmap"] * 6 + ["segment_map"]
    assert 420 in device.history.allocations.alloc_event
    assert snapshot.history.default_device == 1


def test_the_earlier_snapshot_events_state_the_active_bytes(load: Load) -> None:
    device = load("snapshot_event_inside").device(0).figures
    rows, other = device.history.allocations, device.history.other
    markers = [i for i, action in enumerate(other.action) if action == "snapshot"]
    assert markers
    for i in markers:
        event = int(other.event[i])
        active = rows.block_size[(rows.alloc_event <= event) & (event < rows.free_event)].sum()
        assert int(active) == int(other.size[i])
