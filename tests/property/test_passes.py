"""The phases of events, and the spans of stages, as a plain loop over all events finds them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from snapreport.roles.passes import NONE, _filled, _joined

_PHASES = st.lists(st.integers(0, 3), min_size=1, max_size=30)
_SPANS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 8)), min_size=1, max_size=12)


@given(_PHASES)
def test_an_event_without_a_phase_has_that_of_both_neighbours(phases: list[int]) -> None:
    plain = []
    for event, phase in enumerate(phases):
        before = next((each for each in phases[event::-1] if each), None)
        after = next((each for each in phases[event:] if each), None)
        alike = before == after or None in (before, after)
        plain.append(phase or ((before or after or NONE) if alike else NONE))
    column = np.array(phases, np.int8)
    events = np.arange(len(phases), dtype=np.int64)
    assert _filled(column, np.flatnonzero(column), events).tolist() == plain


@given(_SPANS)
def test_joined_spans_cover_the_same_events_once(spans: list[tuple[int, int]]) -> None:
    begin, length = np.array(spans, np.int64).T
    found = [event for low, high in _joined(begin, begin + length) for event in range(low, high)]
    assert sorted(found) == sorted({at for low, n in spans for at in range(low, low + n)})
