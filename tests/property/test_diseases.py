"""The diagnosis names the disease of a made recording, with its figures, and cries no wolf.

``make verdicts`` prints the same over more seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from simulator.diseases import DISEASES, HEALTHY, Case
from tests.laboratory.verdicts import Match, judge

SEEDS = range(100, 106)

Maker = Callable[[int], Case]


@cache
def judged(make: Maker, seed: int) -> tuple[tuple[Match, ...], tuple[str, ...]]:
    """What is found and what is a false alarm of one recording, of which several tests ask."""
    outcome = judge(make(seed))
    return outcome.matches, outcome.alarms


@pytest.mark.parametrize("make", DISEASES, ids=lambda make: make.__name__)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_disease_is_named_with_its_cause_and_true_figures(make: Maker, seed: int) -> None:
    matches, _ = judged(make, seed)
    assert [wrong for match in matches for wrong in match.wrong] == []


@pytest.mark.parametrize("make", DISEASES, ids=lambda make: make.__name__)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_disease_is_found(make: Maker, seed: int) -> None:
    assert all(match.found for match in judged(make, seed)[0])


@pytest.mark.parametrize("make", [*DISEASES, *HEALTHY], ids=lambda make: make.__name__)
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_found_to_act_on_that_is_not_true(make: Maker, seed: int) -> None:
    assert judged(make, seed)[1] == ()
