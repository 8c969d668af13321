"""The diagnosis names the disease of a made recording, with its figures, and cries no wolf.

``make verdicts`` prints the same over more seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from benchmarks.verdicts import judge
from simulator.diseases import DISEASES, HEALTHY, Case

SEEDS = range(100, 106)

Maker = Callable[[int], Case]

NO_CAUSE = "the finding has no figure 'cause' yet"
MISSED: Mapping[str, str] = {
    **dict.fromkeys(
        ("full", "giant", "fragmented", "locked", "waiting", "other_stream", "foreign", "limit",
         "late"),
        NO_CAUSE,
    ),
    "ring_of_one": "what the one event frees is counted as live at the end",
    "leak_between": "what is kept just between two steps is counted now to the one, now the other",
    "leak_until_full": "likewise",
}  # fmt: skip
"""Not named, or not with the right figures, at some seeds. Take out what was mended."""
UNSEEN = {name: MISSED[name] for name in ("leak_between", "leak_until_full")}
ALARMS: Mapping[str, str] = {
    "late_optimizer": "gradients that gather over steps are said to outlive them",
    "generation": "keys and values of a short text are said to outlive a step",
    **dict.fromkeys(
        ("giant", "waiting", "limit", "random_work"),
        "a pattern of little confidence is taken for the steps of a leak",
    ),
}
"""Found though it is not true, at some seeds."""


def _params(makers: Sequence[Maker], known: Mapping[str, str]) -> list[Any]:
    return [
        pytest.param(
            make,
            id=make.__name__,
            marks=pytest.mark.xfail(reason=known[make.__name__], strict=False)
            if make.__name__ in known
            else (),
        )
        for make in makers
    ]


@pytest.mark.parametrize("make", _params(DISEASES, MISSED))
@pytest.mark.parametrize("seed", SEEDS)
def test_a_disease_is_named_with_its_cause_and_true_figures(make: Maker, seed: int) -> None:
    outcome = judge(make(seed))
    assert [wrong for match in outcome.matches for wrong in match.wrong] == []


@pytest.mark.parametrize("make", _params(DISEASES, UNSEEN))
@pytest.mark.parametrize("seed", SEEDS)
def test_a_disease_is_found(make: Maker, seed: int) -> None:
    assert all(match.found for match in judge(make(seed)).matches)


@pytest.mark.parametrize("make", _params([*DISEASES, *HEALTHY], ALARMS))
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_found_to_act_on_that_is_not_true(make: Maker, seed: int) -> None:
    assert judge(make(seed)).alarms == ()
