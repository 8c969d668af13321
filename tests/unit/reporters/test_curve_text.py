"""The curve as a line of block characters."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from snapreport.diagnosis.conclude import find
from snapreport.reporters.summary import curve_lines
from tests.builders import MIB, trace


def test_each_column_is_the_most_of_its_events_and_the_ends_are_named() -> None:
    device = find(trace().alloc("a", MIB).alloc("b", 7 * MIB).alloc("c", 1).file()).devices[0]
    title, drawn, ends = curve_lines(device)
    assert title == "Allocated memory over the recording; the highest block is 8.00 MiB"
    assert drawn == "▁▁██"  # nothing at the start, 1 of 8 MiB, 8, and half a kilobyte more
    assert ends == "start event 2"


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(1, 64), min_size=1, max_size=100))
def test_the_peak_is_a_full_block_however_long_the_recording(sizes: list[int]) -> None:
    builder = trace()
    for k, size in enumerate(sizes):
        builder.alloc(str(k), size * MIB).free(str(k))
    device = find(builder.file()).devices[0]
    _, drawn, ends = curve_lines(device)
    curve = device.curves["allocated"]
    assert len(drawn) == min(len(curve), 72)
    column = ((device.peak.event + 2) * len(drawn) - 1) // len(curve)
    assert drawn[column] == "█"
    assert len(ends) >= len(drawn)


def test_where_nothing_is_allocated_the_line_is_flat() -> None:
    device = find(trace().start("a", 1).file()).devices[0]
    assert set(curve_lines(device)[1]) == {"▁"}
