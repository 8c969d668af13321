"""The caching allocator, asked by a program that runs."""

from __future__ import annotations

import gc
import weakref

import pytest

from snapreport.figures.allocator.live import (
    MOST_STREAMS,
    UPWARDS,
    LiveAllocator,
    LiveBlock,
    LiveSegment,
    NoRoomError,
)
from snapreport.history.allocator_settings import AllocatorSettings, parse_settings

MIB = 1 << 20
FROM = UPWARDS.above


def allocator(text: str = "default", capacity: int = 100 * MIB) -> LiveAllocator:
    return LiveAllocator(parse_settings(text), capacity)


def test_a_request_is_rounded_and_gets_a_segment() -> None:
    live = allocator()
    row = live.allocate(1000)
    assert (live.address(row), live.block_size(row)) == (FROM, 1024)
    assert live.new_segment_events() == [("segment_alloc", FROM, 2 * MIB)]
    assert live.new_segment_events() == []
    assert (live.allocated, live.reserved) == (1024, 2 * MIB)
    assert live.segments() == [
        LiveSegment(
            FROM,
            2 * MIB,
            0,
            "small",
            is_expandable=False,
            blocks=(
                LiveBlock(FROM, 1024, "active_allocated", row),
                LiveBlock(FROM + 1024, 2 * MIB - 1024, "inactive", None),
            ),
        )
    ]


def test_a_block_is_as_large_as_what_is_not_split_off() -> None:
    live = allocator()
    row = live.allocate(11 * MIB)  # of a segment of 12 MiB, from which 1 MiB is not split off
    assert live.block_size(row) == live.allocated == 12 * MIB


def test_an_expandable_segment_grows_and_shrinks() -> None:
    live = allocator("expandable_segments:True")
    live.free(live.allocate(30 * MIB))
    live.empty_cache()
    assert live.new_segment_events() == [
        ("segment_map", FROM, 40 * MIB),
        ("segment_unmap", FROM, 40 * MIB),
    ]
    assert live.segments() == []


def test_what_is_freed_serves_the_next_and_so_does_its_row() -> None:
    live = allocator()
    rows = {live.allocate(4096 + 512 * (i % 3)) for i in range(10)}
    for row in rows:
        live.free(row)
    for _ in range(10_000):
        row = live.allocate(5000)
        assert live.address(row) == FROM
        live.free(row)
    assert live.reserved == 2 * MIB
    assert row < 20


def test_as_many_can_be_live_as_there_is_room_for() -> None:
    live = allocator(capacity=20 * MIB)
    rows = [live.allocate(512) for _ in range(20 * 2048)]
    assert [live.address(row) - FROM for row in rows] == list(range(0, 20 * MIB, 512))
    with pytest.raises(NoRoomError):
        live.allocate(1)


def test_a_request_without_room_says_what_there_is() -> None:
    live = allocator()
    kept, cached = live.allocate(60 * MIB), live.allocate(30 * MIB)
    live.free(cached)
    with pytest.raises(NoRoomError, match=r"52,428,800 bytes were requested; 41,943,040 are free"):
        live.allocate(50 * MIB)
    assert live.retries == 1
    assert live.reserved == 60 * MIB  # what was cached was given back first
    assert live.address(live.allocate(40 * MIB)) > live.address(kept)


def test_a_share_of_the_card_is_all_there_is() -> None:
    live = allocator("per_process_memory_fraction:0.5")
    live.allocate(40 * MIB)
    with pytest.raises(NoRoomError) as refused:
        live.allocate(20 * MIB)
    assert (refused.value.free, refused.value.reserved) == (10 * MIB, 40 * MIB)
    assert (refused.value.size, refused.value.allocated) == (20 * MIB, 40 * MIB)


@pytest.mark.parametrize("size", [1 << 49, 1 << 62, 1 << 63, 1 << 200])
def test_no_card_has_room_for_any_number(size: int) -> None:
    live = LiveAllocator(AllocatorSettings())
    with pytest.raises(NoRoomError):
        live.allocate(size)
    assert live.block_size(live.allocate(1)) == 512


@pytest.mark.parametrize("size", [0, -1, -(1 << 63)])
def test_nothing_is_not_requested(size: int) -> None:
    with pytest.raises(ValueError, match="cannot have"):
        allocator().allocate(size)


def test_what_another_stream_uses_serves_nobody() -> None:
    live = allocator()
    row = live.allocate(60 * MIB)
    live.await_free(row)
    assert (live.allocated, live.peak_allocated, live.reserved) == (0, 60 * MIB, 60 * MIB)
    assert live.segments()[0].blocks == (LiveBlock(FROM, 60 * MIB, "active_pending_free", row),)
    assert live.address(live.allocate(30 * MIB)) != FROM
    live.free(row)
    assert live.address(live.allocate(60 * MIB)) == FROM


def test_a_request_that_lacks_memory_waits_for_other_streams() -> None:
    live = allocator()
    row = live.allocate(60 * MIB)
    live.await_free(row)
    other = live.allocate(70 * MIB)
    assert live.retries == 1
    live.free(row)  # which has no effect any more
    assert (live.allocated, live.reserved) == (70 * MIB, 70 * MIB)
    live.free(other)
    assert live.allocated == 0


def test_a_stream_has_segments_of_its_own() -> None:
    live = allocator()
    live.free(live.allocate(1))
    row = live.allocate(1, 140_000_000_000_000)
    assert live.address(row) != FROM
    assert [segment.stream for segment in live.segments()] == [0, 140_000_000_000_000]


def test_there_are_only_so_many_streams() -> None:
    live = LiveAllocator(AllocatorSettings())
    for stream in range(MOST_STREAMS, -1, -1):
        live.allocate(1, stream)
    with pytest.raises(ValueError, match="more than 64 streams"):
        live.allocate(1, MOST_STREAMS + 1)
    live.allocate(1, MOST_STREAMS)


def test_peaks_begin_anew() -> None:
    live = allocator()
    live.free(live.allocate(50 * MIB))
    live.empty_cache()
    live.allocate(10 * MIB)
    assert (live.peak_allocated, live.peak_reserved) == (50 * MIB, 50 * MIB)
    live.reset_peaks()
    assert (live.peak_allocated, live.peak_reserved) == (10 * MIB, 10 * MIB)
    live.allocate(30 * MIB)
    assert (live.peak_allocated, live.peak_reserved) == (40 * MIB, 40 * MIB)


def test_nothing_is_freed_twice() -> None:
    live = allocator()
    row = live.allocate(1)
    live.free(row)
    for wrong in (row, -1, 5, 1 << 40):
        for free in (live.free, live.await_free):
            with pytest.raises(ValueError, match="there is no allocation"):
                free(wrong)


def test_its_memory_goes_with_it() -> None:
    live = allocator()
    live.allocate(1)
    model = weakref.ref(live._model)
    del live
    gc.collect()
    assert model() is None
