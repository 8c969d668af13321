"""The worst that ``search.py`` found stays as docs/safety.md says, with room to spare."""

from __future__ import annotations

import os

import pytest

from tests.hostile.cost import assert_within
from tests.hostile.search import Numbers, snapshot

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="inputs are tried in forks")

WORST = {
    "settings": Numbers(settings=9000, frames=3000, stacks=21, stages=100, devices=9),
    "stages": Numbers(stages=20_000),
    "segments": Numbers(segments=10_000, order="random"),
    "devices": Numbers(devices=64, events=1000),
}


@pytest.mark.parametrize("name", WORST)
def test_the_worst_found_stays_within_what_the_documents_say(name: str) -> None:
    data = snapshot(WORST[name])
    assert_within(data, seconds=2 + 6e-6 * len(data), mib=(20e6 + 260 * len(data)) / 2**20)


def test_long_names_in_deep_stacks_cost_what_their_budget_allows() -> None:
    numbers = Numbers(frames=3000, length=1000, text="accented", stages=1, settings=100, devices=9)
    assert_within(snapshot(numbers), seconds=10, mib=1000)
