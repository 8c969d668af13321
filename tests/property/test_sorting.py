"""Our orders and distinct values are those of NumPy's general functions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapreport.sorting import distinct, is_among, median, stable_order, unique

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
