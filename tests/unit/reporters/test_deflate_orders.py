"""Orders that deflate well: each can be undone, and puts alike things together."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from snapreport.reporters.payload import by_last_use


@given(st.lists(st.integers(0, 9)))
def test_ids_come_back_from_their_last_use(ids: list[int]) -> None:
    back, first = by_last_use(np.array(ids, dtype=np.int64))
    new = iter(first.tolist())
    again: list[int] = []
    for distance in back.tolist():
        again.append(again[-distance] if distance else next(new))
    assert again == ids
    assert first.tolist() == list(dict.fromkeys(ids))
