"""An edited history has the peak that adding up its blocks event by event gives."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from snapreport.diagnosis.advice.edits import Edit, away, edited_peak, scaled
from snapreport.figures.curves import find_curves
from snapreport.ground.native.columns import Outline
from snapreport.model.history import DeviceHistory
from tests.builders import trace

UNIT = 512


def history_of(seed: int, count: int = 12) -> DeviceHistory:
    """Make allocations and frees in a random order."""
    draw = random.Random(seed)
    made, live = trace(), []
    for i in range(count):
        made.alloc(f"{i}", UNIT * draw.randint(1, 40))
        live.append(f"{i}")
        while live and draw.random() < 0.45:
            made.free(live.pop(draw.randrange(len(live))))
    return made.file().devices[0]


def by_hand(history: DeviceHistory, edits: list[Edit]) -> tuple[int, int]:
    """Add up what is left of every block after every event."""
    rows, best, at = history.allocations, -1, 0
    for event in range(-1, history.events):
        total = 0
        for row in range(len(rows)):
            size, left = int(rows.block_size[row]), Fraction(1)
            live = rows.alloc_event[row] <= event < rows.free_requested_event[row]
            for edit in edits:
                for place in np.flatnonzero(edit.rows == row).tolist():
                    if edit.begin[place] <= event < edit.end[place]:
                        share = Fraction(float(edit.share[place]))
                        if edit.adds:
                            total -= round(size * share)
                        else:
                            left *= 1 - share
            if live:
                total += min(-(-size * left // UNIT) * UNIT, size)
        if total > best:
            best, at = int(total), event
    return best, at


@pytest.mark.parametrize("seed", range(12))
def test_edits_of_the_same_blocks_multiply(seed: int) -> None:
    history = history_of(seed)
    draw = np.random.default_rng(seed)
    n, events = len(history.allocations), history.events
    curve = Outline(find_curves(history, reserves=True)["allocated"])
    edits = [scaled(history, draw.random(n) < 0.6, share) for share in (0.5, 0.75)]
    rows = np.flatnonzero(draw.random(n) < 0.5)
    begin = draw.integers(-1, events, len(rows))
    edits.append(away(history, rows, begin, begin + draw.integers(0, events, len(rows))))
    for some in (edits[:1], edits[2:], edits[:2], edits):
        assert edited_peak(history, curve, some) == by_hand(history, some)


def test_what_is_added_lies_outside_of_a_life() -> None:
    history = history_of(3)
    curve = Outline(find_curves(history, reserves=True)["allocated"])
    rows = np.array([5, 7])
    born = history.allocations.alloc_event[rows]
    longer = Edit(rows, np.full(2, -1.0), np.zeros(2, np.int64), born, adds=True)
    assert edited_peak(history, curve, [longer]) == by_hand(history, [longer])


def test_without_edits_the_peak_stays() -> None:
    history = history_of(1)
    curve = Outline(find_curves(history, reserves=True)["allocated"])
    none = scaled(history, np.zeros(len(history.allocations), np.bool_), 0.5)
    assert edited_peak(history, curve, []) == edited_peak(history, curve, [none])
    assert edited_peak(history, curve, []) == by_hand(history, [])
