"""Our orders and distinct values are those of NumPy's general functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapreport.ground.native.columns import (
    by_kind,
    distinct,
    is_among,
    median,
    medians,
    number,
    stable_order,
    unique,
    whole_median,
)

LEAST, MOST = -(2**63), 2**63 - 1
# Small numbers, such as 16 bits hold, addresses, and what leaves no room for a place behind it.
RANGES = [(0, 3), (-5, 5), (0, 2**16), (2**40, 2**40 + 2**30), (-(2**61), 2**61), (LEAST, MOST)]
integers = st.sampled_from(RANGES).flatmap(
    lambda ends: st.lists(st.integers(*ends) | st.sampled_from(ends), max_size=60)
)
columns = integers.map(lambda values: np.array(values, np.int64))


@given(columns)
def test_the_order_is_that_of_a_stable_sort(values: np.ndarray) -> None:
    assert stable_order(values).tolist() == np.argsort(values, kind="stable").tolist()


@given(columns)
def test_distinct_values_and_places_are_those_of_numpy(values: np.ndarray) -> None:
    found, place = distinct(values)
    expected, places = np.unique(values, return_inverse=True)
    assert (found.tolist(), place.tolist()) == (expected.tolist(), places.tolist())
    assert found.dtype == values.dtype
    assert unique(values).tolist() == expected.tolist()


@pytest.mark.parametrize(("kind", "most"), [("i1", 127), ("u1", 255), ("i4", 2**31 - 1), ("?", 1)])
def test_narrow_columns_keep_their_type(kind: str, most: int) -> None:
    values = np.array([1, 0, 1, 1, 0]).astype(kind)
    ends = np.array([most, 0 if kind in ("u1", "?") else -most - 1], kind)
    for column in (values, ends, np.tile(ends, 100), np.arange(200).astype(kind)):
        found, place = distinct(column)
        assert found.dtype == unique(column).dtype == column.dtype
        assert found[place].tolist() == column.tolist()
        assert unique(column).tolist() == found.tolist() == sorted(set(column.tolist()))
        assert stable_order(column).tolist() == np.argsort(column, kind="stable").tolist()


@given(columns, integers)
def test_what_is_among_others_is_as_numpy_says(values: np.ndarray, others: list[int]) -> None:
    others += values[:3].tolist()
    wanted = np.array(others, np.int64)
    assert is_among(values, wanted).tolist() == np.isin(values, wanted).tolist()


@given(st.lists(st.integers(-(2**52), 2**52) | st.floats(-1e9, 1e9), min_size=1, max_size=30))
def test_the_median_is_that_of_numpy(values: list[float]) -> None:
    assert median(np.array(values)) == np.median(np.array(values))


@pytest.mark.parametrize("ends", [*RANGES, (-3, 2**16 - 4), (7, 7 + 2**16), (2**62, MOST)])
@pytest.mark.parametrize("different", [1, 2, 1000, 2**17])
def test_long_columns_are_as_short_ones(ends: tuple[int, int], different: int) -> None:
    chance = np.random.default_rng(different)
    some = chance.integers(*ends, different, endpoint=True)
    some[-1:] = ends[1]
    values = chance.choice(some, 70_000 if different > 1000 else 9000)
    found, place = distinct(values)
    expected, places = np.unique(values, return_inverse=True)
    assert np.array_equal(found, expected)
    assert np.array_equal(place, places)
    assert found.dtype == values.dtype
    assert place.dtype == np.int64
    assert np.array_equal(unique(values), expected)
    assert np.array_equal(stable_order(values), np.argsort(values, kind="stable"))


@pytest.mark.parametrize("kind", ["i1", "u1", "i2", "u2", "i4", "u4", "u8", "?"])
def test_long_narrow_columns_keep_their_type(kind: str) -> None:
    values = np.random.default_rng(1).integers(0, 2**62, 9000).astype(kind)
    for column in (values, values[::-2]):
        found, place = distinct(column)
        assert found.dtype == column.dtype
        assert np.array_equal(found[place], column)
        assert np.array_equal(found, np.unique(column))
        assert np.array_equal(stable_order(column), np.argsort(column, kind="stable"))


def test_numbers_that_meet_in_the_table_are_sorted_instead() -> None:
    # The inverse of the factor that spreads them: all of these fall into the same few places.
    back = pow(0x9E3779B97F4A7C15, -1, 2**64)
    hostile = np.array([i * back % 2**64 for i in range(9000)], np.uint64).view(np.int64)
    assert number(hostile, 1 << 14) is None
    found, place = distinct(hostile)
    assert np.array_equal(found, np.unique(hostile))
    assert np.array_equal(found[place], hostile)


@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0, 1, 7, 2**48, 2**62])), max_size=40),
    st.sampled_from([np.int32, np.int64]),
)
def test_the_median_of_a_group_is_the_usual_one(
    pairs: list[tuple[int, int]], integer: type[np.integer[Any]]
) -> None:
    group = np.array([pair[0] for pair in pairs], integer)
    values = np.array([pair[1] for pair in pairs], np.int64)
    for k, found in enumerate(medians(values, group, 5).tolist()):
        own = sorted(value for number, value in pairs if number == k)
        assert found == ((own[(len(own) - 1) // 2] + own[len(own) // 2]) // 2 if own else 0)
        assert not own or whole_median(own) == found


@given(
    st.lists(st.integers(LEAST, MOST), max_size=12),
    st.lists(st.tuples(*[st.integers(-1, 14)] * 3, st.integers(0, 3)), max_size=12),
)
def test_numbers_stand_by_what_happened_before_and_then_and_to_whom(
    values: list[int], rows: list[tuple[int, ...]]
) -> None:
    what = dict.fromkeys(range(-1, len(values)), (0, 0))  # kind and group; another event at first
    for kind in (3, 2, 1):  # the first kind decides
        what |= {row[kind - 1]: (kind, row[3]) for row in rows}
    what[-1] = (0, 0)  # before the first event
    order = sorted(range(len(values)), key=lambda event: (what[event - 1][0], what[event]))
    *events, group = np.array(rows, np.int64).reshape(-1, 4).T
    found = by_kind(np.array(values, np.int64), events, group.astype(np.int32))
    assert found.tolist() == [values[event] for event in order]
