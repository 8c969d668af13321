"""A run whose figures are in a file gives the same answers, and so do tables made in parts."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from io import BytesIO
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dev.benchmarks.runs.facts import example_run
from snapreport.api.runs.many_files import Shelf
from snapreport.diagnosis.ranks import holders
from snapreport.diagnosis.ranks.find_run import find_run
from snapreport.diagnosis.ranks.odd_ranks import Curves
from snapreport.model.run import Cells, DeviceFacts, Run, StepPeak, one_shift
from snapreport.reporters import run_payload
from snapreport.reporters.run import run_as_json
from snapreport.reporters.run_page import write_run_page
from snapreport.reporters.run_payload import scale_of
from tests.made_ranks import a_device
from tests.reference.rank_curves import lowest_usual, since_event, since_step, to_one_width


def on_a_shelf(run: Run) -> Run:
    shelf = Shelf()
    ranks = (replace(each, devices=tuple(map(shelf.put, each.devices))) for each in run.ranks)
    return replace(run, ranks=tuple(ranks))


def page_of(run: Run) -> bytes:
    out = BytesIO()
    write_run_page(run, find_run(run), out)
    return out.getvalue()


@pytest.mark.parametrize("ranks", [2, 40])
def test_answers_are_the_same_with_the_figures_in_a_file(ranks: int) -> None:
    run, found = example_run(ranks)
    kept = on_a_shelf(run)
    assert find_run(kept) == found
    assert run_as_json(kept, find_run(kept)) == run_as_json(run, found)
    assert page_of(kept) == page_of(run)


def test_a_device_on_a_shelf_can_be_copied_changed_and_pickled() -> None:
    (device, *_) = example_run(8)[0].ranks[0].devices
    kept = Shelf().put(device)
    for one in (kept, replace(kept, events=3), pickle.loads(pickle.dumps(kept))):
        assert one.holders == device.holders
        assert one.steps == device.steps
        assert one.by_event.allocated.tolist() == device.by_event.allocated.tolist()
    assert type(pickle.loads(pickle.dumps(kept))) is DeviceFacts
    with pytest.raises(AttributeError, match="nothing"):
        kept.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_without_room_for_temporary_files_figures_stay_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (device, *_) = example_run(8)[0].ranks[0].devices
    shelf = Shelf()
    kept = shelf.put(device)
    no_room = mock.Mock(side_effect=OSError(28, "No space left on device"))
    monkeypatch.setattr(shelf._file, "flush", no_room)
    assert shelf.put(device) is device
    monkeypatch.undo()
    assert shelf.put(device) is device  # the file may end anywhere
    assert kept.holders == device.holders


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
def test_forked_processes_read_the_same_figures() -> None:
    run, _ = example_run(8)
    given = [device for rank in run.ranks for device in rank.devices]
    shelf = Shelf()
    kept = [shelf.put(device) for device in given]
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            pairs = list(zip(kept, given, strict=True)) * 100
            os._exit(any(one.holders != other.holders for one, other in pairs))
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4


def test_memory_has_a_few_hundred_bytes_of_each_device() -> None:
    (device, *_) = example_run(8)[0].ranks[0].devices
    kept = Shelf().put(device)
    there = [each.name for each in fields(DeviceFacts) if each.name in dir(type(kept))]
    inside = [name for name in there if _has(kept, name)]
    assert {"by_event", "by_time", "holders", "steps"}.isdisjoint(inside)
    assert {"device", "allocated", "failed"} <= set(inside)


def _has(kept: DeviceFacts, name: str) -> bool:
    try:
        object.__getattribute__(kept, name)
    except AttributeError:
        return False
    return True


_CURVE = st.lists(st.integers(0, 900), min_size=1, max_size=12)
_STEPS = st.lists(
    st.tuples(st.integers(1, 6), st.integers(0, 900), st.integers(0, 900)), max_size=6
)


@st.composite
def devices(draw: st.DrawFn) -> list[DeviceFacts]:
    made = []
    for curve, shift, steps in draw(
        st.lists(st.tuples(_CURVE, st.integers(0, 2), _STEPS), min_size=1, max_size=7)
    ):
        cells = Cells(0, shift, np.array(curve, np.int64), None)
        device = a_device({"a": (1, 512)})
        events = draw(st.sampled_from([100, 100, 100, 300]))
        peaks = tuple(StepPeak(*step) for step in steps)
        made.append(replace(device, by_event=cells, events=events, steps=peaks))
    return made


@given(devices(), st.data(), st.integers(-500, 500), st.integers(1, 40))
def test_ranks_diverge_where_they_do_in_one_table(
    made: Sequence[DeviceFacts], data: st.DataObject, difference: int, cells: int
) -> None:
    rows = range(len(made))
    core = data.draw(st.lists(st.sampled_from(rows), min_size=1, unique=True))
    with mock.patch.object(holders, "_MOST_CELLS", cells):
        curves = Curves(made, core, one_shift(each.by_event for each in made))
    for row in rows:
        assert curves.since_event(row, difference) == since_event(made, core, row, difference)
        for growing in (False, True):
            expected = since_step(made, core, row, difference, growing)
            assert curves.since_step(row, difference, growing) == expected


@given(st.lists(_CURVE, min_size=1, max_size=6), st.integers(0, 2), st.integers(1, 30))
def test_one_shift_is_that_of_one_width(curves: list[list[int]], shift: int, most: int) -> None:
    made = [Cells(3, shift + k % 2, np.array(each), None) for k, each in enumerate(curves)]
    assert {each.shift for each in to_one_width(made, most)} == {one_shift(made, most)}


@given(
    st.lists(st.lists(st.integers(-1, 60), max_size=80), max_size=30),
    st.integers(0, 100),
)
def test_the_heat_scale_begins_where_that_of_all_cells_does(
    rows: list[list[int]], at_once: int
) -> None:
    made = [np.array(row, np.int64) for row in rows]
    with mock.patch.multiple(run_payload, _AT_ONCE=at_once, _FLAT=-1.0):
        scale = scale_of(made)
    known = [value for row in rows for value in row if value >= 0]
    if known:
        assert (scale.low, scale.least, scale.most) == (lowest_usual(made), min(known), max(known))
