"""The groups in the headline of a run."""

from __future__ import annotations

import pytest

from snapreport.diagnosis.ranks.find_run import name_groups
from snapreport.model.run import Group
from tests.builders import MIB


@pytest.mark.parametrize(
    ("name", "verb"),
    [
        ("ranks 8 to 15", "form"),
        ("rank 1, rank 5 and rank 13", "form"),
        ("pipeline stage 1", "forms"),
    ],
)
def test_a_group_s_verb_goes_with_its_name(name: str, verb: str) -> None:
    usual = Group("the rest", (0, 1, 2), 2 * MIB, (), "")
    other = Group(name, (3, 4), 7 * MIB, (), "")
    assert name_groups([usual, other]) == [f"{name} {verb} a group at 7.00 MiB"]
