"""Segments over time, in cases worked out by hand."""

from __future__ import annotations

from snapreport.diagnosis.conclude import find
from snapreport.model.replays import LARGE, SMALL, AllocatorUse
from tests.builders import BASE, KIB, MIB, TraceBuilder, trace


def use_of(builder: TraceBuilder) -> AllocatorUse:
    return find(builder.file()).devices[0].allocator


def lives(use: AllocatorUse) -> list[tuple[int, int, int, int]]:
    """Address and size in MiB from the builder's base, first event and event after the last."""
    rows = use.segments
    return [
        ((address - BASE) // MIB, size // MIB, start, end)
        for address, size, start, end in zip(
            rows.address.tolist(),
            rows.size.tolist(),
            rows.start_event.tolist(),
            rows.end_event.tolist(),
            strict=True,
        )
    ]


def test_a_segment_lives_from_its_alloc_to_its_free() -> None:
    builder = (
        trace()
        .event("segment_free", addr=BASE, size=2 * MIB)
        .event("segment_alloc", addr=BASE, size=20 * MIB)
        .event("snapshot")
        .segment(BASE, 20 * MIB)
    )
    assert lives(use_of(builder)) == [(0, 2, -1, 0), (0, 20, 1, 3)]


def test_a_run_of_mapped_memory_begins_anew_when_it_grows_or_falls_apart() -> None:
    builder = (
        trace()
        .event("segment_map", addr=BASE + 2 * MIB, size=2 * MIB)
        .event("segment_unmap", addr=BASE + 2 * MIB, size=2 * MIB)
        .segment(BASE, 2 * MIB, is_expandable=True)
        .segment(BASE + 4 * MIB, 2 * MIB, is_expandable=True)
    )
    assert lives(use_of(builder)) == [
        (0, 2, -1, 0), (4, 2, -1, 0), (0, 6, 0, 1), (0, 2, 1, 2), (4, 2, 1, 2),
    ]  # fmt: skip


def test_final_segments_that_overlap_are_cut_where_the_next_begins() -> None:
    builder = (
        trace()
        .event("segment_alloc", addr=BASE + 2 * MIB, size=4 * MIB)
        .event("segment_map", addr=BASE + 4 * MIB, size=4 * MIB)
        .segment(BASE, 4 * MIB)
        .segment(BASE + 2 * MIB, 4 * MIB)
        .segment(BASE + 4 * MIB, 4 * MIB, is_expandable=True)
    )
    assert lives(use_of(builder)) == [(0, 2, -1, 2), (2, 2, 0, 2), (4, 4, 1, 2)]


def test_what_is_mapped_leaves_other_segments_there() -> None:
    builder = (
        trace()
        .event("snapshot")
        .event("segment_map", addr=BASE, size=20 * MIB)
        .segment(BASE + 2 * MIB, 2 * MIB)
        .segment(BASE + 4 * MIB, 4 * MIB, is_expandable=True)
        .segment(BASE + 18 * MIB, 4 * MIB, is_expandable=True)
    )
    assert lives(use_of(builder)) == [(2, 2, -1, 2), (20, 2, -1, 1), (4, 4, 1, 2), (18, 4, 1, 2)]


def test_runs_of_different_streams_stay_apart() -> None:
    builder = (
        trace()
        .event("segment_unmap", addr=BASE + 2 * MIB, size=2 * MIB, stream=7)
        .segment(BASE, 2 * MIB, is_expandable=True)
    )
    use = use_of(builder)
    assert lives(use) == [(0, 2, -1, 1), (2, 2, -1, 0)]
    assert use.segments.stream.tolist() == [0, 7]


def test_a_freed_segment_has_the_pool_and_kind_of_what_was_in_it() -> None:
    builder = (
        trace()
        .event("segment_alloc", addr=BASE, size=2 * MIB)
        .alloc(BASE, 4 * KIB, pool_id=(0, 3))
        .free(BASE, pool_id=(0, 3))
        .event("segment_free", addr=BASE, size=2 * MIB)
        .event("segment_free", addr=BASE + 40 * MIB, size=20 * MIB)
        .event("segment_unmap", addr=BASE + 80 * MIB, size=2 * MIB)
    )
    file = builder.file()
    segments = find(file).devices[0].allocator.segments
    assert [(row - BASE) // MIB for row in segments.address.tolist()] == [40, 80, 0]
    assert [file.pools[row] if row >= 0 else None for row in segments.pool] == [None, None, (0, 3)]
    assert segments.kind.tolist() == [LARGE, -1, SMALL]


def test_fragmentation_is_what_segments_in_use_do_not_use() -> None:
    builder = (
        trace()
        .alloc(BASE, 4 * MIB)
        .alloc(BASE + 40 * MIB, 2 * MIB)
        .free(BASE)
        .complete(BASE + 40 * MIB)
        .segment(BASE, 20 * MIB)
        .segment(BASE + 40 * MIB, 20 * MIB)
    )
    use = use_of(builder)
    assert [size // MIB for size in use.fragmentation.tolist()] == [0, 16, 34, 34, 18, 0]
    assert use.most == 1


def test_fragmentation_is_unknown_where_segment_events_are_missing() -> None:
    use = use_of(trace().alloc("a", 4 * MIB).free("a"))
    # Nothing is in use at the start, but what is wrong later is wrong before that, too.
    assert use.fragmentation.tolist() == [-1, -1, -1, 0]


def test_memory_that_is_mapped_beside_a_live_block_is_fragmentation() -> None:
    builder = (
        trace()
        .alloc(BASE, 2 * MIB)
        .event("segment_map", addr=BASE + 20 * MIB, size=20 * MIB)
        .free(BASE)
        .segment(BASE, 40 * MIB, is_expandable=True)
    )
    use = use_of(builder)
    assert [size // MIB for size in use.fragmentation.tolist()] == [0, 18, 38, 38, 0]
