"""Orders that deflate well: each can be undone, and puts alike things together."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from snapreport.model.history import Allocations
from snapreport.reporters.payload import by_kind, by_last_use
from tests.browser.builders import DeviceSpec, Row, findings


def allocations(*lives: tuple[int, int, int]) -> Allocations:
    """Allocations of these alloc, free_requested and free_completed events."""
    found = findings(DeviceSpec([Row(512) for _ in lives], events=9))
    columns = found.devices[0].history.allocations
    born, requested, freed = (np.array(each, dtype=np.int64) for each in zip(*lives, strict=True))
    return dataclasses.replace(
        columns, alloc_event=born, free_requested_event=requested, free_event=freed
    )


def test_numbers_stand_by_what_happened_and_by_what_came_before() -> None:
    # Events: alloc, alloc, free_requested, free_completed, alloc, another event, free (as one).
    lives = allocations((-1, 7, 7), (0, 2, 3), (1, 6, 6), (4, 7, 7))
    values = np.array([10, 11, 12, 13, 14, 15, 16])
    # Another event; allocs at the start, after an alloc, after free_completed; the rest.
    assert by_kind(values, lives).tolist() == [15, 10, 11, 14, 12, 16, 13]


def test_a_birth_decides_over_a_lost_free_at_its_event() -> None:
    lives = allocations((0, 1, 1), (1, 3, 3))
    assert by_kind(np.array([1, 2, 3]), lives).tolist() == [3, 1, 2]
    assert by_kind(np.zeros(0, dtype=np.int64), lives).tolist() == []


@given(st.lists(st.integers(0, 9)))
def test_ids_come_back_from_their_last_use(ids: list[int]) -> None:
    back, first = by_last_use(np.array(ids, dtype=np.int64))
    new = iter(first.tolist())
    again: list[int] = []
    for distance in back.tolist():
        again.append(again[-distance] if distance else next(new))
    assert again == ids
    assert first.tolist() == list(dict.fromkeys(ids))
