"""The native library refuses rows, places, events and lengths that would lead out of its tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from snapreport.ground.native import columns, library
from snapreport.ground.native.library import checked

WRONG = (-(2**63), -(2**31), -2, 4, 2**31, 2**32, 2**63 - 1)
"""None of them is one of four rows, or of three events."""
COUNTS = (-(2**63), -1024, -1, 2**31, 2**62, 2**63 - 1)

FOUR = np.arange(4)
ZEROS, LATER = np.zeros(4, np.int64), np.full(4, 3)
ADDRESSES = 10 * FOUR


def bent(columns: Sequence[Any], which: int, value: int) -> list[Any]:
    """Return columns, one of which has a wrong number last."""
    found = [column.copy() for column in columns]
    found[which][-1] = min(value, np.iinfo(found[which].dtype).max)
    return found


@pytest.mark.parametrize("value", WRONG)
class TestNumbers:
    @pytest.mark.parametrize("which", [0, 3, 4])
    def test_of_blocks_that_holes_are_found_for(self, which: int, value: int) -> None:
        around = (ADDRESSES, ADDRESSES + 10, ZEROS - 1, LATER, FOUR, FOUR)
        blocks = (FOUR, ZEROS, LATER, FOUR, FOUR)
        assert columns.holes(FOUR, blocks, around)[0].tolist()[0] > 0
        with pytest.raises(ValueError, match="out of range"):
            columns.holes(FOUR, tuple(bent(blocks, which, value)), around)

    @pytest.mark.parametrize("which", [4, 5])
    def test_of_segments_that_holes_are_found_in(self, which: int, value: int) -> None:
        around = (ADDRESSES, ADDRESSES + 10, ZEROS - 1, LATER, FOUR, FOUR)
        blocks = (FOUR, ZEROS, LATER, FOUR, FOUR)
        with pytest.raises(ValueError, match="out of range"):
            columns.holes(FOUR, blocks, tuple(bent(around, which, value)))

    def test_of_lives_in_order_of_their_ends(self, value: int) -> None:
        lives = (ADDRESSES, ZEROS + 10, ZEROS, LATER)
        asked = (np.ones(1, np.int64), np.ones(1, np.int64))
        assert columns.locate(lives, FOUR, *asked).tolist() == [0]
        with pytest.raises(ValueError, match="out of range"):
            columns.locate(lives, bent([FOUR], 0, value)[0], *asked)

    @pytest.mark.parametrize("which", range(6))
    def test_of_events_and_segments(self, which: int, value: int) -> None:
        given = [
            *(ZEROS, LATER, FOUR.astype(np.int32), FOUR.astype(np.int32)),
            *(ZEROS - 1, LATER),
        ]

        def call(birth: Any, death: Any, born: Any, freed: Any, start: Any, end: Any) -> Any:
            lives = (start, end, ZEROS + 10, ZEROS)
            return columns.fragmentation((birth, death, ZEROS + 1), (born, freed), lives, 3)

        assert call(*given).tolist() == [0, 36, 36, 36]
        with pytest.raises(ValueError, match="out of range"):
            call(*bent(given, which, max(value, -(2**31))))

    def test_of_events_that_are_paired(self, value: int) -> None:
        codes, actions = np.array([0, 1, 2, -1], np.int8), np.array([0, 1, 2, 0], np.int16)
        rows, leftover, found = columns.pair(actions, FOUR * 0, ZEROS, codes, 4)
        assert rows.tolist() == [[0, 0], [0, 3], [1, -1], [2, -1]]
        assert (leftover.tolist(), found[:4].tolist()) == ([], [0, 2, 1, 1])
        with pytest.raises(ValueError, match="out of range"):
            columns.pair(actions, bent([FOUR], 0, value)[0], ZEROS, codes, 4)
        wrong = bent([actions], 0, max(value, -(2**15)))[0]
        with pytest.raises(ValueError, match="out of range"):
            columns.pair(wrong, FOUR, ZEROS, codes, 4)

    def test_of_values_and_groups(self, value: int) -> None:
        small = np.array([2, -1, 0, 2], np.int32)
        assert [each.tolist() for each in columns.appear(small, 4)] == [[2, 0], [0, -1, 1, 0]]
        assert columns.count_before(np.array([1, 0, 1, 1]), 4).tolist() == [0, 0, 1, 2]
        with pytest.raises(ValueError, match="out of range"):
            columns.appear(bent([small], 0, max(value, -(2**31)))[0], 4)
        with pytest.raises(ValueError, match="out of range"):
            columns.count_before(bent([FOUR], 0, value)[0], 4)

    def test_of_events_and_groups(self, value: int) -> None:
        group = np.array([0, 1, 0, 2], np.int32)
        events = [FOUR, LATER, LATER]
        assert columns.by_kind(FOUR, events, group).tolist() == [0, 2, 1, 3]
        wrong = bent(events, 1, value)  # an event that is not in the recording is none
        assert sorted(columns.by_kind(FOUR, wrong, group).tolist()) == [0, 1, 2, 3]
        with pytest.raises(ValueError, match="out of range"):
            columns.by_kind(FOUR, events, bent([group], 0, max(-abs(value), -(2**31)))[0])

    @pytest.mark.parametrize("which", [1, 2])
    def test_of_spans(self, which: int, value: int) -> None:
        weight, begin, end = bent([FOUR, ZEROS, LATER], which, value)
        with pytest.raises(ValueError, match="out of range"):
            columns.sum_live(weight, begin, end, 3)
        with pytest.raises(ValueError, match="out of range"):
            columns.Outline(FOUR).peak_without((weight, begin, end))

    @pytest.mark.parametrize("which", [0, 1, 3])
    def test_of_strips(self, which: int, value: int) -> None:
        given = [ZEROS, LATER, FOUR, np.arange(3)]

        def rows(birth: Any, death: Any, size: Any, samples: Any) -> bytes:
            rows = library.StripRows((birth, death, size), None, samples, 3, 0, 9)
            return b"".join(part.data for part in rows.up_to(4))

        assert rows(*given).count(b"elem") == 4
        if which == 1 and value > 0:  # what ends that late is behind the recording
            assert rows(*bent(given, which, value)) == rows(*given)
            return
        with pytest.raises(ValueError, match="not in order"):
            rows(*bent(given, which, value))


@pytest.mark.parametrize("count", COUNTS)
def test_lengths_that_cannot_be(count: int) -> None:
    """How much memory there is, a caller alone can say: but not this much."""
    functions = library.library()
    one, short = np.zeros(8, np.int64), np.zeros(8, np.int32)
    five, six = [one] * 5, [one] * 6
    codes, actions = np.zeros(1, np.int8), np.zeros(1, np.int16)
    calls: list[tuple[Any, ...]] = [
        (functions.appear, short, count, short.copy(), 1, short.copy(), short.copy()),
        (functions.appear, short, 0, short.copy(), count, short.copy(), short.copy()),
        (functions.count_before, one, count, short, 1, short.copy()),
        (functions.count_before, one, 0, short, count, short.copy()),
        (functions.by_kind, one, count, one, one, one, short, 0, 1, short, short, one),
        (functions.by_kind, one, 0, one, one, one, short, count, 1, short, short, one),
        (functions.pair, actions, one, one, count, codes, 1, 0, short, one, one, one),
        (functions.pair, actions, one, one, 0, codes, 1, count, short, one, one, one),
        (functions.number, one, -1 if count == 2**31 else count, short, 2, one, 1, one),
        (functions.number, one, 1, short, count, one, 1, one),
        (functions.number, one, 1, short, 2, one, count, one),
        (functions.locate, *five, count, one, one, 0, short),
        (functions.holes, one, count, *five, 0, *six, 0, short, short, one, one),
        (functions.holes, one, 0, *five, count, *six, 0, short, short, one, one),
        (functions.holes, one, 0, *five, 0, *six, count, short, short, one, one),
        (functions.segments, one, count, one.astype(np.int8), *[one] * 4, 0, one, 0, one),
        (functions.segments, one, 0, one.astype(np.int8), *[one] * 4, count, one, 0, one),
        (functions.segments, one, 0, one.astype(np.int8), *[one] * 4, 0, one, 0, one + count),
    ]
    for function, *arguments in calls:
        with pytest.raises(ValueError, match="out of range"):
            checked(function(*arguments))
    for slots in (0, 1, 3):
        with pytest.raises(ValueError, match="out of range"):
            checked(functions.number(one, 1, short, slots, one, 0, one))
