"""Holes are those of the replay, birth by birth."""

from __future__ import annotations

import random

import numpy as np
import pytest

from snapreport.history.block_sizes import find_holes
from snapreport.model.replays import SegmentLives
from tests.reference.holes import among_others, replay_holes


def spans_of(rows: list[tuple[int, int, int, int]]) -> SegmentLives:
    """Return segments given as address, size, first and last event."""
    table = np.array(rows, np.int64).reshape(-1, 4).T
    none = np.full(len(rows), -1)
    return SegmentLives(
        address=table[0],
        size=table[1],
        start_event=table[2],
        end_event=table[3],
        stream=np.zeros(len(rows), np.int64),
        pool=none.astype(np.int32),
        kind=none.astype(np.int8),
        expandable=np.zeros(len(rows), np.bool_),
        family=none.astype(np.int32),
        final=none.astype(np.int32),
    )


def lives_at(
    rng: random.Random, places: list[int], events: list[int]
) -> list[tuple[int, int, int]]:
    """Let lives follow one another at each place; returns place, first and last event."""
    free = iter(events)
    rows = []
    for place in places:
        cuts = sorted(next(free) for _ in range(2 * rng.randint(1, 4)))
        if rng.random() < 0.3:
            cuts[0] = -1
        rows += [(place, cuts[i], cuts[i + 1]) for i in range(0, len(cuts), 2)]
    return rows


def scene(seed: int) -> tuple[list[tuple[int, int, int]], list[tuple[int, int, int, int]]]:
    """Return blocks and segments, as they may be, from a seed."""
    rng = random.Random(seed)
    events = rng.sample(range(3000), 3000)
    segments = [
        (place, rng.choice([3, 10, 12]), first, last)
        for place, first, last in lives_at(rng, list(range(0, 200, 10)), events)
    ]
    places = rng.sample(range(-5, 210), rng.choice([0, 1, 30, 150]))
    return lives_at(rng, places, events[1000:]), segments


def as_columns(blocks: list[tuple[int, int, int]]) -> list[np.ndarray]:
    return list(np.array(blocks, np.int64).reshape(-1, 3).T)


@pytest.mark.parametrize(
    ("blocks", "segments"),
    [
        ([(10, 1, 9), (10, 5, 12), (11, 6, 7)], [(0, 50, -1, 20)]),  # two lives at once
        ([(10, 5, 5), (11, 6, 7)], [(0, 50, -1, 20)]),  # it ends as it begins
        ([(10, 5, 8)], [(0, 50, -1, 20), (0, 30, 3, 9)]),  # two segments at once
    ],
)
def test_what_cannot_be_is_replayed_as_well(
    blocks: list[tuple[int, int, int]], segments: list[tuple[int, int, int, int]]
) -> None:
    addr, born, died = as_columns(blocks)
    spans = spans_of(segments)
    for here, there in zip(
        find_holes(among_others(addr), born, died, spans),
        replay_holes(addr, born, died, spans),
        strict=True,
    ):
        assert here.tolist() == there.tolist()


def test_a_hole_ends_at_the_next_block_or_the_end_of_the_segment() -> None:
    addr, born, died = as_columns([(0, -1, 50), (30, 1, 60), (10, 2, 70), (35, 3, 9), (99, 4, 5)])
    found, bound = find_holes(among_others(addr), born, died, spans_of([(0, 40, -1, 100)]))
    assert found.tolist() == [0, 10, 20, 5, 0]
    assert bound.tolist() == [10, 0, 0, 0, 0]
