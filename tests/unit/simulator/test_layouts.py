"""Older layouts made from a current snapshot."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dev.simulator import Config, Simulator, layouts, simulate


@pytest.fixture
def snapshot() -> dict[str, Any]:
    return simulate(Config(operations=80, annotations=True, record_from=20)).snapshot()


def test_torch21_has_no_times(snapshot: dict[str, Any]) -> None:
    old = layouts.torch21(snapshot)
    assert list(old) == ["segments", "device_traces"]
    assert not any("time_us" in event for event in old["device_traces"][0])
    assert old["segments"] == snapshot["segments"]


def test_a_version_has_the_keys_of_its_time() -> None:
    config = Config(seed=3, operations=300, labels=True, odd_frames=True, unknown_actions=True)
    written = [
        set(keys_of(layouts.as_of(simulate(config).snapshot(), v))) for v in layouts.VERSIONS
    ]
    new = [sorted(later - earlier) for earlier, later in itertools.pairwise(written)]
    assert new == [
        ["frames of a segment", "is_expandable", "segment_pool_id"],
        ["time_us"],
        ["allocator_settings"],
        ["external_annotations"],
        ["compile_context"],
        ["fx_node_name", "fx_node_op", "fx_node_target", "fx_original_trace", "user_metadata"],
        ["forward_frames"],
        ["pool_id"],
        ["annotate", "internal_metadata"],
    ]


def keys_of(snapshot: dict[str, Any]) -> Iterator[str]:
    """Yield all that a snapshot has keys for, and its kinds of events."""
    yield from snapshot
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
    events = [event for trace in snapshot["device_traces"] for event in trace]
    for segment in snapshot["segments"]:
        yield from ("frames of a segment" if key == "frames" else key for key in segment)
    for row in [*blocks, *events]:
        yield from row.keys() - {"history", "frames"}
        for frame in row.get("frames", ()):
            yield from frame
    yield from (event["action"] for event in events)


def test_pinned_memory_is_that_of_the_last_device() -> None:
    snapshot = simulate(Config(operations=80, devices=2)).snapshot()
    pinned = layouts.pinned(snapshot)
    assert pinned["host_traces"] == snapshot["device_traces"][1:]
    assert pinned["device_traces"] == [snapshot["device_traces"][0], []]
    assert sorted(map(str, pinned["segments"] + pinned["host_segments"])) == sorted(
        map(str, snapshot["segments"])
    )
    assert {segment["device"] for segment in pinned["segments"]} == {0}


def test_torch20_keeps_a_history_instead_of_addresses(snapshot: dict[str, Any]) -> None:
    old = layouts.torch20(snapshot)
    for segment, before in zip(old["segments"], snapshot["segments"], strict=True):
        assert "is_expandable" not in segment
        for block, current in zip(segment["blocks"], before["blocks"], strict=True):
            assert "address" not in block
            if current["state"] != "inactive":
                (entry,) = block["history"]
                assert entry["addr"] == current["address"]
                assert entry["real_size"] == current["requested_size"]
                assert len(entry.get("frames", [])) == len(current["frames"])


def test_only_free_completed_drops_the_requests(snapshot: dict[str, Any]) -> None:
    old = layouts.only_free_completed(snapshot)
    kept = [event["action"] for event in old["device_traces"][0]]
    assert "free_completed" in kept
    assert "free_requested" not in kept


def test_the_truth_follows_when_events_are_dropped() -> None:
    simulator = Simulator()
    simulator.start_recording()
    simulator.free(simulator.malloc(512))
    simulator.malloc(1024)
    # segment_alloc, alloc, free_requested, free_completed, alloc
    truth = simulator.truth().keeping(np.array([True, True, False, True, True]))
    assert truth.events == 4
    assert truth.alloc_event.tolist() == [1, 3]
    assert truth.free_requested_event.tolist() == [2, 4]
    assert truth.free_event.tolist() == [2, 4]
    assert truth.allocated.tolist() == [0, 0, 512, 0, 1024]


def test_the_profiler_layout_ends_with_the_cpu(snapshot: dict[str, Any]) -> None:
    old = layouts.profiler_layout(snapshot)
    assert len(old["device_traces"]) == 2
    assert old["device_traces"][-1] == []
    (segment,) = old["segments"]
    assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]
    assert "segment_type" not in segment
    assert {event["action"] for event in old["device_traces"][0]} <= {
        "alloc",
        "free_requested",
        "free_completed",
    }


def test_as_json_has_no_tuples(snapshot: dict[str, Any]) -> None:
    assert layouts.as_json(snapshot)["segments"][0]["segment_pool_id"] == [0, 0]
