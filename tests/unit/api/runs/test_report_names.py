"""Outputs of several inputs have different names that say which is which."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapreport.api.runs.inputs import name_outputs
from snapreport.ground.errors import OutputError

OUT = Path("out")


def targets(*sources: str, ending: str = ".zip") -> list[str]:
    return [each.target.name for each in name_outputs([Path(s) for s in sources], OUT, ending)]


def test_names_come_from_the_inputs() -> None:
    named = name_outputs([Path("run/a.pickle.gz"), Path("b.json")], OUT, ".zip")
    assert [each.target for each in named] == [OUT / "a.zip", OUT / "b.zip"]
    assert [each.label for each in named] == ["a", "b"]


def test_equal_names_have_the_folders_in_which_they_differ() -> None:
    assert targets("run/rank0/mem/s.pickle", "run/rank1/mem/s.pickle") == [
        "rank0-s.zip", "rank1-s.zip"
    ]  # fmt: skip
    assert targets("s.pickle", "/s.pickle", "t.pickle")[1:] == ["s.zip", "t.zip"]
    assert targets("/a/x/s.pickle", "/a/y/s.pickle", "/b/x/s.pickle") == [
        "a-x-s.zip", "a-y-s.zip", "b-x-s.zip"
    ]  # fmt: skip


def test_only_those_with_one_name_have_folders() -> None:
    assert targets("a/s.pickle", "b/s.pickle", "b/other.pickle") == [
        "a-s.zip", "b-s.zip", "other.zip"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "sources",
    [
        ("a/s.pickle", "a/s.json"),
        ("a/s.pickle", "a/s.pickle.gz"),
        ("a/S.pickle", "a/s.pickle"),
        ("a/s.pickle", "b/s.pickle", "c/a-s.pickle"),
    ],
)
def test_names_that_stay_equal_are_an_error_that_names_both(sources: tuple[str, ...]) -> None:
    with pytest.raises(OutputError, match="would both be written to") as caught:
        targets(*sources)
    assert sources[0] in str(caught.value)
    assert sources[-1] in str(caught.value)
