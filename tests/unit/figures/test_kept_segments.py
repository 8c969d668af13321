"""Segments, and pages of expandable ones, that a small block or two keep."""

from __future__ import annotations

import numpy as np

from snapreport.figures.segments import Heap, KeptSegment, find_returnables, kept_segments

MIB = 1 << 20
PAGE = 20 * MIB


def heap(
    *segments: tuple[int, int], blocks: list[tuple[int, int, int]], **columns: list[int]
) -> Heap:
    """Segments (address, size) in MiB; blocks (segment, offset, size), in MiB, too."""
    n = len(segments)
    address, size = (np.array(each, np.int64) * MIB for each in zip(*segments, strict=True))
    of, offset, bytes_ = (np.array(each, np.int64) for each in zip(*blocks, strict=True))

    def column(name: str, kind: type, usual: int = 0) -> np.ndarray:
        return np.array(columns.get(name, [usual] * n), kind)

    return Heap(
        address=address,
        size=size,
        stream=column("stream", np.int64),
        private=column("private", np.bool_),
        pool=column("pool", np.int32),
        kind=column("kind", np.int8, 1),
        expandable=column("expandable", np.bool_),
        large_page=20 * MIB,
        row=np.arange(len(blocks)),
        segment=of,
        start=address[of] + offset * MIB,
        bytes=bytes_ * MIB,
        pending=np.zeros(len(blocks), np.bool_),
    )


def test_a_small_block_keeps_the_rest_of_its_segment() -> None:
    made = heap((100, 40), (200, 40), (300, 40), blocks=[(0, 30, 2), (1, 0, 20)])
    found = find_returnables(made)
    assert (found.free // MIB).tolist() == [38, 20, 40]
    assert found.live.tolist() == [1, 1, 0]
    assert (found.kept // MIB).tolist() == [38, 20, 0]  # the last goes back
    assert kept_segments(made) == (KeptSegment(100 * MIB, 40 * MIB, 38 * MIB, (0,)),)


def test_so_do_two_blocks_that_have_an_eighth_of_it_but_not_three_or_more_bytes() -> None:
    two = heap((100, 40), blocks=[(0, 0, 2), (0, 20, 3)])
    assert kept_segments(two) == (KeptSegment(100 * MIB, 40 * MIB, 35 * MIB, (0, 1)),)
    assert kept_segments(heap((100, 40), blocks=[(0, 0, 3), (0, 20, 3)])) == ()
    assert kept_segments(heap((100, 40), blocks=[(0, 0, 1), (0, 9, 1), (0, 20, 1)])) == ()


def test_the_most_kept_comes_first_and_private_pools_are_left_out() -> None:
    made = heap(
        (100, 40), (200, 80), (300, 90), blocks=[(0, 0, 1), (1, 0, 1), (2, 0, 1)],
        private=[0, 0, 1],
    )  # fmt: skip
    assert [each.kept // MIB for each in kept_segments(made)] == [79, 39]
    among = np.array([True, False, True])
    assert [each.kept // MIB for each in kept_segments(made, among)] == [39]


def test_of_an_expandable_segment_each_page_goes_back_alone() -> None:
    # Pages of 20 MiB: a small block; one that reaches into the third; nothing; a full one.
    made = heap((1000, 100), blocks=[(0, 5, 1), (0, 25, 17), (0, 80, 20)], expandable=[1])
    found = find_returnables(made)
    assert (found.address // MIB).tolist() == [1000, 1020, 1040, 1060, 1080]
    assert (found.free // MIB).tolist() == [19, 5, 18, 20, 0]
    assert found.live.tolist() == [1, 1, 1, 0, 1]
    assert (found.kept // MIB).tolist() == [19, 5, 18, 0, 0]
    # The second has little of the third page, but is not small.
    assert kept_segments(made) == (KeptSegment(1000 * MIB, PAGE, 19 * MIB, (0,)),)


def test_a_block_over_whole_pages_is_in_each_of_them() -> None:
    made = heap((1000, 80), blocks=[(0, 10, 60)], expandable=[1])
    found = find_returnables(made)
    assert (found.free // MIB).tolist() == [10, 0, 0, 10]
    assert found.live.tolist() == [1, 1, 1, 1]


def test_pages_of_small_segments_are_smaller() -> None:
    made = heap((1000, 6), blocks=[(0, 2, 1)], expandable=[1], kind=[0])
    assert (find_returnables(made).kept // MIB).tolist() == [0, 1, 0]
