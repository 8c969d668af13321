"""The limit of a process, told from what it collected as garbage and what failed under it."""

from __future__ import annotations

import pickle

import pytest

from dev.simulator import AllocatorSettings, Simulator
from dev.simulator.settings import MIB
from snapreport import read
from snapreport.figures.allocator.factual import ModelledDevice
from snapreport.history.build import build_history
from tests.reference.replays import modelled_devices


def limited(megabytes: int, settings: AllocatorSettings) -> Simulator:
    simulator = Simulator(settings)
    simulator.allocators[0].limit = megabytes * MIB
    simulator.start_recording()
    return simulator


def modelled(simulator: Simulator) -> ModelledDevice:
    file = pickle.dumps(simulator.snapshot(), 4)
    (found,) = modelled_devices(build_history(read.read_bytes(file, "snap.pickle")))
    return found


@pytest.mark.parametrize("older", [12, 30])
def test_garbage_is_collected_where_it_was(older: int) -> None:
    """Half of 140 MiB may be reserved. With 62 nothing is collected, with 76 the older of two; the
    limit is then at least twice 62, and below twice 76."""
    simulator = limited(140, AllocatorSettings(garbage_collection_threshold=0.5))
    first, second = simulator.malloc(older * MIB), simulator.malloc((42 - older) * MIB)
    simulator.malloc(20 * MIB)
    simulator.free(first)
    simulator.malloc(14 * MIB, stream=7)
    simulator.free(second)
    simulator.set_stack([{"name": "forward", "filename": "train.py", "line": 8}])
    simulator.malloc(50 * MIB)
    found = modelled(simulator)
    assert found.factual.exact
    assert len(found.tape.collected) == 1
    assert found.tape.limited
    assert found.factual.capacity is not None
    assert 124 * MIB <= found.factual.capacity < 152 * MIB


def test_without_a_limit_no_garbage_is_collected() -> None:
    simulator = Simulator(AllocatorSettings(garbage_collection_threshold=0.5), capacity=60 * MIB)
    simulator.start_recording()
    simulator.free(simulator.malloc(40 * MIB))
    simulator.malloc(50 * MIB)
    found = modelled(simulator)
    assert found.factual.exact


def test_a_limit_is_held_against_whole_segments() -> None:
    """60 MiB are mapped, 25 of them free behind 35. For 40 more 20 are lacking, but 40 are counted:
    only once 20 are unmapped are they served, and then 80 are mapped."""
    simulator = limited(90, AllocatorSettings(expandable_segments=True))
    simulator.malloc(35 * MIB)
    simulator.free(simulator.malloc(25 * MIB))
    simulator.set_stack([{"name": "forward", "filename": "train.py", "line": 8}])
    simulator.malloc(40 * MIB)
    found = modelled(simulator)
    assert len(found.tape.retried) == 1
    assert found.factual.exact
    assert found.tape.limited
    assert found.factual.capacity == 80 * MIB
