"""A rank's curves in cells: by hand, and against every value that a cell covers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapreport.figures.ranks import event_cells, time_cells
from snapreport.model.run import Cells, coarser
from snapreport.model.snapshot import NO_TIME
from tests.reference.rank_curves import to_one_width
from tests.thorough import tried

CURVE = np.array([5, 1, 2, 9, 3, 0], np.int64)
"""The start, then events 0 to 4."""


def test_cells_of_events_are_as_few_as_needed_and_the_first_has_the_start() -> None:
    single = event_cells(CURVE, None, most=5)
    assert (single.first, single.shift) == (0, 0)
    assert single.allocated.tolist() == [5, 2, 9, 3, 0]
    assert single.reserved is None
    pairs = event_cells(CURVE, CURVE * 2, most=4)  # events 0 and 1, 2 and 3, 4
    assert (pairs.shift, pairs.allocated.tolist()) == (1, [5, 9, 0])
    assert pairs.reserved is not None
    assert pairs.reserved.tolist() == [10, 18, 0]


def test_a_curve_keeps_its_value_in_cells_without_an_event() -> None:
    times = np.array([8, 9, 9, 21, 23], np.int64)
    cells = time_cells(CURVE, None, times, most=4)  # 8 to 11, 12 to 15, 16 to 19, 20 to 23
    assert cells is not None
    assert (cells.first, cells.shift) == (2, 2)
    # Three events; nothing, at 9; nothing; what was there at 20, and two events.
    assert cells.allocated.tolist() == [9, 9, 9, 9]
    exact = time_cells(CURVE, None, times, most=16)
    assert exact is not None
    assert exact.allocated.tolist() == [5, 9, *[9] * 11, 3, 3, 0]


def test_events_without_a_time_or_with_an_earlier_one_count_at_the_latest() -> None:
    times = np.array([NO_TIME, 40, 38, NO_TIME, 41], np.int64)
    cells = time_cells(CURVE, None, times)
    assert cells is not None
    assert (cells.first, cells.shift, cells.allocated.tolist()) == (40, 0, [9, 0])
    assert time_cells(CURVE, None, np.full(5, NO_TIME)) is None


def test_a_rank_without_events_is_one_cell() -> None:
    assert event_cells(np.array([7], np.int64), None).allocated.tolist() == [7]


def test_narrower_cells_are_refused() -> None:
    with pytest.raises(ValueError, match="cells 2 wide cannot become 1 wide"):
        coarser(event_cells(CURVE, None, most=4), 0)


def test_ranks_at_other_times_get_one_width_over_all_of_them() -> None:
    first = Cells(100, 2, np.array([1, 2, 3], np.int64), None)  # 400 to 411
    second = Cells(800, 0, np.array([7, 8], np.int64), None)  # 800 and 801
    left, right = to_one_width([first, second], most=4)
    assert left.shift == right.shift == 7
    assert (left.first, left.allocated.tolist()) == (3, [3])
    assert (right.first, right.allocated.tolist()) == (6, [8])
    assert to_one_width([]) == ()


steps = st.tuples(st.integers(0, 9), st.one_of(st.integers(0, 40), st.just(NO_TIME)))


@tried(200)
@given(st.integers(0, 9), st.lists(steps, min_size=1, max_size=40), st.integers(1, 12))
def test_cells_are_the_most_of_all_that_they_cover(
    start: int, events: list[tuple[int, int]], most: int
) -> None:
    """The law: each cell against a value for every place of the axis; and joined cells."""
    curve = np.array([start, *(value for value, _ in events)], np.int64)
    times = np.array([time for _, time in events], np.int64)
    cells = event_cells(curve, None, most)
    assert len(cells.allocated) <= most
    assert cells.shift == 0 or len(event_cells(curve, None, 1 << 30).allocated) > most
    every = [max(start, int(curve[1])), *curve[2:].tolist()]
    assert cells.allocated.tolist() == [
        max(every[at : at + (1 << cells.shift)]) for at in range(0, len(every), 1 << cells.shift)
    ]
    _assert_joined(cells, event_cells(curve, None, 1 << 30))
    by_time = time_cells(curve, None, times, most)
    known = [time for _, time in events if time != NO_TIME]
    if by_time is None:
        assert not known
        return
    assert len(by_time.allocated) <= most
    _assert_joined(by_time, time_cells(curve, None, times, 1 << 30))
    attained = _values_by_time(start, events, known[0])
    wide = 1 << by_time.shift
    for place, value in enumerate(by_time.allocated.tolist(), by_time.first):
        covered = [
            max(values)
            for time, values in attained.items()
            if time // wide == place
        ]  # fmt: skip
        assert value == max(covered)
    assert by_time.allocated.max() == curve.max()


def _values_by_time(start: int, events: list[tuple[int, int]], first: int) -> dict[int, list[int]]:
    """Every value that the curve has at each microsecond; before the first event the start."""
    at: dict[int, list[int]] = {}
    latest, value = first, start
    latest = max(latest, events[0][1])
    at[latest] = [start]
    for new, time in events:
        now = max(latest, time)
        for idle in range(latest + 1, now):
            at[idle] = [value]
        at.setdefault(now, []).append(new)
        latest, value = now, new
    return at


def _assert_joined(cells: Cells, finest: Cells | None) -> None:
    assert finest is not None
    joined = coarser(finest, cells.shift)
    assert (joined.first, joined.shift) == (cells.first, cells.shift)
    assert joined.allocated.tolist() == cells.allocated.tolist()
