"""The model of the allocator: the same in C and in Python, and exact on what is simulated."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dev.simulator import Config, simulate
from dev.simulator.allocator import DeviceAllocator
from dev.simulator.settings import AllocatorSettings
from snapreport import read
from snapreport.figures.allocator.factual import ModelledDevice
from snapreport.figures.allocator.replaying import TOP, UNIT, Addresses, CapacitySearch
from snapreport.figures.allocator.settings import TABLE, WAYS
from snapreport.ground.native.allocator_replay import AS_RECORDED, ASCENDING, DESCENDING, FIRST_FIT
from snapreport.history.allocator_settings import parse_settings
from snapreport.history.build import build_history
from tests.property.simulated import Simulated, for_simulations, simulations
from tests.reference.allocator import Replay
from tests.reference.allocator_parts import NEVER, Conf
from tests.reference.replays import (
    conf_of,
    is_exact,
    modelled_devices,
    recorded_bounds,
    replay,
    same_outcome,
)
from tests.thorough import some, tried

MIB = 1 << 20
_OVER = AllocatorSettings(max_split_size=20 * MIB)
_EXPANDABLE = AllocatorSettings(expandable_segments=True)
_BOTH = AllocatorSettings(expandable_segments=True, max_split_size=20 * MIB)
_LARGE = AllocatorSettings(large_segment_size=64 * MIB)
_LARGE_PAGES = AllocatorSettings(large_segment_size=64 * MIB, expandable_segments=True)
_LARGE_SPLIT = AllocatorSettings(
    large_segment_size=12 * MIB, max_split_size=16 * MIB, max_non_split_rounding=40 * MIB
)
_GARBAGE = AllocatorSettings(garbage_collection_threshold=0.6)
_LIMITED = {"capacity": 512 * MIB, "memory_fraction": 0.8}
SIMULATED: dict[str, dict[str, Any]] = {
    "plain": {},
    "streams": {"streams": 3},
    "max_split": {"settings": _OVER, "largest": 200 * MIB},
    "large segments": {"settings": _LARGE, "streams": 2},
    "large segments, expandable": {"settings": _LARGE_PAGES, "streams": 2},
    "large segments and max_split": {"settings": _LARGE_SPLIT, "largest": 200 * MIB},
    "large segments, retries": {"settings": _LARGE_PAGES, "capacity": 512 * MIB},
    "roundup": {"settings": AllocatorSettings(roundup_power2_divisions=(4,) * 16)},
    "expandable": {"settings": _EXPANDABLE, "streams": 3},
    "expandable and max_split": {"settings": _BOTH, "streams": 2, "largest": 200 * MIB},
    "private pools": {"private_pools": True},
    "expandable private pools": {"private_pools": True, "settings": _EXPANDABLE},
    "retries": {"capacity": 256 * MIB, "streams": 3},
    "retries with max_split": {
        "capacity": 512 * MIB,
        "streams": 2,
        "settings": _OVER,
        "largest": 200 * MIB,
    },
    "retries, expandable": {"capacity": 256 * MIB, "settings": _EXPANDABLE, "streams": 2},
    "limit of the process": {**_LIMITED, "streams": 3},
    "limit of the process, expandable": {**_LIMITED, "settings": _EXPANDABLE},
    "garbage collection": {**_LIMITED, "settings": _GARBAGE, "streams": 2},
    "garbage collection and max_split": {
        **_LIMITED,
        "capacity": 1024 * MIB,
        "settings": AllocatorSettings(max_split_size=20 * MIB, garbage_collection_threshold=0.6),
        "largest": 200 * MIB,
    },
    "garbage collection, late": {**_LIMITED, "settings": _GARBAGE, "record_from": 150},
    "garbage collection without a limit": {"settings": _GARBAGE, "capacity": 256 * MIB},
    "cut": {"max_entries": 200, "streams": 3},
    "cut, expandable": {"max_entries": 200, "settings": _EXPANDABLE},
    "cut, max_split": {"max_entries": 200, "streams": 2, "settings": _OVER, "largest": 200 * MIB},
    "cut, retries": {"max_entries": 200, "capacity": 256 * MIB},
    "late": {"record_from": 150},
    "late, private pools": {"record_from": 150, "private_pools": True, "streams": 2},
    "retries, private pools": {"capacity": 256 * MIB, "private_pools": True, "streams": 2},
}
"""What is simulated."""
UNTOLD: dict[str, dict[str, Any]] = {
    f"{name}, untold": {**SIMULATED[name], "optional_keys": ()}
    for name in SIMULATED
    if "private" in name
}
"""Programs whose events name no pool, as those of PyTorch before 2.13: some are not exact."""


def modelled(simulation: Simulated) -> Iterator[ModelledDevice]:
    yield from modelled_devices(simulation.history)


@contextmanager
def own_stack_of_empty_cache(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let ``empty_cache()`` be called from a place of its own, as in every program."""
    plain = DeviceAllocator.empty_cache

    def from_its_place(allocator: DeviceAllocator) -> None:
        frames = allocator.recorder.frames
        here = {"name": "emptyCache", "filename": "CUDACachingAllocator.cpp", "line": 1}
        allocator.recorder.frames = [here, *frames]
        plain(allocator)
        allocator.recorder.frames = frames

    with patch.context() as patched:
        patched.setattr(DeviceAllocator, "empty_cache", from_its_place)
        yield


@pytest.mark.parametrize("name", SIMULATED)
def test_what_is_simulated_is_replayed_exactly(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = tests = 0
    with own_stack_of_empty_cache(monkeypatch):
        for seed in some(range(20), 8):
            simulator = simulate(Config(seed=seed, operations=400, **SIMULATED[name]))
            file = pickle.dumps(simulator.snapshot(), 4)
            for each in modelled_devices(build_history(read.read_bytes(file, "snap.pickle"))):
                tests += 1
                exact += each.factual.exact
                assert each.factual.exact == is_exact(each, replay(each))
    assert tests
    # Of a few simulations, as where the library is sanitized, no share can be told.
    assert tests < 8 or exact >= 0.95 * tests


@pytest.mark.parametrize("settings", [_LARGE, _LARGE_PAGES], ids=["plain", "expandable"])
def test_a_size_of_large_segments_that_was_set_at_run_time_shows_in_the_segments(
    settings: AllocatorSettings,
) -> None:
    """The recorded text is that of the last call, here of another setting."""
    sizes = set[int]()
    for seed in range(4):
        snapshot = simulate(Config(seed=seed, operations=400, settings=settings)).snapshot()
        snapshot["allocator_settings"]["PYTORCH_CUDA_ALLOC_CONF"] = "pinned_num_register_threads:2"
        file = pickle.dumps(snapshot, 4)
        for each in modelled_devices(build_history(read.read_bytes(file, "snap.pickle"))):
            assert each.factual.exact
            sizes.add(each.settings.large_segment_size)
    assert sizes == {64 * MIB}


@for_simulations(150)
def test_the_model_and_the_reference_do_the_same(simulation: Simulated) -> None:
    for each in modelled(simulation):
        conf = conf_of(each.settings, **recorded_bounds(each), room=each.tape.room)
        same_outcome(each, conf, Replay(each.tape, conf).run())


_OTHER = st.builds(
    Conf,
    expandable=st.booleans(),
    max_split=st.sampled_from([NEVER, NEVER, 20 * MIB, 64 * MIB]),
    divisions=st.sampled_from([(), (2,) * 16, (8,) * 16]),
    large_segment=st.sampled_from([20 * MIB, 12 * MIB, 40 * MIB]),
    max_rounding=st.sampled_from([20 * MIB, 64 * MIB]),
    capacity=st.sampled_from([NEVER, 100 * MIB, 300 * MIB, 1000 * MIB]),
    room=st.sampled_from([1 << 40, 200 * MIB, 1]),
    policy=st.sampled_from([AS_RECORDED, ASCENDING, DESCENDING, FIRST_FIT]),
    stop=st.booleans(),
)


@tried(150)
@given(simulation=simulations(), conf=_OTHER)
def test_the_model_and_the_reference_do_the_same_under_other_settings(
    simulation: Simulated, conf: Conf
) -> None:
    for each in modelled(simulation):
        segments = each.tape.segments
        below = int(segments[0, 0]) if len(segments) else TOP
        same = Conf(**{**vars(conf), "below": below})
        same_outcome(each, same, Replay(each.tape, same).run())


@tried(60)
@given(simulation=simulations(), threshold=st.sampled_from([0.25, 0.5, 0.8]))
def test_the_model_and_the_reference_collect_the_same_garbage(
    simulation: Simulated, threshold: float
) -> None:
    for each in modelled(simulation):
        capacity = 512 * MIB
        conf = conf_of(each.settings, capacity=capacity, limit=capacity // 2, room=1 << 40)
        same = Conf(**{**vars(conf), "gc_threshold": threshold})
        same_outcome(each, same, Replay(each.tape, same).run())


@tried(60)
@given(
    simulation=simulations(),
    settings=st.sampled_from([*TABLE, "garbage_collection_threshold:0.5"]),
    way=st.sampled_from(WAYS),
    capacities=st.lists(st.integers(10 * MIB, 600 * MIB), min_size=4, max_size=12),
)
def test_a_replay_that_stands_for_other_capacities_is_what_each_of_them_gives(
    simulation: Simulated, settings: str, way: Addresses, capacities: list[int]
) -> None:
    chosen = parse_settings(settings)
    for each in modelled(simulation):
        search = CapacitySearch(each.model, chosen, 0)
        near = search.find(way).capacity
        bounds = [search.at(capacity, way).enough + by for capacity in capacities for by in (-1, 0)]
        for capacity in [*capacities, *bounds, *(near + by for by in (-UNIT, -1, 0, 1, UNIT))]:
            if capacity >= each.tape.reserved:
                found = vars(search.at(capacity, way))
                again = vars(each.model.replay(chosen, capacity, way, stop=True))
                assert {**found, "placed": 0, "events": 0} == {**again, "placed": 0, "events": 0}


@for_simulations(60)
def test_no_two_blocks_lie_over_one_another(simulation: Simulated) -> None:
    """Nor outside of a segment: whatever the settings are."""
    for each in modelled(simulation):
        found = Replay(each.tape, Conf(capacity=300 * MIB, policy=ASCENDING, room=1 << 40)).run()
        blocks = sorted((b.address, b.size) for b in found.blocks_in_use())
        for (start, size), (following, _) in pairwise(blocks):
            assert start + size <= following
        assert found.peak >= np.max([size for _, size in blocks], initial=0)
