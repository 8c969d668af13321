"""Which pool a segment and a failed request belong to, so far as the events say."""

from __future__ import annotations

import pickle

import pytest

from dev.simulator import OutOfMemoryError, Simulator
from dev.simulator.settings import MIB
from dev.simulator.simulator import OPTIONAL_KEYS
from snapreport import read
from snapreport.figures.allocator.tape import FAIL
from snapreport.history.build import build_history
from snapreport.history.segments import lives_of
from snapreport.model.history import History
from snapreport.model.snapshot import NO_ID
from tests.reference.replays import modelled_devices

GRAPH = (1, 0)


def captured(*keys: str, capacity: int = 1 << 34) -> Simulator:
    """40 MiB in a private pool and 40 in the default one, all of it freed and given back."""
    simulator = Simulator(capacity=capacity, optional_keys=keys)
    simulator.start_recording()
    (allocator,) = simulator.allocators
    allocator.begin_pool(GRAPH)
    private = simulator.malloc(40 * MIB)
    allocator.end_pool()
    allocator.release_pool(GRAPH)
    plain = simulator.malloc(40 * MIB)
    simulator.free(private)
    simulator.free(plain)
    simulator.empty_cache()
    return simulator


def read_in(simulator: Simulator) -> History:
    return build_history(read.read_bytes(pickle.dumps(simulator.snapshot(), 4), "snap.pickle"))


def test_events_name_the_pool_of_a_segment_that_is_gone() -> None:
    history = read_in(captured(*OPTIONAL_KEYS))
    (device,) = history.devices
    lives = lives_of(device)
    assert [history.pools[pool] for pool in lives.pool] == [GRAPH, (0, 0)]
    assert [history.pools[pool] for pool in device.other.pool] == [GRAPH, (0, 0), (0, 0), GRAPH]


def test_where_no_event_names_a_pool_none_is_made_up() -> None:
    (device,) = read_in(captured()).devices
    assert lives_of(device).pool.tolist() == [NO_ID, NO_ID]
    assert device.other.pool.tolist() == [NO_ID] * 4


def test_a_failed_request_is_of_the_pool_that_its_event_names() -> None:
    """The last allocation before it is of another, and no memory is given back for it."""
    simulator = captured(*OPTIONAL_KEYS, capacity=100 * MIB)
    held = simulator.malloc(60 * MIB)
    simulator.free(held)
    (allocator,) = simulator.allocators
    allocator.begin_pool((2, 0))
    with pytest.raises(OutOfMemoryError):
        simulator.malloc(60 * MIB)
    (modelled,) = modelled_devices(read_in(simulator))
    lanes, failed = modelled.tape.lanes, modelled.tape.op == FAIL
    assert [lanes[lane][0] for lane in modelled.tape.failed_lane[failed]] == [(2, 0)]
    assert modelled.factual.exact
