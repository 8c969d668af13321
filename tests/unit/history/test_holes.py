"""Holes found all at once are those of the replay, birth by birth."""

from __future__ import annotations

import random

import numpy as np
import pytest

from snapreport.history import holes
from snapreport.history.holes import find_holes, replay_holes
from snapreport.model.segment_lives import SegmentLives


def spans_of(rows: list[tuple[int, int, int, int]]) -> SegmentLives:
    """Return segments given as address, size, first and last step."""
    table = np.array(rows, np.int64).reshape(-1, 4).T
    none = np.full(len(rows), -1)
    return SegmentLives(
        address=table[0],
        size=table[1],
        start_step=table[2],
        end_step=table[3],
        stream=np.zeros(len(rows), np.int64),
        pool=none.astype(np.int32),
        kind=none.astype(np.int8),
        expandable=np.zeros(len(rows), np.bool_),
        family=none.astype(np.int32),
        final=none.astype(np.int32),
    )


def lives_at(rng: random.Random, places: list[int], steps: list[int]) -> list[tuple[int, int, int]]:
    """Let lives follow one another at each place; returns place, first and last step."""
    free = iter(steps)
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
    steps = rng.sample(range(3000), 3000)
    segments = [
        (place, rng.choice([3, 10, 12]), first, last)
        for place, first, last in lives_at(rng, list(range(0, 200, 10)), steps)
    ]
    places = rng.sample(range(-5, 210), rng.choice([0, 1, 30, 150]))
    return lives_at(rng, places, steps[1000:]), segments


def as_columns(blocks: list[tuple[int, int, int]]) -> list[np.ndarray]:
    return list(np.array(blocks, np.int64).reshape(-1, 3).T)


@pytest.mark.parametrize("seed", range(300))
def test_all_at_once_finds_what_the_replay_finds(seed: int) -> None:
    blocks, segments = scene(seed)
    addr, born, died = as_columns(blocks)
    spans = spans_of(segments)
    at_once = holes._all_at_once(addr, born, died, spans)
    one_by_one = replay_holes(addr, born, died, spans)
    assert at_once is not None
    for here, there in zip(at_once, one_by_one, strict=True):
        assert here.tolist() == there.tolist()


@pytest.mark.parametrize(
    ("blocks", "segments"),
    [
        ([(10, 1, 9), (10, 5, 12), (11, 6, 7)], [(0, 50, -1, 20)]),  # two lives at once
        ([(10, 5, 5), (11, 6, 7)], [(0, 50, -1, 20)]),  # it ends as it begins
        ([(10, 5, 8)], [(0, 50, -1, 20), (0, 30, 3, 9)]),  # two segments at once
    ],
)
def test_what_cannot_be_is_replayed(
    blocks: list[tuple[int, int, int]], segments: list[tuple[int, int, int, int]]
) -> None:
    addr, born, died = as_columns(blocks)
    spans = spans_of(segments)
    assert holes._all_at_once(addr, born, died, spans) is None
    for here, there in zip(
        find_holes(addr, born, died, spans), replay_holes(addr, born, died, spans), strict=True
    ):
        assert here.tolist() == there.tolist()


def test_a_neighbour_beyond_many_dead_ones_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = [(0, 500, 900), (300, 1, 900), (301, 0, 900)]
    blocks += [(1 + i, 2 + i, 400) for i in range(200)]
    addr, born, died = as_columns(blocks)
    spans = spans_of([(0, 400, -1, 1000)])
    found = holes._all_at_once(addr, born, died, spans)
    assert found is not None
    assert found[0].tolist() == replay_holes(addr, born, died, spans)[0].tolist()
    assert found[0][0] == 300
    monkeypatch.setattr(holes, "_MOST_ASKED", 100)
    assert holes._all_at_once(addr, born, died, spans) is None
    assert find_holes(addr, born, died, spans)[0][0] == 300


def test_a_hole_ends_at_the_next_block_or_the_end_of_the_segment() -> None:
    addr, born, died = as_columns([(0, -1, 50), (30, 1, 60), (10, 2, 70), (35, 3, 9), (99, 4, 5)])
    found, bound = find_holes(addr, born, died, spans_of([(0, 40, -1, 100)]))
    assert found.tolist() == [0, 10, 20, 5, 0]
    assert bound.tolist() == [10, 0, 0, 0, 0]
