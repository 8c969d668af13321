"""What the heat map of a run shows: the scale of its colours, its axis, and the static picture."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dev.benchmarks.runs.facts import example_run
from snapreport.model.run import Cells, DeviceFacts
from snapreport.reporters.run import rows_of
from snapreport.reporters.run_page import draw_heat
from snapreport.reporters.run_payload import HeatScale, first_axis, scale_of
from tests.thorough import tried

RUN, FINDINGS = example_run(12)
DEVICE = RUN.ranks[0].devices[0]


def rows(*peaks: int, least: int = 0) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    return [np.array([least, peak], np.int64) for peak in peaks]


def test_one_rank_ten_times_as_large_is_above_the_scale() -> None:
    assert scale_of(rows(*[100] * 40, 120, 1000)) == HeatScale(0, 120, 0, 1000)


def test_a_stage_that_is_twice_as_heavy_is_on_the_scale() -> None:
    assert scale_of(rows(*[100] * 30, *[200] * 10)) == HeatScale(0, 200, 0, 200)
    assert scale_of(rows(100, 190)).high == 190


def test_where_nothing_is_low_the_scale_begins_at_the_lowest() -> None:
    assert scale_of(rows(*[100] * 8, least=90)) == HeatScale(90, 100, 90, 100)
    assert scale_of(rows(*[100] * 8, least=40)).low == 0


def test_cells_that_are_none_do_not_count() -> None:
    assert scale_of([np.array([-1, 7, -1]), np.array([-1])]) == HeatScale(7, 7, 7, 7)
    assert scale_of([]) == HeatScale(0, 1, 0, 0)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=60))
@tried(60)
def test_most_ranks_are_on_the_scale_and_it_is_used_to_its_end(peaks: list[int]) -> None:
    scale = scale_of(rows(*peaks))
    assert scale.high in peaks
    assert sum(peak <= scale.high for peak in peaks) >= 0.95 * (len(peaks) - 1)
    usual = sorted(peaks)[int(0.95 * (len(peaks) - 1))]
    assert all(peak > 2 * usual for peak in peaks if peak > scale.high)


def at(first: int, count: int) -> DeviceFacts:
    cells = Cells(first, 10, np.ones(count, np.int64), None)
    return replace(DEVICE, by_time=cells)


def test_ranks_that_were_recorded_together_are_shown_by_time_others_by_event() -> None:
    assert first_axis([at(1000, 50), at(1010, 50), at(990, 60)]) == "time"
    assert first_axis([at(1000, 50), at(900_000, 50)]) == "event"
    assert first_axis([at(1000, 50), *[replace(DEVICE, by_time=None)] * 9]) == "event"
    assert first_axis([replace(DEVICE, by_time=None)]) == "event"


def test_the_still_picture_covers_each_cell_once_and_marks_what_is_above() -> None:
    picture = draw_heat(rows_of(RUN, FINDINGS))
    assert picture is not None
    assert picture.axis == "time"
    covered = np.zeros((picture.rows, picture.columns), int)
    above = np.zeros_like(covered)
    for colour, path in picture.paths:
        for x, y, width in re.findall(r"M(\d+) (\d+)h(\d+)v1H\1", str(path)):
            covered[int(y), int(x) : int(x) + int(width)] += 1
            above[int(y)] += colour == "over"
    assert covered.max() == 1
    heavy = [RUN.ranks[at].name.rank for at, _ in FINDINGS.rows].index(3)
    assert set(np.flatnonzero(above.any(axis=1))) == {heavy}


def test_of_many_ranks_some_share_a_row_that_shows_the_most_of_them() -> None:
    picture = draw_heat(rows_of(*example_run(160, events=10)))
    assert picture is not None
    assert picture.bundle == 4
    assert picture.rows == 40
    over = dict(picture.paths)["over"]
    assert set(re.findall(r"M\d+ (\d+)h", str(over))) == {"10"}  # rank 40
