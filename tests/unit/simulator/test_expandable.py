"""Segments that get and lose memory in granules."""

from __future__ import annotations

import pytest

from dev.simulator import OutOfMemoryError, Simulator
from dev.simulator.settings import MIB


def mappings(simulator: Simulator) -> list[tuple[str, int, int]]:
    """Action, address relative to the first, and MiB of every mapping event."""
    trace = simulator.snapshot()["device_traces"][0]
    found = [event for event in trace if event["action"].startswith("segment_")]
    return [
        (event["action"], event["addr"] - found[0]["addr"], event["size"] // MIB) for event in found
    ]


def test_the_large_pool_grows_by_granules_of_20_mib(expandable: Simulator) -> None:
    first, second = expandable.malloc(15 * MIB), expandable.malloc(30 * MIB)
    assert second.address == first.address + 15 * MIB
    assert mappings(expandable) == [("segment_map", 0, 20), ("segment_map", 20 * MIB, 40)]
    (segment,) = expandable.snapshot()["segments"]
    assert segment["is_expandable"]
    assert segment["total_size"] == 60 * MIB


def test_the_small_pool_grows_by_granules_of_2_mib(expandable: Simulator) -> None:
    for _ in range(3):
        expandable.malloc(MIB)
    assert mappings(expandable) == [("segment_map", 0, 2), ("segment_map", 2 * MIB, 2)]


def test_blocks_are_split_to_the_rounded_request(expandable: Simulator) -> None:
    assert expandable.malloc(19 * MIB + 1).size == 19 * MIB + 512


def test_unmapping_inside_leaves_two_segments(expandable: Simulator) -> None:
    blocks = [expandable.malloc(20 * MIB) for _ in range(3)]
    expandable.free(blocks[1])
    expandable.empty_cache()
    assert mappings(expandable)[-1] == ("segment_unmap", 20 * MIB, 20)
    segments = expandable.snapshot()["segments"]
    assert [s["address"] for s in segments] == [blocks[0].address, blocks[2].address]
    assert expandable.truth().reserved.tolist()[-1] == 40 * MIB


def test_only_whole_granules_are_unmapped(expandable: Simulator) -> None:
    expandable.malloc(10 * MIB)
    gone = expandable.malloc(45 * MIB)
    expandable.malloc(5 * MIB)
    expandable.free(gone)
    expandable.empty_cache()
    assert mappings(expandable)[-1] == ("segment_unmap", 20 * MIB, 20)
    sizes = [[b["size"] // MIB for b in s["blocks"]] for s in expandable.snapshot()["segments"]]
    assert sizes == [[10, 10], [15, 5]]


def test_an_unmapped_hole_is_mapped_again(expandable: Simulator) -> None:
    blocks = [expandable.malloc(20 * MIB) for _ in range(3)]
    expandable.free(blocks[1])
    expandable.empty_cache()
    assert expandable.malloc(20 * MIB).address == blocks[1].address
    assert len(expandable.snapshot()["segments"]) == 1


def test_a_failing_request_leaves_no_half_mapped_granules(expandable: Simulator) -> None:
    expandable.malloc(100 * MIB)
    with pytest.raises(OutOfMemoryError):
        expandable.malloc(101 * MIB)
    assert expandable.snapshot()["device_traces"][0][-1]["device_free"] == 100 * MIB
    assert expandable.truth().reserved.tolist()[-1] == 100 * MIB


def test_a_wholly_unmapped_segment_is_forgotten(expandable: Simulator) -> None:
    expandable.free(expandable.malloc(50 * MIB))
    expandable.empty_cache()
    assert expandable.snapshot()["segments"] == []
    assert expandable.truth().reserved.tolist()[-1] == 0
