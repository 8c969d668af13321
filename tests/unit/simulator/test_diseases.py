"""The made recordings: the same for a seed, as real ones are, and truly as they are said to be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dev.simulator.diseases import DISEASES, HEALTHY
from dev.simulator.diseases.case import SEVERITIES, Case
from dev.simulator.diseases.failures import FAILURES
from snapreport.diagnosis.recording_warnings import find_closing
from snapreport.figures.curves import find_curves
from snapreport.model.diagnoses import CODES
from snapreport.model.diagnoses import SEVERITIES as OURS
from tests.builders import history_of
from tests.thorough import some

MAKERS = [*DISEASES, *HEALTHY]


@pytest.fixture(scope="module", params=MAKERS, ids=lambda make: make.__name__)
def made(request: pytest.FixtureRequest) -> tuple[Callable[[int], Case], Case]:
    """A maker, and what it makes of one seed: not to be changed."""
    return request.param, request.param(0)


def test_a_seed_gives_one_recording_and_another_seed_another(
    made: tuple[Callable[[int], Case], Case],
) -> None:
    make, one = made
    same, other = make(0), make(1)
    assert one.snapshot == same.snapshot
    assert one.snapshot != other.snapshot
    assert [each.figures for each in one.expected] == [each.figures for each in same.expected]


def test_a_case_names_findings_that_there_are(made: tuple[Callable[[int], Case], Case]) -> None:
    _, case = made
    named = {each.code for each in case.expected} | case.also | case.never
    assert named <= set(CODES)
    assert {each.least for each in case.expected} <= set(OURS) == set(SEVERITIES)
    assert not {each.code for each in case.expected} & case.never


@pytest.mark.parametrize("seed", some(range(2), 1))
def test_a_recording_closes_as_real_ones_do(
    made: tuple[Callable[[int], Case], Case], seed: int
) -> None:
    make, case = made
    device = history_of((make(seed) if seed else case).snapshot).devices[0]
    closing = find_closing(device, find_curves(device))
    assert closing is not None
    assert closing.closes


@pytest.mark.parametrize("make", FAILURES, ids=lambda make: make.__name__)
def test_a_failure_s_figures_are_those_of_its_event(make: object) -> None:
    assert callable(make)
    for seed in some(range(4), 1):
        case = make(seed)
        (event,) = [e for e in case.snapshot["device_traces"][0] if e["action"] == "oom"]
        figures = case.expected[0].figures
        assert event["size"] == figures.get("asked for", event["size"])
        assert event["device_free"] == figures["free on the device"]


def test_a_limit_refuses_what_the_device_has_room_for() -> None:
    (limit,) = [make for make in DISEASES if make.__name__ == "limit"]
    figures = limit(0).expected[0].figures
    assert figures["asked for"] < figures["free on the device"]
