"""The diagnosis names the disease of a made recording, with its figures, and cries no wolf.

``make verdicts`` prints the same over more seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from dev.simulator.diseases import DISEASES, HEALTHY, Case
from tests.laboratory.verdicts import Match, judge
from tests.thorough import some

SEEDS = some(range(100, 106), 1)

Maker = Callable[[int], Case]


@dataclass(frozen=True)
class Judged:
    """What is found and what is a false alarm of one recording, of which several tests ask."""

    matches: tuple[Match, ...]
    alarms: tuple[str, ...]


def recordings(*makers: Maker) -> pytest.MarkDecorator:
    """Ask of each recording, of every seed; pytest lets the tests of one follow each other."""
    cases = [(make, seed) for make in makers for seed in SEEDS]
    names = [f"{seed}-{make.__name__}" for make, seed in cases]
    return pytest.mark.parametrize("judged", cases, ids=names, indirect=True, scope="module")


@pytest.fixture(scope="module")
def judged(request: pytest.FixtureRequest) -> Judged:
    make, seed = request.param
    outcome = judge(make(seed))
    return Judged(outcome.matches, outcome.alarms)


@recordings(*DISEASES)
def test_a_disease_is_named_with_its_cause_and_true_figures(judged: Judged) -> None:
    assert [wrong for match in judged.matches for wrong in match.wrong] == []


@recordings(*DISEASES)
def test_a_disease_is_found(judged: Judged) -> None:
    assert all(match.found for match in judged.matches)


@recordings(*DISEASES, *HEALTHY)
def test_nothing_is_found_to_act_on_that_is_not_true(judged: Judged) -> None:
    assert judged.alarms == ()
