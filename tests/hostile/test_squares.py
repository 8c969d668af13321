"""What once took the square of a file's size."""

from __future__ import annotations

import numpy as np
import pytest

from snapreport.analyse import sweeps
from snapreport.analyse.paths import short_names
from snapreport.analyse.segment_replay import segment_lives
from snapreport.model.history import Events
from tests.hostile.test_patterns import took
from tests.property.test_sweeps import odd_recording


def test_files_that_shorten_to_one_name_are_numbered_in_one_go() -> None:
    names = [f"/home/user{i}/x.py" for i in range(20_000)]
    assert took(lambda: short_names(names), most=1) <= 1
    found = short_names(names).names
    assert len(set(found.values())) == len(names)
    assert [found[name] for name in sorted(names)[:3]] == ["~/x.py", "~(2)/x.py", "~(3)/x.py"]


@pytest.mark.parametrize("order", ["up", "down", "random"])
def test_segments_in_any_order_of_addresses_are_replayed_in_a_moment(order: str) -> None:
    if sweeps._library() is None:
        pytest.skip("sweeps.c was not compiled")
    n = 200_000
    place = np.arange(n, dtype=np.int64)
    if order == "random":
        place = np.random.default_rng(1).permutation(place)
    none = np.full(n, -1, np.int32)
    other = Events(
        step=np.arange(n, dtype=np.int64),
        action=["segment_free"] * n,
        addr=512 * (place[::-1].copy() if order == "down" else place),
        size=np.full(n, 512, np.int64),
        time_us=np.zeros(n, np.int64),
        stream=np.zeros(n, np.int64),
        stack=none,
    )
    _, segments, _ = odd_recording(1)
    assert took(lambda: segment_lives(other, segments, n), most=1) <= 1
