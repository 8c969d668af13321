"""Published cases of the allocator's settings: direction and rough size come out right."""

from __future__ import annotations

import pytest

from tests.published import CASES, Case, remake


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.report)
def test_a_published_case_is_told_from_a_recording_under_the_first_setting(case: Case) -> None:
    found = remake(case, seed=1)
    assert found.told.least <= found.after <= found.told.most
    before, after = case.published
    published, made = after / before, found.after / found.before
    assert (made < 1) == (published < 1)
    # Half to twice the saving or the growth.
    if published < 1:
        assert 0.5 * (1 - published) <= 1 - made <= 2 * (1 - published)
    else:
        assert 0.5 * published <= made <= 2 * published
