"""A device that holds far more than the others is named; an even split is not."""

from __future__ import annotations

import pytest

from snapreport.diagnosis.conclude import find
from snapreport.model.history import History
from tests.builders import MIB, TraceBuilder, history_of

GIB = 1024 * MIB


def file_of(*sizes: int, fails: bool = False) -> History:
    """Return a file with a device for each size, which is its peak."""
    traces = []
    for ordinal, size in enumerate(sizes):
        made = TraceBuilder(ordinal)
        if size:
            made.alloc("a", size).alloc("b", MIB).free("b")
        if fails and size == max(sizes):
            made.event("oom", size=GIB, device_free=MIB)
        traces.append(made)
    snapshot = TraceBuilder().snapshot()
    snapshot["device_traces"] = [made.events for made in traces]
    return history_of(snapshot)


def test_the_fullest_device_is_named_with_the_mean() -> None:
    (found,) = find(file_of(8 * GIB, 78 * GIB, 20 * GIB, 0)).warnings
    assert found.code == "uneven-split"
    assert found.title.startswith("cuda:1 peaked at 78.00 GiB, 2.2 times the mean of the 3")
    assert found.severity == "note"
    assert "35.33 GiB" in found.suggestions[0].text


def test_where_it_ran_out_of_memory_it_is_a_warning() -> None:
    (found,) = find(file_of(8 * GIB, 78 * GIB, fails=True)).warnings
    assert found.severity == "warning"


@pytest.mark.parametrize("sizes", [(8 * GIB, 9 * GIB), (MIB, 20 * MIB), (8 * GIB,), (8 * GIB, 0)])
def test_nothing_is_said_of_other_splits(sizes: tuple[int, ...]) -> None:
    assert find(file_of(*sizes)).warnings == ()
