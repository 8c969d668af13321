"""What a verdict on a failed request says, held against the simulated allocator and brute force."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from dev.simulator.settings import MIB, UNLIMITED, AllocatorSettings
from dev.simulator.workloads import Config, simulate
from snapreport.diagnosis.conclude import find
from snapreport.diagnosis.oom.verdict import OomVerdict, judge
from snapreport.figures.callsites import label_sites
from snapreport.model.diagnoses import OomEvent
from snapreport.model.findings import DeviceFindings
from snapreport.model.history import History
from tests.builders import history_of
from tests.thorough import some

Case = tuple[History, DeviceFindings, OomEvent, OomVerdict]


def cases(seed: int, *, private: bool = False, expandable: bool | None = None) -> Iterator[Case]:
    """Run a program on a device too small for it, and judge each request that failed."""
    rng = random.Random(seed)
    simulation = simulate(
        Config(
            seed=seed,
            operations=200,
            settings=AllocatorSettings(
                expandable_segments=rng.random() < 0.4 if expandable is None else expandable,
                max_split_size=rng.choice([UNLIMITED, 64 * MIB]) if expandable is None else -1,
            ),
            streams=rng.choice([1, 1, 2, 3]),
            capacity=rng.choice([256, 512]) * MIB,
            largest=rng.choice([64, 150, 300]) * MIB,
            target=rng.choice([10, 30]),
            private_pools=private,
        )
    )
    file = history_of(simulation.snapshot())
    (device,) = find(file).devices
    for oom in device.ooms:
        verdict = judge(file, device, oom)
        assert verdict is not None
        yield file, device, oom, verdict


@pytest.mark.parametrize("seed", some(range(60), 15))
def test_pools_add_up_and_what_is_missing_is_what_the_device_lacked(seed: int) -> None:
    for _, _, oom, verdict in cases(seed, private=seed % 3 == 0):
        for name in ("reserved", "allocated", "pending", "inactive"):
            assert sum(getattr(each, name) for each in verdict.pools) == getattr(verdict, name)
        assert verdict.reserved == oom.reserved
        assert verdict.ceiling == verdict.reserved + verdict.device_free
        assert verdict.needed <= verdict.needed_most
        assert verdict.missing == verdict.needed - verdict.device_free
        kept = verdict.pieces + verdict.locked + verdict.other_streams
        assert kept <= verdict.inactive


@pytest.mark.parametrize("seed", some(range(100), 25))
def test_a_request_of_the_default_pool_always_failed_for_lack_of_memory(seed: int) -> None:
    """The allocator has tried everything: so the figures must show that nothing could serve."""
    for _, _, _, verdict in cases(seed):
        assert verdict.cause not in ("limit", "unclear", "locked", "waiting", "foreign")
        assert verdict.missing > 0
        assert verdict.returnable == 0


@pytest.mark.parametrize("seed", some(range(0, 100, 2), 12))
def test_full_means_that_all_free_memory_together_is_too_little(seed: int) -> None:
    for _, _, _, verdict in cases(seed):
        free = verdict.device_free + verdict.inactive + verdict.pending
        if verdict.cause in ("full", "giant"):
            assert free < verdict.needed_most
        else:
            assert free >= verdict.needed


@pytest.mark.parametrize("seed", some(range(40), 10))
def test_removals_make_room_and_no_smaller_set_does(seed: int) -> None:
    for file, device, oom, verdict in cases(seed, expandable=False):
        number, names = label_sites(device.history, file.stacks)
        live = [
            row
            for row in range(len(device.history.allocations))
            if device.history.allocations.alloc_event[row] <= oom.event
            and oom.event < device.history.allocations.free_event[row]
        ]
        sites = {names[number[row]] for row in live}
        named = {name for name in sites if "  " in name or "::" in name}
        state = (device, oom, verdict, [(row, names[number[row]]) for row in live])
        alone = {name for name in named if makes_room(*state, {name})}
        found = [set(each.sites) for each in verdict.removals]
        assert all(makes_room(*state, each) for each in found)
        if alone:
            assert all(len(each) == 1 and each <= alone for each in found)
            assert len(found) == min(len(alone), 6)
        else:
            assert all(len(each) > 1 for each in found)


def makes_room(
    device: DeviceFindings,
    oom: OomEvent,
    verdict: OomVerdict,
    live: list[tuple[int, str]],
    gone: set[str],
) -> bool:
    """Walk the segments with some call sites' blocks gone, one by one."""
    rows, lives = device.history.allocations, device.allocator.segments
    blocks = sorted(
        (int(rows.addr[row]), int(rows.block_size[row])) for row, name in live if name not in gone
    )
    returned = 0
    for i in range(len(lives)):
        if not lives.start_event[i] <= oom.event < lives.end_event[i]:
            continue
        low = int(lives.address[i])
        high = low + int(lives.size[i])
        inside = [(start, size) for start, size in blocks if low <= start < high]
        if not inside:
            returned += high - low
        edges = [low, *(start + size for start, size in inside)]
        nexts = [*(start for start, _ in inside), high]
        hole = max(after - before for before, after in zip(edges, nexts, strict=True))
        same_stream = int(lives.stream[i]) == verdict.stream
        same_kind = (int(lives.kind[i]) == 0) == (verdict.size <= MIB)
        if same_stream and same_kind and hole >= verdict.size:
            return True
    return AllocatorSettings().segment_size(verdict.size) <= verdict.device_free + returned
