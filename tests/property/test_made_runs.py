"""Of runs made from a recording every planted oddity is found, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dev.benchmarks.runs.facts import SAMPLE, make_run
from dev.benchmarks.runs.pattern import Pattern, read_pattern
from dev.benchmarks.runs.plan import make_plan
from dev.benchmarks.runs.truth_check import mistakes
from snapreport.diagnosis.ranks.find_run import find_run
from snapreport.diagnosis.ranks.odd_ranks import stand_out
from snapreport.diagnosis.ranks.rows import number_ranges
from snapreport.model.run import DeviceFacts, Run
from tests.made_ranks import MIB, a_device, a_rank, a_run
from tests.thorough import IN_FULL, some, tried

RANKS = 1024 if IN_FULL else 192
SEEDS = some(range(20), 2)


@lru_cache(maxsize=1)
def pattern() -> Pattern:
    return read_pattern(SAMPLE, 6, most=None if IN_FULL else 700)


@pytest.mark.parametrize("seed", SEEDS)
def test_everything_planted_is_found_and_nothing_else(seed: int) -> None:
    plan = make_plan(pattern(), RANKS, seed)
    for known in (True, False):
        told = make_run(plan, layout=known)
        assert mistakes(plan.truth() | {"known_layout": known}, told, find_run(told)) == []


@pytest.mark.parametrize("seed", SEEDS[:1])
def test_of_a_healthy_run_no_rank_is_odd(seed: int) -> None:
    run = make_run(make_plan(pattern(), RANKS, seed, healthy=True))
    found = find_run(run)
    assert found.odd == ()
    assert found.missing == found.broken == ()
    assert "unlike its group" in found.headline or "alike" in found.headline


_HELD = st.dictionaries(
    st.sampled_from("abcdef"),
    st.tuples(st.integers(1, 40), st.integers(1, 600)).map(lambda each: (each[0], each[1] * MIB)),
    max_size=6,
)


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Ranks of any kind at all: alike, unlike, broken, missing, without history."""
    kinds = draw(st.lists(_HELD, min_size=1, max_size=4))
    ranks = []
    for number in range(draw(st.integers(0, 14))):
        held = draw(st.sampled_from(kinds))
        device = a_device(held, recorded=draw(st.integers(0, 5)) > 0)
        if draw(st.integers(0, 7)):
            ranks.append(a_rank(number, *[device] * draw(st.integers(0, 2))))
    return a_run(ranks, draw(st.sampled_from([(), (("tp", 2), ("pp", 4))])))


@tried(200)
@given(run=runs())
def test_reasons_account_for_every_difference_to_the_byte(run: Run) -> None:
    found = find_run(run)
    peaks = [run.ranks[rank].devices[place].allocated for rank, place in found.rows]
    for odd in found.odd:
        if odd.code != "growth":
            sites = [each for each in odd.differences if each.kind == "site"]
            assert sum(each.bytes - each.usual for each in sites) == odd.bytes
            assert sum(each.bytes for each in sites) == peaks[odd.row] or not sites
            assert peaks[odd.row] - odd.bytes in [
                peaks[row] for row in found.groups[odd.group or 0].rows
            ]
    grouped = sorted(row for group in found.groups for row in group.rows)
    assert grouped == list(range(len(found.rows)))
    assert found.headline[:1].isupper()
    assert found.headline.endswith(".")
    assert find_run(run) == found


@tried(100)
@given(run=runs(), by=st.integers(1, 9))
def test_what_is_odd_does_not_depend_on_the_order_of_sites(run: Run, by: int) -> None:
    def turned(device: DeviceFacts) -> DeviceFacts:
        at = by % max(len(device.holders), 1)
        return replace(device, holders=device.holders[at:] + device.holders[:at])

    other = replace(
        run,
        ranks=tuple(
            replace(rank, devices=tuple(turned(device) for device in rank.devices))
            for rank in run.ranks
        ),
    )
    assert find_run(other).odd == find_run(run).odd


@tried(200)
@given(values=st.lists(st.integers(0, 2000), min_size=3, max_size=40))
def test_few_values_stand_out_and_all_beyond_one_that_does(values: list[int]) -> None:
    array = np.array(values, np.int64)
    side = stand_out(array, 30, np.ones(len(array), bool))
    assert np.sum(side == 1) <= max(len(values) // 4, 1)
    if (side == 1).any():
        assert (side[array >= array[side == 1].min()] == 1).all()


@tried(200)
@given(numbers=st.sets(st.integers(0, 30), min_size=1))
def test_ranges_name_every_number_once(numbers: set[int]) -> None:
    named: list[int] = []
    for part in number_ranges(sorted(numbers)):
        first, _, last = part.partition(" to ")
        named += range(int(first), int(last or first) + 1)
    assert named == sorted(numbers)
