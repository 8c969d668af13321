"""What once took the square of a file's size."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapreport.frames.source_files import common_tail, find_roots
from snapreport.history.segment_replay import segment_lives
from snapreport.model.history import Events
from snapreport.names.short_paths import short_names
from tests.clock import took
from tests.property.test_sweeps import odd_recording


def test_files_that_shorten_to_one_name_are_numbered_in_one_go() -> None:
    names = [f"/home/user{i}/x.py" for i in range(20_000)]
    assert took(lambda: short_names(names), most=2) <= 2
    found = short_names(names).names
    assert len(set(found.values())) == len(names)
    assert [found[name] for name in sorted(names)[:3]] == ["~/x.py", "~(2)/x.py", "~(3)/x.py"]


@pytest.mark.parametrize("order", ["up", "down", "random"])
def test_segments_in_any_order_of_addresses_are_replayed_in_a_moment(order: str) -> None:
    n = 200_000
    place = np.arange(n, dtype=np.int64)
    if order == "random":
        place = np.random.default_rng(1).permutation(place)
    none = np.full(n, -1, np.int32)
    other = Events(
        event=np.arange(n, dtype=np.int64),
        action=["segment_free"] * n,
        addr=512 * (place[::-1].copy() if order == "down" else place),
        size=np.full(n, 512, np.int64),
        time_us=np.zeros(n, np.int64),
        stream=np.zeros(n, np.int64),
        pool=none,
        stack=none,
    )
    _, segments, _ = odd_recording(1)
    assert took(lambda: segment_lives(other, segments, n), most=2) <= 2


def test_files_of_one_name_are_not_all_compared() -> None:
    base = [f"/a{i}/x.py" for i in range(20_000)]
    new = [f"/b{i}/x.py" for i in range(20_000)]
    assert took(lambda: find_roots(base, new), most=2) <= 2
    assert find_roots([*base, "/a/train.py"], [*new, "/b/train.py"]) == (("", "a"), ("", "b"))
    deep = ["d/" * 100_000 + "x.py"]
    assert took(lambda: find_roots(deep, new), most=2) <= 2


PATHS = st.lists(st.sampled_from("ab"), min_size=1, max_size=5).map("/".join)


@given(st.sets(PATHS), st.sets(PATHS))
def test_roots_are_those_that_most_pairs_of_files_have(base: set[str], new: set[str]) -> None:
    base -= new
    new -= base
    assert find_roots(base, new) == every_pair(base, new)


def every_pair(
    base: Collection[str], new: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    votes: dict[tuple[tuple[str, ...], tuple[str, ...]], list[int]] = {}
    for parts in (path.split("/") for path in base):
        for other in (path.split("/") for path in new):
            if shared := common_tail(parts, other):
                pair = (tuple(parts[:-shared]), tuple(other[:-shared]))
                vote = votes.setdefault(pair, [0, 0])
                vote[0] += 1
                vote[1] += shared
    return max(votes, key=lambda pair: (votes[pair], pair), default=None)
