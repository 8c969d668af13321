"""The peak without some allocations, on histories small enough to check by hand."""

from __future__ import annotations

import numpy as np
import pytest

from snapreport.figures.what_if import (
    find_held,
    find_members,
    find_what_if,
    find_without,
    range_maxima,
)
from snapreport.ground.errors import NotEnoughMemoryError, PatternError
from snapreport.model.answers import WhatIf
from snapreport.roles.steps import allocated_outline
from tests.builders import MIB, TraceBuilder, frame, trace


def two_peaks() -> TraceBuilder:
    """At event 1 first and second hold 6 MiB; at event 5 third alone holds 5."""
    made = trace().settings(expandable_segments=True)
    for name, size in (("first", 4), ("second", 2)):
        made.alloc(name, size * MIB, frames=[frame(name, "model.py", size)])
    made.free("first").free("second")
    return made.alloc("third", 5 * MIB, frames=[frame("third", "loss.py", 9)]).free("third")


def what_if(made: TraceBuilder, by: str = "site") -> dict[str, WhatIf]:
    file = made.file()
    history = file.devices[0]
    outline = allocated_outline(history)
    found = find_what_if(history, find_members(file, history, by), outline)
    assert [each.peak_bytes for each in found] == sorted(each.peak_bytes for each in found)
    return {each.name: each for each in found}


def test_the_second_highest_peak_binds_when_the_first_is_taken_away() -> None:
    found = what_if(two_peaks())
    assert found["first  model.py:4"] == WhatIf(
        "first  model.py:4", 5 * MIB, peak_event=6, falls=MIB, held=4 * MIB, count=1
    )
    assert found["third  loss.py:9"] == WhatIf(
        "third  loss.py:9", 6 * MIB, peak_event=1, falls=0, held=0, count=1
    )


def test_the_first_of_equal_peaks_is_named() -> None:
    made = trace().settings(expandable_segments=True)
    made.alloc("a", MIB, frames=[frame("a")]).free("a")
    made.alloc("b", MIB, frames=[frame("b")]).free("b")
    made.alloc("c", MIB, frames=[frame("c")]).free("c")
    found = what_if(made)
    assert [found[f"{name}  train.py:1"].peak_event for name in "abc"] == [3, 0, 0]


def test_without_everything_the_peak_is_nothing_at_the_start() -> None:
    made = trace().settings(expandable_segments=True)
    made.alloc("a", MIB, frames=[frame("a")]).free("a")
    found = what_if(made)["a  train.py:1"]
    assert (found.peak_bytes, found.peak_event, found.falls) == (0, -1, MIB)


def test_a_baseline_that_is_never_freed_lowers_the_whole_curve() -> None:
    made = trace().segment("old", 8 * MIB, (8 * MIB, 8 * MIB, "live"))
    made.alloc("new", MIB, frames=[frame("new")]).free("new")
    found = what_if(made)["before recording"]
    assert (found.peak_bytes, found.peak_event, found.falls) == (MIB, 0, 8 * MIB)


def test_a_stage_is_all_that_was_made_in_it_and_in_the_stages_inside() -> None:
    made = trace().settings(expandable_segments=True).start("outer", -5)
    made.alloc("a", 4 * MIB).start("inner", 5).alloc("b", 2 * MIB).end("inner", 15)
    made.alloc("c", MIB).end("outer", 25).alloc("d", MIB)
    found = what_if(made, "stage")
    assert {name: each.held // MIB for name, each in found.items()} == {
        "outer": 7, "inner": 2, "outside stages": 1,
    }  # fmt: skip


def test_stages_of_one_name_inside_one_another_count_once() -> None:
    made = trace().settings(expandable_segments=True).start("x", -5).start("x", -4)
    made.alloc("a", 4 * MIB).end("x", 5).alloc("b", MIB).end("x", 15)
    found = what_if(made, "stage")["x"]
    assert (found.held, found.count) == (5 * MIB, 2)


def test_several_are_taken_away_together() -> None:
    file = two_peaks().file()
    history = file.devices[0]
    members, outline = find_members(file, history, "site"), allocated_outline(history)
    found = find_without(history, members, outline, ["model.py:*"])
    assert found.name == "first  model.py:4, second  model.py:2"
    assert (found.peak_bytes, found.peak_event, found.falls) == (5 * MIB, 6, MIB)
    held = find_held(history, file.stacks, members, 0, ["first  model.py:4"])
    assert held == ()
    assert [group.name for group in find_held(history, file.stacks, members, 1)] == [
        "first  model.py:4",
        "second  model.py:2",
    ]


def test_a_pattern_that_fits_nothing_is_an_error() -> None:
    file = two_peaks().file()
    history = file.devices[0]
    members, outline = find_members(file, history, "site"), allocated_outline(history)
    with pytest.raises(PatternError, match="'attention' fits none of 3 names"):
        find_without(history, members, outline, ["model", "attention"])
    with pytest.raises(ValueError, match="not one of site, category"):
        find_members(file, history, "colour")


def test_nothing_allocated_gives_no_groups() -> None:
    assert what_if(trace()) == {}


def test_the_most_of_every_span_is_found_at_its_first_place() -> None:
    values = np.array([3, 1, 4, 1, 5, 5, 2, 6, 5, 3, 5], np.int64)
    spans = [(low, high) for low in range(11) for high in range(low + 1, 12)]
    low, high = (np.array(column, np.int64) for column in zip(*spans, strict=True))
    most, place = range_maxima(values, low, high)
    for (a, b), value, at in zip(spans, most.tolist(), place.tolist(), strict=True):
        assert (value, at) == (int(values[a:b].max()), a + int(values[a:b].argmax()))


def test_stages_without_end_around_each_other_are_refused_before_memory_is() -> None:
    made, count = trace(), 3000
    for i in range(count):
        made.start(f"stage {i}", i).alloc(f"a{i}", MIB)
    for i in reversed(range(count)):
        made.end(f"stage {i}", 100 * count - i)
    with pytest.raises(NotEnoughMemoryError, match=r"cuda:0 has 2,\d+ stages around each"):
        what_if(made, "stage")
    assert len(what_if(made)) == 1
