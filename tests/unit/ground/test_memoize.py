"""What follows from a table is worked out once, and let go with it."""

from __future__ import annotations

import gc
import weakref
from dataclasses import fields

import pytest

from snapreport.diagnosis.conclude import find
from snapreport.figures.callsites import find_site_frames, label_sites
from snapreport.ground.memoize import once_for_both, once_for_each
from snapreport.history.segments import lives_of
from snapreport.roles.frames import classify_frames
from snapreport.roles.stack_kinds import missing_reason
from tests.builders import MIB, frame, trace


class Table:
    """Anything."""


def test_it_is_worked_out_once_for_each_and_not_kept_longer_than_it() -> None:
    asked = []

    @once_for_each
    def work(table: Table) -> list[int]:
        asked.append(1)
        return [len(asked)]

    one, two = Table(), Table()
    assert (work(one), work(two), work(one)) == ([1], [2], [1])
    gone = weakref.ref(one)
    del one
    gc.collect()
    assert gone() is None


def test_for_two_objects_the_other_one_has_to_be_the_same_as_the_last_time() -> None:
    asked = []

    @once_for_both
    def work(table: Table, other: Table) -> int:
        asked.append((table, other))
        return len(asked)

    one, two, other = Table(), Table(), Table()
    assert [work(one, other), work(two, other), work(one, other)] == [1, 2, 1]
    assert [work(one, two), work(one, two), work(one, other)] == [3, 3, 4]
    asked.clear()
    gone = weakref.ref(one)
    del one
    gc.collect()
    assert gone() is None


def test_further_arguments_have_to_be_equal() -> None:
    asked = []

    @once_for_both
    def work(table: Table, other: Table, number: int) -> int:
        asked.append(number)
        return len(asked)

    one, other = Table(), Table()
    assert [work(one, other, 1000), work(one, other, 10**3), work(one, other, 7)] == [1, 1, 2]
    assert work(one, other, number=7) == work(one, other, number=7)


def test_a_file_is_let_go_with_all_that_was_worked_out_about_its_devices() -> None:
    file = trace().alloc("a", 4, frames=[frame("f")]).segment("a", MIB, (4, 4, "live")).file()
    find(file)  # roles, passes and steps depend on a device and on the file that it is in
    gone = weakref.ref(file), weakref.ref(file.devices[0])
    del file
    gc.collect()
    assert [each() for each in gone] == [None, None]


def test_nobody_changes_what_others_get_too() -> None:
    built = trace().alloc("a", 4, frames=[frame("f")]).segment("a", MIB, (4, 4, "live"))
    file = built.file()
    stacks, device = file.stacks, file.devices[0]
    lives = lives_of(device)
    for shared in (
        *(getattr(lives, column.name) for column in fields(lives)),
        find_site_frames(stacks),
        classify_frames(stacks.frames),
        missing_reason(device, stacks),
        label_sites(device, stacks)[0],
    ):
        with pytest.raises(ValueError, match="read-only"):
            shared[0] = 7
