"""Block sizes: the allocator's rounding and the hole rule, in cases worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from dev.simulator import Simulator
from snapreport.history.allocator_settings import recorded_settings
from snapreport.history.block_sizes import round_sizes
from tests.builders import BASE, KIB, MIB, TraceBuilder, history_of, trace


def rounded(size: int, **divisions: int) -> int:
    table = {key.strip("_"): value for key, value in divisions.items()}
    rules = recorded_settings({"roundup_power2_divisions": table})
    return int(round_sizes(np.array([size]), rules)[0])


@pytest.mark.parametrize(
    ("size", "expected"), [(1, 512), (511, 512), (512, 512), (513, 1024), (MIB - 1, MIB)]
)
def test_sizes_are_rounded_up_to_512(size: int, expected: int) -> None:
    assert rounded(size) == expected


@pytest.mark.parametrize(
    ("size", "divisions", "expected"),
    [
        (1200, 2, 1536),  # between 1024 and 2048 in steps of 512
        (1024, 2, 1024),  # a power of two stays
        (MIB, 3, MIB),  # also where parts are no power of two
        (1024, 4, 1024),  # not above 512 * 4: plain rounding
        (2049, 4, 2560),
        (3 * KIB, 4, 3 * KIB),
        (3 * KIB + 1, 4, 3584),
        (MIB + 1, 4, MIB + 256 * KIB),
        (1200, 1, 1536),  # 1 and 0 are off
        (1200, 0, 1536),
        (600, 1024, 1024),  # below 512 * 1024: plain
        (600, 2**70, 1024),  # a stranger's number
    ],
)
def test_divisions_round_to_events_between_powers_of_two(
    size: int, divisions: int, expected: int
) -> None:
    assert rounded(size, _1=divisions) == expected


def test_the_division_is_that_of_the_sizes_own_power_of_two() -> None:
    table = {"_1": 0, "_2": 4, "_4": 0}
    assert rounded(2 * MIB - 512, **table) == 2 * MIB - 512
    assert rounded(2 * MIB + 512, **table) == 2 * MIB + 512 * KIB
    assert rounded(4 * MIB + 512, **table) == 4 * MIB + 512


def test_settings_of_an_odd_shape_are_the_defaults() -> None:
    plain = recorded_settings({})
    assert recorded_settings({"roundup_power2_divisions": {"1": "x"}}) == plain
    assert recorded_settings({"roundup_power2_divisions": 3, "max_split_size": "x"}) == plain
    assert recorded_settings({"max_split_size": -1}) == plain


def sizes(builder: TraceBuilder) -> list[tuple[int, int]]:
    rows = builder.history().allocations
    return list(zip(rows.block_size.tolist(), rows.block_size_max.tolist(), strict=True))


def one_hole(hole: int, size: int) -> TraceBuilder:
    """A large segment in which ``size`` is allocated in a hole, and freed again."""
    return (
        trace()
        .event("segment_alloc", addr=BASE, size=20 * MIB)
        .alloc(BASE + hole, 20 * MIB - hole)
        .alloc(BASE, size)
        .free(BASE)
        .free(BASE + hole)
        .segment(BASE, 20 * MIB)
    )


def test_a_large_hole_is_split_only_when_more_than_a_mib_remains() -> None:
    assert sizes(one_hole(5 * MIB, 4 * MIB))[1] == (5 * MIB, 5 * MIB)
    assert sizes(one_hole(5 * MIB + 512, 4 * MIB))[1] == (4 * MIB, 4 * MIB)


def test_a_small_block_never_has_slack_beyond_rounding() -> None:
    builder = trace().event("segment_alloc", addr=BASE, size=2 * MIB)
    builder.alloc(BASE, 700).free(BASE).segment(BASE, 2 * MIB, large=False)
    assert sizes(builder) == [(1024, 1024)]


def test_a_pending_block_still_bounds_the_hole_below_it() -> None:
    builder = (
        trace()
        .event("segment_alloc", addr=BASE, size=20 * MIB)
        .alloc(BASE + 5 * MIB, 10 * MIB)
        .request(BASE + 5 * MIB)
        .alloc(BASE, 4 * MIB)
        .complete(BASE + 5 * MIB)
        .free(BASE)
        .segment(BASE, 20 * MIB)
    )
    rows = builder.history().allocations
    assert dict(zip(rows.addr.tolist(), rows.block_size.tolist(), strict=True))[BASE] == 5 * MIB


def test_with_expandable_segments_every_remainder_is_split_off() -> None:
    builder = one_hole(5 * MIB, 4 * MIB).settings(expandable_segments=True)
    assert sizes(builder)[1] == (4 * MIB, 4 * MIB)


def test_a_request_of_max_split_size_takes_the_whole_hole() -> None:
    builder = one_hole(20 * MIB - 2 * MIB, 12 * MIB).settings(max_split_size=12 * MIB)
    assert sizes(builder)[1] == (18 * MIB, 18 * MIB)


def test_a_large_baseline_block_has_a_range_up_to_a_mib() -> None:
    builder = trace().free(BASE, 4 * MIB).segment(BASE, 20 * MIB)
    assert sizes(builder) == [(4 * MIB, 5 * MIB)]


def test_a_baseline_block_ends_before_its_neighbour() -> None:
    builder = trace().alloc(BASE + 4 * MIB + 512, 2 * MIB).free(BASE, 4 * MIB)
    builder.segment(BASE, 20 * MIB, (4 * MIB + 512, 0, "free"), (2 * MIB, 2 * MIB, "live"))
    assert sizes(builder)[0] == (4 * MIB + 512, 4 * MIB + 512)


def test_a_baseline_block_ends_where_one_is_born_close_behind_it() -> None:
    builder = (
        trace()
        .free(BASE + 4 * MIB + 1024, 3 * MIB)
        .alloc(BASE + 4 * MIB + 1024, 2 * MIB)
        .free(BASE, 4 * MIB)
        .segment(BASE, 20 * MIB, (4 * MIB + 1024, 0, "free"), (2 * MIB, 2 * MIB, "live"))
    )
    assert (4 * MIB + 1024, 4 * MIB + 1024) in sizes(builder)


def test_a_segment_s_end_close_behind_a_baseline_block_is_its_end() -> None:
    builder = trace().free(BASE, 19 * MIB).segment(BASE, 20 * MIB)
    assert sizes(builder) == [(20 * MIB, 20 * MIB)]
    above = trace().free(BASE, 19 * MIB - 512).segment(BASE, 20 * MIB)
    assert sizes(above) == [(19 * MIB - 512, 20 * MIB - 512)]


def test_no_end_is_concluded_for_what_is_never_split() -> None:
    builder = trace().free(BASE, 19 * MIB).segment(BASE, 20 * MIB).settings(max_split_size=15 * MIB)
    assert sizes(builder) == [(19 * MIB, 20 * MIB)]


def test_no_end_is_concluded_where_small_remainders_may_have_been_split_off() -> None:
    builder = trace().free(BASE, 19 * MIB).segment(BASE, 20 * MIB)
    builder.segment(BASE + 100 * MIB, 20 * MIB, is_expandable=True)
    assert (19 * MIB, 20 * MIB) in sizes(builder)


def test_a_small_baseline_block_is_exact() -> None:
    builder = trace().free(BASE, 700).segment(BASE, 2 * MIB, large=False)
    assert sizes(builder) == [(1024, 1024)]


def test_a_block_that_is_there_at_the_end_has_the_size_it_has_there() -> None:
    builder = trace().segment(BASE, 20 * MIB, (5 * MIB, 4 * MIB, "live"))
    assert sizes(builder) == [(5 * MIB, 5 * MIB)]
    assert builder.history().anomalies == {}


def test_a_final_block_that_breaks_the_rules_is_counted() -> None:
    builder = trace().alloc(BASE, 4 * MIB).segment(BASE, 20 * MIB, (5 * MIB, 4 * MIB, "live"))
    assert sizes(builder) == [(5 * MIB, 5 * MIB)]
    assert builder.history().anomalies == {
        "block of another size than the allocator's rules give": 1
    }


def test_blocks_of_a_pool_made_with_no_split_are_entire_segments() -> None:
    made = Simulator()
    made.start_recording()
    allocator = made.allocators[0]
    made.malloc(3 * MIB)
    allocator.begin_pool((0, 1), no_split=True)
    kept = [made.malloc(3 * MIB), made.malloc(KIB)]
    freed = [made.malloc(5 * MIB), made.malloc(KIB)]
    for block in freed:
        made.free(block)
    made.malloc(4 * MIB)  # takes the segment that was freed, whole
    allocator.end_pool()
    history = history_of(made.snapshot()).devices[0]
    truth = [life.block_size for life in allocator.lives]
    assert history.allocations.block_size.tolist() == truth
    assert truth == [3 * MIB, 20 * MIB, 2 * MIB, 20 * MIB, 2 * MIB, 20 * MIB]
    assert len(kept) == 2
    assert history.anomalies == {}


def test_pinned_memory_is_rounded_to_a_power_of_two_up_to_the_size_that_is_set() -> None:
    sizes = np.array([3 * MIB, 5 * MIB, 9 * MIB])
    plain = recorded_settings({}, "host")
    assert round_sizes(sizes, plain).tolist() == [4 * MIB, 8 * MIB, 16 * MIB]
    for text in ("pinned_max_round_threshold_mb:4", "pinned_max_cached_size_mb:4"):
        limited = recorded_settings({"PYTORCH_CUDA_ALLOC_CONF": text}, "host")
        assert round_sizes(sizes, limited).tolist() == [4 * MIB, 5 * MIB, 9 * MIB]
