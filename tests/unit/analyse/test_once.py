"""What follows from a table is worked out once, and let go with it."""

from __future__ import annotations

import gc
import weakref

import pytest

from snapreport.analyse.callsites import classify_frames, find_site_frames
from snapreport.analyse.once import once_for_each
from tests.builders import frame, trace


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


def test_nobody_changes_what_others_get_too() -> None:
    stacks = trace().alloc("a", 4, frames=[frame("f")]).file().stacks
    for shared in (find_site_frames(stacks), classify_frames(stacks.frames)):
        with pytest.raises(ValueError, match="read-only"):
            shared[0] = 7
