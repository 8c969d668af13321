"""The peak without a group is what adding up all others gives, whichever way it is found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapreport.figures import what_if as module
from snapreport.figures.what_if import peaks_without
from snapreport.ground.native.columns import Outline, sum_live
from tests.thorough import tried

EVENTS = 40
member = st.tuples(
    st.integers(0, 5), st.integers(-1, EVENTS), st.integers(-1, EVENTS), st.integers(0, 40)
)
# So many groups are each added up alone: none, the largest, or all.
WAYS = [(1, 0), (4, 1), (1 << 60, 99)]


@pytest.mark.parametrize(("large", "few"), WAYS)
@tried(100)
@given(members=st.lists(member, min_size=1, max_size=40), base=st.integers(0, 60))
def test_it_is_the_most_of_what_is_left(
    large: int, few: int, members: list[tuple[int, int, int, int]], base: int
) -> None:
    group, begin, end, weight = np.array(members, np.int64).T
    end = np.maximum(begin, end)
    # In the curve there is more than the groups: what is in none of them.
    curve = sum_live(weight, begin, end, EVENTS)
    curve[:5] += base
    top = int(curve.argmax()) - 1
    held = np.zeros(7, np.int64)
    live = (begin <= top) & (top < end)
    np.add.at(held, group[live], weight[live])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "_LARGE", large)
        patched.setattr(module, "_FEW", few)
        peaks, events = peaks_without(Outline(curve), group, begin, end, weight, held)
    for number in range(len(held)):
        own = group == number
        rest = curve - sum_live(weight[own], begin[own], end[own], EVENTS)
        assert (peaks[number], events[number]) == (rest.max(), rest.argmax() - 1)
