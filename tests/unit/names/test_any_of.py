"""One pattern for many names finds what a list of them finds."""

from __future__ import annotations

import random
import re

from hypothesis import given
from hypothesis import strategies as st

from snapreport.names.personal_data import any_of, folders_of
from tests.clock import took

NAMES = st.lists(st.text("ab.|(é", min_size=1, max_size=6), min_size=1, max_size=12)


@given(NAMES, st.text("ab.|(é ", max_size=30))
def test_many_names_are_found_as_one_by_one(names: list[str], text: str) -> None:
    listed = "|".join(map(re.escape, sorted(set(names), key=len, reverse=True)))
    for before, behind in (("", ""), (r"(?<![a-b])", r"(?![a-b])")):
        plain = re.compile(rf"{before}(?:{listed}){behind}").findall(text)
        assert re.compile(rf"{before}(?:{any_of(names)}){behind}").findall(text) == plain


def test_names_that_begin_with_one_another_do_not_nest_without_end() -> None:
    names = ["a" * n for n in range(1, 400)]
    pattern = re.compile(any_of(names))
    assert pattern.fullmatch("a" * 399)
    assert pattern.fullmatch("a" * 400) is None


def test_ten_thousand_users_cost_no_more_than_ten() -> None:
    rng = random.Random(1)
    users = ["".join(rng.choices("abcdefghij", k=9)) for _ in range(10_000)]
    folders = folders_of(users)
    assert folders is not None
    text = "/x/abc" * 20_000
    assert folders.sub("~", text) == text
    assert took(lambda: folders.sub("~", text), most=0.5) <= 0.5  # as a list: seconds
    assert folders.sub("~", f"/opt/{users[77]}/x") == "~/x"
