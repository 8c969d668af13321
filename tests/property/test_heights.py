"""The highest of each column: of any curve, at any zoom, beside a plain maximum."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from snapreport.commands.explorer.chart import EventScale, Heights, TimeScale, levels
from snapreport.model.snapshot import NO_TIME
from tests.thorough import tried


@tried(200)
@given(data=st.data(), size=st.integers(1, 5000), seed=st.integers(0, 2**32 - 1))
def test_the_most_of_a_span_and_its_first_place(data: st.DataObject, size: int, seed: int) -> None:
    values = np.random.default_rng(seed).integers(0, 50, size)
    heights = Heights(values)
    low = data.draw(st.integers(0, size - 1))
    high = data.draw(st.integers(low + 1, size))
    assert heights.most(np.array([low]), np.array([high])).tolist() == [values[low:high].max()]
    assert heights.first(low, high) == low + int(values[low:high].argmax())


@tried(200)
@given(
    events=st.integers(0, 300),
    width=st.integers(1, 100),
    ends=st.tuples(st.floats(0, 1), st.floats(0.001, 1)),
)
def test_columns_of_events_show_each_event_in_one_place(
    events: int, width: int, ends: tuple[float, float]
) -> None:
    scale = EventScale(events)
    low, high = scale.whole
    x0 = low + ends[0] * (high - low) * 0.9
    edges = np.linspace(x0, min(x0 + ends[1] * (high - low), high), width + 1)
    first, end = scale.spans(edges)
    assert (first < end).all()
    assert (first >= -1).all()
    assert (end <= max(events, 0)).all() or events == 0
    shown = [event for a, b in zip(first, end, strict=True) for event in range(a, b)]
    assert shown == sorted(shown)
    if (edges[1] - edges[0]) > 1:
        assert len(set(shown)) == len(shown), "wide columns share no event"


@tried(200)
@given(
    gaps=st.lists(st.integers(-3, 20), min_size=1, max_size=60),
    missing=st.sets(st.integers(1, 59)),
    width=st.integers(1, 40),
)
def test_columns_of_time_show_every_state_that_touches_them(
    gaps: list[int], missing: set[int], width: int
) -> None:
    times = 1000 + np.cumsum(np.array(gaps, np.int64))
    times[[k for k in missing if k < len(times)]] = NO_TIME
    scale = TimeScale(times)
    edges = np.linspace(*scale.whole, width + 1)
    first, end = scale.spans(edges)
    assert (first < end).all()
    for a, b, low, high in zip(first, end, edges[:-1], edges[1:], strict=True):
        touching = [
            event
            for event in range(-1, scale.events)
            if scale.x_of(event) < high
            and (scale.x_of(event + 1) > low or scale.x_of(event) >= low)
        ]
        assert set(touching) <= set(range(a, b)) | {a}


@tried(100)
@given(values=st.lists(st.integers(0, 10**12), min_size=1, max_size=30), rows=st.integers(1, 60))
def test_only_the_highest_fills_the_chart_and_nothing_is_lost(values: list[int], rows: int) -> None:
    most = max(*values, 1)
    found = levels(np.array(values), 0, most, rows * 8)
    for value, level in zip(values, found.tolist(), strict=True):
        assert (level == rows * 8) == (value == most)
        assert (level == 0) == (value == 0)
    order = np.argsort(values, kind="stable")
    assert (np.diff(found[order]) >= 0).all()
