"""The compiled pairing is that of a plain walk, on sound and on ill-formed traces alike."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from snapreport.history.pairing import ABSENT, Pairs, pair_events
from snapreport.model.snapshot import DeviceId, Trace
from tests.thorough import tried

ALLOC, REQUESTED, COMPLETED = "alloc", "free_requested", "free_completed"
Move = tuple[str, int]
"""An action and an address."""
Row = tuple[int, int, int, int]
"""Address, and the events of alloc, request and completion."""


def trace_of(moves: list[Move], sizes: tuple[int, ...] = (512,)) -> Trace:
    """Return a trace of these events, each of the next size."""
    actions = tuple(sorted({action for action, _ in moves}))
    n = len(moves)
    none = np.full(n, -1, np.int32)
    return Trace(
        device=DeviceId("cuda", 0),
        actions=actions,
        action=np.array([actions.index(action) for action, _ in moves], np.int16),
        addr=np.array([addr for _, addr in moves], np.int64),
        size=np.resize(np.array(sizes, np.int64), n),
        stream=np.zeros(n, np.int64),
        time_us=np.arange(n, dtype=np.int64),
        stack=none,
        pool=none,
        category=none,
        compile_context=none,
        metadata=none,
        internal=none,
    )


@dataclass
class Walk:
    """The reference: one event after the other, with a dict of what is live."""

    moves: list[Move]
    rows: list[list[int]] = field(default_factory=list)
    leftover: list[int] = field(default_factory=list)
    odd: Counter[str] = field(default_factory=Counter)

    def run(self) -> Walk:
        kinds = {action for action, _ in self.moves}
        live: dict[int, list[int]] = {}
        seen: set[int] = set()
        for event, (action, addr) in enumerate(self.moves):
            known = live.get(addr)
            if action == ALLOC:
                if known:
                    self.odd["alloc on a live address"] += 1
                    known[2] = event if known[2] == ABSENT else known[2]
                    known[3] = event
                live[addr] = [addr, event, ABSENT, ABSENT]
                self.rows.append(live[addr])
            elif action in (REQUESTED, COMPLETED):
                self._free(event, action, addr, live, seen, kinds)
            else:
                continue
            seen.add(addr)
        if REQUESTED not in kinds and any(r[1] >= 0 and r[3] >= 0 for r in self.rows):
            for row in self.rows:
                row[2] = row[3]
        if REQUESTED in kinds and COMPLETED not in kinds:
            for row in self.rows:
                row[3] = row[2]
        return self

    def _free(
        self,
        event: int,
        action: str,
        addr: int,
        live: dict[int, list[int]],
        seen: set[int],
        kinds: set[str],
    ) -> None:
        if addr not in live:
            if addr in seen:
                self.odd["free of an address that is not live"] += 1
                self.leftover.append(event)
                return
            row = [addr, ABSENT, ABSENT, ABSENT]  # from before the recording
            self.rows.append(row)
            live[addr] = row
        elif action == REQUESTED and live[addr][2] != ABSENT:
            self.odd["free requested twice"] += 1
            self.leftover.append(event)
            return
        elif action == COMPLETED and live[addr][2] == ABSENT and REQUESTED in kinds:
            self.odd["free completed without a request"] += 1
            live[addr][2] = event
        live[addr][2 if action == REQUESTED else 3] = event
        if action == COMPLETED or COMPLETED not in kinds:
            del live[addr]


def assert_paired_as_walked(moves: list[Move]) -> None:
    pairs = pair_events(trace_of(moves))
    walk = Walk(moves).run()
    rows = np.stack([pairs.addr, pairs.alloc, pairs.requested, pairs.completed], axis=1)
    assert sorted(rows.tolist()) == sorted(walk.rows)
    assert sorted(pairs.leftover.tolist()) == sorted(walk.leftover)
    assert pairs.anomalies == dict(walk.odd)


@st.composite
def any_moves(draw: st.DrawFn) -> list[Move]:
    """Draw events in any order, of some of the kinds, at few addresses."""
    kinds = draw(
        st.sampled_from(
            [
                [ALLOC, REQUESTED, COMPLETED, "oom"],
                [ALLOC, REQUESTED, COMPLETED],
                [ALLOC, COMPLETED],
                [ALLOC, REQUESTED],
                [ALLOC],
                [REQUESTED, COMPLETED],
            ]
        )
    )
    moves = st.tuples(st.sampled_from(kinds), st.integers(1, 4))
    return draw(st.lists(moves, max_size=25))


def count_resized(pairs: Pairs, trace: Trace) -> int:
    """Count the allocations that a free gives another size than their alloc."""
    resized = 0
    for alloc, *frees in zip(pairs.alloc, pairs.requested, pairs.completed, strict=True):
        known = [free for free in frees if alloc != ABSENT and free != ABSENT]
        actual = [free for free in known if trace.actions[trace.action[free]] != ALLOC]
        resized += any(trace.size[free] != trace.size[alloc] for free in actual)
    return resized


@st.composite
def sound_moves(draw: st.DrawFn) -> list[Move]:
    """Draw events as an allocator makes them, cut off at the front as a ring does."""
    follows = {ALLOC: REQUESTED, REQUESTED: COMPLETED, COMPLETED: ALLOC}
    last: dict[int, str] = {}
    moves: list[Move] = []
    for addr in draw(st.lists(st.integers(1, 6), max_size=60)):
        last[addr] = follows[last.get(addr, COMPLETED)]
        moves.append((last[addr], addr))
    return moves[draw(st.integers(0, 20)) :]


@tried(1000)
@given(any_moves())
def test_ill_formed_events_pair_as_a_walk_pairs_them(moves: list[Move]) -> None:
    assert_paired_as_walked(moves)


@tried(500)
@given(sound_moves())
def test_sound_events_pair_as_a_walk_pairs_them_and_nothing_is_odd(moves: list[Move]) -> None:
    assert_paired_as_walked(moves)
    assert pair_events(trace_of(moves)).anomalies == {}


@tried(500)
@given(any_moves(), st.lists(st.integers(1, 2), min_size=1, max_size=7))
def test_what_is_odd_is_counted_as_if_address_by_address(
    moves: list[Move], sizes: list[int]
) -> None:
    trace = trace_of(moves, tuple(sizes))
    pairs = pair_events(trace)
    by_address = sorted(range(len(moves)), key=lambda event: moves[event][1])
    expected = dict(Walk([moves[event] for event in by_address]).run().odd)
    if resized := count_resized(pairs, trace):
        expected["free of another size than its alloc"] = resized
    assert list(pairs.anomalies.items()) == list(expected.items())
    before = pairs.alloc == ABSENT
    assert (before[:-1] >= before[1:]).all()
    assert (np.diff(pairs.alloc[~before]) > 0).all()


@tried(300)
@given(any_moves())
def test_every_event_is_in_one_pair_or_left_over(moves: list[Move]) -> None:
    pairs = pair_events(trace_of(moves))
    used = Counter(pairs.leftover.tolist())
    for column in (pairs.alloc, pairs.requested, pairs.completed):
        used.update(set(column[column != ABSENT].tolist()))
    paired = {event for event, (action, _) in enumerate(moves) if action != "oom"}
    assert set(used) == paired


@tried(300)
@given(any_moves())
def test_no_address_is_live_twice_at_a_time(moves: list[Move]) -> None:
    pairs = pair_events(trace_of(moves))
    for addr in set(pairs.addr.tolist()):
        of_addr = np.flatnonzero(pairs.addr == addr)
        begins = np.where(pairs.alloc[of_addr] == ABSENT, -1, pairs.alloc[of_addr])
        never = len(moves)
        ends = np.where(pairs.completed[of_addr] == ABSENT, never, pairs.completed[of_addr])
        order = np.argsort(begins)
        assert (ends[order][:-1] <= begins[order][1:]).all()
        assert (begins <= ends).all()
