"""Splitting, merging, streams, private pools and running out of memory."""

from __future__ import annotations

import pytest

from dev.simulator import AllocatorSettings, OutOfMemoryError, Simulator
from dev.simulator.settings import MIB


def actions(simulator: Simulator, device: int = 0) -> list[str]:
    return [event["action"] for event in simulator.snapshot()["device_traces"][device]]


def tiles(simulator: Simulator) -> list[list[tuple[int, str]]]:
    """Size and state of every block, by segment."""
    return [
        [(block["size"], block["state"]) for block in segment["blocks"]]
        for segment in simulator.snapshot()["segments"]
    ]


def test_small_requests_share_a_segment(simulator: Simulator) -> None:
    first, second = simulator.malloc(100), simulator.malloc(600)
    assert second.address == first.address + 512
    assert tiles(simulator) == [
        [(512, "active_allocated"), (1024, "active_allocated"), (2 * MIB - 1536, "inactive")]
    ]


def test_a_remainder_up_to_1_mib_is_left_in_a_large_block(simulator: Simulator) -> None:
    block = simulator.malloc(19 * MIB + 1)
    assert block.size == 20 * MIB
    assert simulator.truth().block_size.tolist() == [20 * MIB]
    assert simulator.truth().size.tolist() == [19 * MIB + 1]


def test_the_best_fitting_hole_is_taken(simulator: Simulator) -> None:
    blocks = [simulator.malloc(size * MIB) for size in (6, 2, 4, 2)]
    simulator.free(blocks[0])
    simulator.free(blocks[2])
    assert simulator.malloc(4 * MIB).address == blocks[2].address


def test_free_neighbours_merge(simulator: Simulator) -> None:
    blocks = [simulator.malloc(512) for _ in range(3)]
    for position in (0, 2, 1):
        simulator.free(blocks[position])
    assert tiles(simulator) == [[(2 * MIB, "inactive")]]


def test_a_block_serves_only_its_own_stream(simulator: Simulator) -> None:
    simulator.free(simulator.malloc(512, stream=0))
    simulator.malloc(512, stream=7)
    assert [segment["stream"] for segment in simulator.snapshot()["segments"]] == [0, 7]


def test_a_free_is_pending_until_the_other_stream_has_passed(simulator: Simulator) -> None:
    allocator = simulator.allocators[0]
    block = simulator.malloc(512)
    allocator.record_stream(block, 7)
    simulator.free(block)
    simulator.malloc(512)
    assert tiles(simulator)[0][0] == (512, "active_pending_free")
    allocator.pass_events(7)
    simulator.malloc(1024)
    assert actions(simulator) == [
        "segment_alloc",
        "alloc",
        "free_requested",
        "alloc",
        "free_completed",
        "alloc",
    ]
    truth = simulator.truth()
    assert truth.free_requested_event.tolist() == [2, 6, 6]
    assert truth.free_event.tolist() == [4, 6, 6]
    assert truth.allocated.tolist() == [0, 0, 512, 0, 512, 512, 1536]
    assert truth.active.tolist() == [0, 0, 512, 512, 1024, 512, 1536]


def test_a_pending_free_carries_the_stack_of_the_request_that_completed_it(
    simulator: Simulator,
) -> None:
    allocator = simulator.allocators[0]
    block = simulator.malloc(512)
    allocator.record_stream(block, 7)
    simulator.free(block)
    allocator.pass_events(7)
    simulator.set_stack([{"name": "later", "filename": "train.py", "line": 9}])
    simulator.malloc(512)
    trace = simulator.snapshot()["device_traces"][0]
    assert trace[3]["action"] == "free_completed"
    assert trace[3]["frames"] is trace[4]["frames"]


def test_empty_cache_returns_whole_free_segments_only(simulator: Simulator) -> None:
    kept, gone = simulator.malloc(12 * MIB), simulator.malloc(14 * MIB)
    simulator.malloc(2 * MIB)
    simulator.free(gone)
    simulator.empty_cache()
    assert actions(simulator)[-1] == "segment_free"
    assert sorted(s["total_size"] for s in simulator.snapshot()["segments"]) == [12 * MIB, 20 * MIB]
    assert kept.allocated
    assert simulator.truth().reserved.tolist()[-1] == 32 * MIB


def test_freed_addresses_are_used_again(simulator: Simulator) -> None:
    first = simulator.malloc(12 * MIB)
    simulator.free(first)
    simulator.empty_cache()
    assert simulator.malloc(12 * MIB).address == first.address


def test_cached_segments_are_returned_before_memory_runs_out() -> None:
    simulator = Simulator(capacity=50 * MIB, others=6 * MIB)
    simulator.start_recording()
    simulator.free(simulator.malloc(30 * MIB))
    held = simulator.malloc(16 * MIB)
    assert held.size == 30 * MIB - 14 * MIB
    simulator.free(held)
    simulator.malloc(40 * MIB)
    assert actions(simulator)[-3:] == ["segment_free", "segment_alloc", "alloc"]
    with pytest.raises(OutOfMemoryError):
        simulator.malloc(5 * MIB + 1)
    assert simulator.snapshot()["device_traces"][0][-1]["action"] == "oom"
    assert simulator.snapshot()["device_traces"][0][-1]["device_free"] == 4 * MIB
    assert simulator.snapshot()["device_traces"][0][-1]["size"] == 5 * MIB + 512


def test_oversize_blocks_are_returned_first_when_max_split_size_is_set() -> None:
    simulator = Simulator(AllocatorSettings(max_split_size=20 * MIB), capacity=100 * MIB)
    simulator.start_recording()
    large, small = simulator.malloc(60 * MIB), simulator.malloc(20 * MIB - 512)
    simulator.free(large)
    simulator.free(small)
    simulator.malloc(30 * MIB)
    assert actions(simulator)[-3:] == ["segment_free", "segment_alloc", "alloc"]
    assert simulator.allocators[0].counters.reserved == 50 * MIB


def test_a_limit_of_the_process_counts_whole_segments() -> None:
    """512 bytes need 2 MiB, expandable or not; the driver would have had more."""
    for expandable in (False, True):
        simulator = Simulator(AllocatorSettings(expandable_segments=expandable))
        simulator.allocators[0].limit = 41 * MIB
        simulator.malloc(40 * MIB)
        with pytest.raises(OutOfMemoryError):
            simulator.malloc(1)


def test_garbage_collection_returns_what_is_unused_for_longest() -> None:
    """Of 100 MiB that are allowed 50 may be reserved, and 76 are. When 40 more are wanted, 30, 12
    and 14 MiB lie unused since 3, 2 and 1 searches of the large pool: the first two go back."""
    simulator = Simulator(AllocatorSettings(garbage_collection_threshold=0.5))
    simulator.start_recording()
    blocks = [simulator.malloc(size * MIB) for size in (30, 12, 14)]
    for block in blocks:
        simulator.free(block)
        if block is not blocks[-1]:
            simulator.malloc(9 * MIB, stream=7)
    simulator.allocators[0].limit = 100 * MIB
    simulator.malloc(40 * MIB)
    assert actions(simulator)[-4:] == ["segment_free"] * 2 + ["segment_alloc", "alloc"]
    trace = simulator.snapshot()["device_traces"][0]
    assert [event["size"] // MIB for event in trace[-4:-2]] == [12, 30]


def test_an_oversize_request_takes_a_hole_less_than_20_mib_larger() -> None:
    simulator = Simulator(AllocatorSettings(max_split_size=20 * MIB))
    simulator.start_recording()
    simulator.free(simulator.malloc(60 * MIB))
    assert simulator.malloc(41 * MIB).size == 60 * MIB
    simulator.free(simulator.malloc(80 * MIB))
    assert simulator.malloc(60 * MIB).size == 60 * MIB


def test_a_private_pool_serves_while_it_is_in_use(simulator: Simulator) -> None:
    allocator = simulator.allocators[0]
    allocator.begin_pool((1, 0))
    inside = simulator.malloc(512)
    allocator.end_pool()
    simulator.malloc(512)
    segments = simulator.snapshot()["segments"]
    assert [segment["segment_pool_id"] for segment in segments] == [(1, 0), (0, 0)]
    assert [event["pool_id"] for event in simulator.snapshot()["device_traces"][0]] == [
        (1, 0),
        (1, 0),
        (0, 0),
        (0, 0),
    ]
    simulator.free(inside)
    simulator.empty_cache()
    assert len(simulator.snapshot()["segments"]) == 2
    allocator.release_pool((1, 0))
    simulator.empty_cache()
    assert len(simulator.snapshot()["segments"]) == 1


def test_freeing_twice_is_an_error(simulator: Simulator) -> None:
    block = simulator.malloc(512)
    simulator.free(block)
    with pytest.raises(ValueError, match="is not allocated"):
        simulator.free(block)


def test_devices_have_traces_and_truths_of_their_own() -> None:
    simulator = Simulator(devices=3)
    simulator.start_recording()
    simulator.malloc(512, device=2)
    assert [truth.events for truth in simulator.truths()] == [0, 0, 2]
    assert [segment["device"] for segment in simulator.snapshot()["segments"]] == [2]
