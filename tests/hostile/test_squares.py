"""What once took the square of a file's size."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapreport.diagnosis.compare.diff_types import MOVED_FILE
from snapreport.diagnosis.compare.sites import Comparisons, Site, SiteList, match_lines, match_sites
from snapreport.history.segments import segment_lives
from snapreport.model.history import Events
from snapreport.model.snapshot import FrameTable, StackTable
from snapreport.names.short_paths import short_names
from snapreport.roles.source_files import common_tail, find_roots, pair_files
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


PLACES = st.dictionaries(PATHS, st.integers(1, 3), max_size=6)
"""The line of a function in each file that has it."""


@given(PLACES, PLACES)
def test_functions_move_to_where_they_would_if_all_pairs_were_ranked(
    base: dict[str, int], new: dict[str, int]
) -> None:
    one, other = listed(base), listed(new)
    found = {
        (one.sites[pair.base[0]], other.sites[pair.new[0]])
        for pair in match_sites(one, other)
        if pair.match == MOVED_FILE
    }
    assert found == every_move(one, other)


def listed(places: dict[str, int]) -> SiteList:
    """Return a recording in which one function of each file allocates at a line."""
    sites = tuple(Site(file, "f", line) for file, line in sorted(places.items()))
    n, none = len(sites), np.full(len(sites), -1, np.int32)
    lines = np.array([site.line for site in sites], np.int64)
    frames = FrameTable(["f"] * n, [site.filename for site in sites], lines)
    nodes = np.arange(n, dtype=np.int32)
    return SiteList(sites, StackTable(frames, none, nodes, np.ones(n, np.int32), nodes))


def every_move(base: SiteList, new: SiteList) -> set[tuple[Site, Site]]:
    """Rank all pairs of sites in files of one name, and take the best ones first."""
    if sorted(base.sites) > sorted(new.sites):
        return {(other, one) for one, other in every_move(new, base)}
    keys = pair_files(base.filenames(), new.filenames())
    both = {*keys[0].values()} & {*keys[1].values()}
    ranked = []
    for one in base.sites:
        for other in new.sites:
            files = keys[0][one.filename], keys[1][other.filename]
            shared = common_tail(files[0][1].split("/"), files[1][1].split("/"))
            if shared and not both & {*files}:
                ranked.append((-shared, one.line != other.line, *files, one, other))
    found: dict[Site, Site] = {}
    for *_, one, other in sorted(ranked):
        if one not in found and other not in found.values():
            found[one] = other
    return set(found.items())


def test_functions_of_one_name_in_many_folders_are_not_all_compared() -> None:
    base = listed({f"/a{i}/x.py": 1 + i for i in range(5000)})
    new = listed({f"/b{i}/x.py": 5000 - i for i in range(5000)})
    pairs = match_sites(base, new)
    assert len(pairs) == 5000
    for pair in pairs:  # though not compared, the same code is found
        assert base.sites[pair.base[0]].line == new.sites[pair.new[0]].line


def test_lines_are_compared_as_often_as_is_allowed_and_no_more() -> None:
    rng = np.random.default_rng(1)
    base, new = (sorted(rng.choice(10**6, 4000, replace=False).tolist()) for _ in range(2))
    compared = 0

    def alike(line: int, other: int) -> tuple[int, int]:
        nonlocal compared
        compared += 1
        return 100, 100

    allowed = Comparisons(100_000)
    found = match_lines(base, new, alike, lambda shift: 0, allowed)
    assert allowed.left >= 0
    assert compared <= 100_000 + len(base)
    assert found == sorted(found)
