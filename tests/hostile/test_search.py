"""The worst that ``search.py`` found stays as docs/safety.md says, with room to spare."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from tests.hostile.cost import assert_within
from tests.hostile.search import SITES, Made, Numbers, snapshot
from tests.hostile.tasks import TASKS

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="inputs are tried in forks")

WORST = {
    "settings": Numbers(settings=9000, frames=3000, stacks=21, stages=100, devices=9),
    "stages": Numbers(stages=20_000),
    "segments": Numbers(segments=10_000, order="random"),
    "devices": Numbers(devices=64, events=1000),
    "devices and frames": Numbers(devices=256, events=2000, frames=40, stacks=1000, names=20_000),
    "last letters": Numbers(events=3000, frames=1, stacks=3000, names=3000, length=1000),
    "unknown keys": Numbers(events=300, unknown=1000, form="json"),
    "devices and long names": Numbers(devices=256, events=333, names=30, length=100_000),
}


@pytest.mark.parametrize("name", WORST)
def test_the_worst_found_stays_within_what_the_documents_say(name: str) -> None:
    data = snapshot(WORST[name])
    ending = f".{WORST[name].form}"
    assert_within(
        data, ending=ending, seconds=3 + 10e-6 * len(data), mib=(20e6 + 260 * len(data)) / 2**20
    )


WORST_OF_TASKS: dict[str, tuple[str, Made]] = {
    "one function in many folders": ("diff", replace(SITES, folders=3000)),
    "many lines of one function": ("diff", replace(SITES, folders=1, spread=100)),
    "notes in many quotes": ("report", Numbers(events=500, notes=32_000, nested=20)),
}
"""What once took the most with the other tasks; ``test_pages`` has that for ``strings``."""


@pytest.mark.parametrize("name", WORST_OF_TASKS)
def test_the_worst_found_of_each_task_stays_within_it_as_well(name: str) -> None:
    task, numbers = WORST_OF_TASKS[name]
    data, ending = numbers.file(task)
    assert_within(
        data,
        ending=ending,
        attempt=TASKS[task],
        seconds=3 + 10e-6 * len(data),
        mib=(20e6 + 260 * len(data)) / 2**20,
    )


AGAIN = Numbers(frames=3000, text="wide", stages=1, settings=100, devices=9)
"""Its names are written out again and again: each frame is in many call stacks."""


@pytest.mark.parametrize(
    ("numbers", "seconds", "mib"),
    [
        (replace(AGAIN, length=120), 3, 250),
        (replace(AGAIN, length=25, stacks=90, names=100), 11, 600),
        (replace(AGAIN, length=1000, text="accented"), 1, 50),
    ],
    ids=["small", "large", "refused"],
)
def test_names_in_deep_stacks_cost_what_their_budget_allows(
    numbers: Numbers, seconds: float, mib: float
) -> None:
    assert_within(snapshot(numbers), seconds=seconds, mib=mib)
