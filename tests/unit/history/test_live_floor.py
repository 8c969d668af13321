"""What no setting of the allocator does without."""

from __future__ import annotations

from snapreport.history.block_sizes import LiveFloor, live_floor
from tests.builders import MIB, TraceBuilder, trace


def floor_of(made: TraceBuilder, *, divided: bool = False) -> LiveFloor:
    return live_floor(made.history(), divided)


def test_requests_count_rounded_to_512_bytes_and_blocks_do_not() -> None:
    # The first gets all 20 MiB, as less than 1 MiB would be left.
    made = trace().segment("a", 20 * MIB, (20 * MIB, 19 * MIB + 1000, "live"))
    made.alloc("a", 19 * MIB + 1000).alloc("b", 1)
    assert floor_of(made) == LiveFloor(19 * MIB + 1024 + 512, 1, failed=False)


def test_what_waits_for_another_stream_does_not_count() -> None:
    made = trace().alloc("a", MIB).request("a").alloc("b", MIB).complete("a")
    assert floor_of(made) == LiveFloor(MIB, 0, failed=False)


def test_a_failed_request_counts_with_what_was_live_then() -> None:
    made = trace().alloc("a", 3 * MIB).free("a").alloc("b", MIB)
    made.event("oom", size=5 * MIB, addr=MIB, device_free=MIB)
    assert floor_of(made) == LiveFloor(6 * MIB, 4, failed=True)
    # It may have been rounded up to nearly twice as much.
    assert floor_of(made, divided=True) == LiveFloor(MIB + 5 * MIB // 2, 4, failed=True)


def test_a_failed_request_below_the_most_changes_nothing() -> None:
    made = trace().alloc("a", 9 * MIB).free("a")
    made.event("oom", size=5 * MIB, addr=MIB, device_free=MIB)
    assert floor_of(made) == LiveFloor(9 * MIB, 0, failed=False)
