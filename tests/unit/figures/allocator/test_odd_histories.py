"""What no allocator did: it is not replayed, or replayed and found inexact, and never a bug."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from dev.simulator import Config, simulate
from snapreport import read
from snapreport.figures.allocator.factual import model_device
from snapreport.ground.errors import NotASnapshotError
from snapreport.history.build import build_history


@pytest.mark.parametrize("value", [0, 1, 2**40 + 1, 2**52, 2**62])
@pytest.mark.parametrize("key", ["addr", "size", "stream"])
@pytest.mark.parametrize("action", ["alloc", "free_completed", "segment_alloc", "segment_free"])
def test_an_odd_number_is_no_bug(action: str, key: str, value: int) -> None:
    snapshot: Any = simulate(Config(seed=5, operations=200, streams=2)).snapshot()
    chosen = [event for event in snapshot["device_traces"][0] if event["action"] == action]
    for event in chosen[::3]:
        event[key] = value
    try:
        history = build_history(read.read_bytes(pickle.dumps(snapshot, 4), "odd.pickle"))
    except NotASnapshotError:
        return  # no card has so much
    for device in history.devices:
        found = model_device(history, device)
        assert found is None or found.factual.placed <= found.factual.allocations


def test_many_pools_and_streams_are_not_told_apart() -> None:
    snapshot: Any = simulate(Config(seed=5, operations=400)).snapshot()
    for number, event in enumerate(snapshot["device_traces"][0]):
        event["pool_id"], event["stream"] = (number, 0), number * 512
    history = build_history(read.read_bytes(pickle.dumps(snapshot, 4), "odd.pickle"))
    assert model_device(history, history.devices[0]) is None
