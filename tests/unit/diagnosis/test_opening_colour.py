"""What the page's timeline is coloured by at first: roles where they tell more than call sites."""

from __future__ import annotations

from dataclasses import replace

import pytest

import snapreport
from snapreport.diagnosis.conclude import find, find_figures
from snapreport.model.roles import RoleUse
from tests.conftest import REPOSITORY


@pytest.mark.parametrize(
    ("held", "colour"),
    [
        ({"activation": 60, "parameter": 30, "unknown": 10}, "role"),
        ({"activation": 59, "parameter": 30, "unknown": 11}, "site"),  # too much is not known
        ({"activation": 90, "parameter": 10}, "site"),  # one colour would tell nothing
        ({"activation": 89, "parameter": 11}, "role"),
        ({}, "site"),
    ],
)
def test_roles_are_the_colour_where_most_are_known_and_differ(
    held: dict[str, int], colour: str
) -> None:
    history = snapreport.load(REPOSITORY / "sample_snapshots" / "two_streams.pickle").history
    uses = tuple(RoleUse(role, size, 1, ()) for role, size in held.items())
    figures = replace(find_figures(history, 0), held_by_role=uses)
    assert find(history, [figures], allocator=None).colour == colour
    assert find(history, [figures], colour="stage", allocator=None).colour == "stage"
