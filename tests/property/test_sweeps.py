"""The native library sweeps over recordings as the plain code of the tests does."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any, TypeVar
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray

from snapreport.figures.curves import find_curves
from snapreport.figures.segments import find_allocator_use
from snapreport.ground.native.columns import Outline, sum_live, weigh
from snapreport.history.block_sizes import find_holes
from snapreport.history.segments import locate, segment_lives
from snapreport.model.history import DeviceHistory, Events
from snapreport.model.replays import SegmentLives
from snapreport.model.snapshot import Segments
from tests.property.simulated import Simulated, device_pairs, for_simulations
from tests.reference import segments as segments_reference
from tests.reference import sweeps as reference
from tests.reference.holes import among_others, replay_holes
from tests.thorough import some
from tests.unit.history.test_holes import as_columns, scene, spans_of

Found = TypeVar("Found")

# Where the plain code takes the place of the library's.
PLAIN = {
    "snapreport.figures.curves.sum_live": reference.sum_live,
    "snapreport.history.segments.sweep_blocks": reference.locate,
    "snapreport.figures.segments.sweep_fragmentation": reference.fragmentation,
    "snapreport.history.segments.undo_segments": segments_reference.undo_segments,
}


def both(work: Callable[[], Found]) -> tuple[Found, Found]:
    """Return what comes of the library, and of the plain code."""
    compiled = work()
    with ExitStack() as patched:
        for name, plain in PLAIN.items():
            patched.enter_context(mock.patch(name, plain))
        return compiled, work()


def assert_same_lives(compiled: SegmentLives, plain: SegmentLives) -> None:
    for name, column in vars(plain).items():
        assert getattr(compiled, name).dtype == column.dtype
        assert getattr(compiled, name).tolist() == column.tolist(), name


def assert_same(compiled: NDArray[Any], plain: NDArray[Any]) -> None:
    assert compiled.dtype == plain.dtype
    assert compiled.tolist() == plain.tolist()


@for_simulations(100)
def test_segments_fragmentation_and_curves_of_simulations(simulation: Simulated) -> None:
    for history, _ in device_pairs(simulation):
        assert_all_same(history)


def assert_all_same(history: DeviceHistory) -> None:
    (lives, misfits), (plain, also) = both(
        lambda: segment_lives(history.other, history.segments, history.events)
    )
    assert_same_lives(lives, plain)
    assert misfits == also
    curves, plain_curves = both(lambda: find_curves(history))
    for name, curve in plain_curves.items():
        assert_same(curves[name], curve)
    use, plain_use = both(lambda: find_allocator_use(history, curves))
    assert_same_lives(use.segments, plain_use.segments)
    assert_same(use.fragmentation, plain_use.fragmentation)
    rows = history.allocations
    fixed = lives.where(~lives.expandable)
    born, died = rows.alloc_event, rows.free_event
    compiled = find_holes(among_others(rows.addr), born, died, fixed)
    replayed = replay_holes(rows.addr, born, died, fixed)
    assert_same(compiled[0], replayed[0])
    assert_same(compiled[1], replayed[1])


def odd_recording(seed: int, many: bool = False) -> tuple[Events, Segments, int]:
    """Return events of segments that fit nothing, as a damaged or hostile file may have them."""
    chance = random.Random(seed)
    events = chance.choice([0, 1, 5, 60])
    actions = ["segment_alloc", "segment_free", "segment_map", "segment_unmap", "oom"]
    kinds = chance.sample(actions, chance.randint(1, len(actions)))
    top = chance.choice([4, 12, 40])
    if many:
        events, top, kinds = 8000, 1 << 20, [*actions[:2], *["segment_free"] * 3]

    def column(n: int, low: int, high: int) -> NDArray[np.int64]:
        return np.array([chance.randrange(low, high) for _ in range(n)], np.int64)

    n = chance.choice([0, 1, 4, 12])
    small = np.full(events, -1, np.int32)
    other = Events(
        event=np.arange(events, dtype=np.int64),
        action=[chance.choice(kinds) for _ in range(events)],
        addr=column(events, 0, top),
        size=column(events, 0, 99 if many else top // 2),
        time_us=np.zeros(events, np.int64),
        stream=column(events, 0, 2),
        pool=small,
        stack=small,
    )
    none = np.zeros(0, np.int64)
    segments = Segments(
        address=np.sort(column(n, 0, top)),
        size=column(n, 0, top // 2),
        stream=column(n, 0, 2),
        pool=np.zeros(n, np.int32),
        large=np.ones(n, np.bool_),
        expandable=column(n, 0, 2).astype(np.bool_),
        stack=np.full(n, -1, np.int32),
        stated=np.full((n, 3), -1, np.int64),
        block_segment=none.astype(np.int32),
        block_address=none,
        block_size=none,
        block_requested=none,
        block_state=none.astype(np.int8),
        block_stack=none.astype(np.int32),
    )
    return other, segments, events


def test_segment_events_that_fit_nothing() -> None:
    found = 0
    for seed in some(range(600), 150):
        recording = odd_recording(seed)
        (lives, misfits), (plain, also) = both(partial(segment_lives, *recording))
        assert_same_lives(lives, plain)
        assert misfits == also
        found += misfits
    assert found


@pytest.mark.parametrize("order", ["as they come", "up", "down", "there and back"])
def test_segment_events_by_the_thousand_in_any_order(order: str) -> None:
    other, segments, events = odd_recording(7, many=True)
    if order in ("up", "down"):
        other.addr[:] = np.sort(other.addr)[:: 1 if order == "up" else -1]
    elif order == "there and back":
        other.addr[:] = np.concatenate([other.addr[: events // 2], other.addr[: events // 2][::-1]])
    (lives, misfits), (plain, also) = both(lambda: segment_lives(other, segments, events))
    assert_same_lives(lives, plain)
    assert misfits == also
    assert len(lives.address) > 3000
    at = np.sort(np.random.default_rng(3).integers(-1, events + 2, 500))
    assert_same(*both(partial(locate, lives, at, other.addr[at % events])))


@pytest.mark.parametrize("addr", [-3, 2**63 - 2])
def test_segments_beyond_all_memory_are_refused(addr: int) -> None:
    other, segments, events = odd_recording(9)
    other.addr[::2], other.size[:] = addr, 2
    with pytest.raises(ValueError, match="out of range"):
        segment_lives(other, segments, events)


def test_where_addresses_lie_at_some_events() -> None:
    chance = np.random.default_rng(3)
    for seed in some(range(300), 75):
        other, segments, events = odd_recording(seed)
        lives = segment_lives(other, segments, events)[0]
        at = np.sort(chance.integers(-1, events + 2, 40))
        addresses = chance.integers(-2, 50, 40)
        assert_same(*both(partial(locate, lives, at, addresses)))


def test_weights_over_spans() -> None:
    chance = np.random.default_rng(4)
    for events in (0, 1, 2, 50):
        for n in (0, 1, 40):
            begin, end = np.sort(chance.integers(-1, events + 1, (2, n)), axis=0)
            weight = chance.integers(-(2**62), 2**62, n)  # sums wrap around alike
            spans = weight, begin, end, events
            assert_same(sum_live(*spans), reference.sum_live(*spans))


@pytest.mark.parametrize("seed", some(range(400), 40))
def test_the_peak_without_weights_is_the_first_of_the_most(seed: int) -> None:
    chance = np.random.default_rng(seed)
    events = int(chance.choice([0, 1, 2, 50, 254, 255, 256, 257, 511, 512, 1500]))
    n = int(chance.choice([0, 1, 5, 40, 400]))
    begin, end = chance.integers(-1, events + 1, (2, n))
    if chance.integers(4):  # else some end before they begin
        begin, end = np.minimum(begin, end), np.maximum(begin, end)
    if chance.integers(2):
        end = np.minimum(end, begin + 30)
    weight = chance.integers(chance.choice([-5, 0]), 1 << chance.integers(1, 40), n)
    curves = [
        chance.integers(0, 1 << chance.integers(1, 40), events + 1),
        2 * sum_live(weight, begin, end, events),
        np.cumsum(chance.integers(-100, 101, events + 1)),
    ]
    if not chance.integers(8):  # sums wrap around alike
        weight = chance.integers(-(2**63), 2**63 - 1, n)
    if not chance.integers(8):
        curves.append(chance.integers(-(2**63), 2**63 - 1, events + 1))
    for curve in curves:
        outline = Outline(curve)
        left = curve - reference.sum_live(weight, begin, end, events)
        most = int(left.argmax())
        assert outline.peak_without((weight, begin, end)) == (left[most], most - 1)
        parts = [(weight[k::3], begin[k::3], end[k::3]) for k in range(3)]
        assert outline.peak_without(*parts) == (left[most], most - 1)
        assert outline.peak_without() == (curve.max(), curve.argmax() - 1)


@pytest.mark.parametrize("n", [1, 255, 256, 257, 511, 512, 513, 1024])
def test_the_top_is_the_first_of_the_highest_whatever_was_in_memory_before(n: int) -> None:
    for curve in (np.arange(n)[::-1], np.arange(n), np.arange(n) % 7, np.zeros(n, np.int64)):
        for junk in (10**9 + 7, -1, n - 1):
            left = [np.full(n // 256 + k, junk, np.int64) for k in range(3) for _ in range(20)]
            del left
            assert Outline(curve).top == int(curve.argmax()) - 1


def test_values_over_time() -> None:
    chance = np.random.default_rng(5)
    for n in (2, 3, 60):
        curve, times = chance.integers(-(2**45), 2**45, n), chance.integers(0, 2**30, n - 1)
        compiled, plain = weigh(curve, times), reference.weigh(curve, times)
        latest = [max(times[: i + 1].tolist()) for i in range(n - 1)]
        weighted = sum(int(curve[i]) * (latest[i] - latest[i - 1]) for i in range(1, n - 1))
        assert compiled == plain == (int(curve.min()), int(curve.max()), weighted)


@pytest.mark.parametrize(("begin", "end"), [(1, 9), (-2, 1), (5, 5)])
def test_events_out_of_range_are_refused(begin: int, end: int) -> None:
    one = np.ones(1, np.int64)
    for way in (sum_live, reference.sum_live):
        with pytest.raises(ValueError, match="out of range"):
            way(one, begin * one, end * one, 3)
    with pytest.raises(ValueError, match="out of range"):
        Outline(np.zeros(4, np.int64)).peak_without((one, begin * one, end * one))


def test_columns_of_another_length_or_type_are_refused() -> None:
    three, two = np.ones(3, np.int64), np.ones(2, np.int64)
    with pytest.raises(ValueError, match="shape"):
        sum_live(three, two, three, 5)
    with pytest.raises(TypeError, match="safe"):
        sum_live(np.ones(3), three, three, 5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="out of range"):
        weigh(two[:1], two[:0])
    columns: list[Any] = [three.astype(np.int32), np.ones(6, np.int64)[::2]]
    for column in columns:
        assert sum_live(column, 0 * three, 2 * three, 3).tolist() == [0, 3, 3, 0]


@pytest.mark.parametrize("seed", some(range(120), 30))
def test_holes_are_those_of_the_replay(seed: int) -> None:
    blocks, segments = scene(seed)
    addr, born, died = as_columns(blocks)
    spans = spans_of(segments)
    compiled = find_holes(among_others(addr), born, died, spans)
    replayed = replay_holes(addr, born, died, spans)
    assert_same(compiled[0], replayed[0])
    assert_same(compiled[1], replayed[1])


@pytest.mark.parametrize("seed", some(range(120), 30))
def test_holes_of_blocks_that_overlap_are_those_of_the_replay(seed: int) -> None:
    chance = np.random.default_rng(seed)
    n = int(chance.integers(1, 40))
    addr = chance.integers(0, 30, n)
    born, died = np.sort(chance.integers(-1, 60, (2, n)), axis=0)
    first, last = np.sort(chance.integers(-1, 60, (2, 5)), axis=0)
    spans = spans_of(
        list(zip(chance.integers(0, 30, 5), chance.integers(1, 20, 5), first, last, strict=True))
    )
    found, replayed = (
        find_holes(among_others(addr), born, died, spans),
        replay_holes(addr, born, died, spans),
    )
    assert_same(found[0], replayed[0])
    assert_same(found[1], replayed[1])


def test_holes_among_many_places() -> None:
    chance = np.random.default_rng(6)
    n, top = 9000, 1 << 20
    addr = chance.permutation(top)[:n].astype(np.int64)
    born, died = np.sort(chance.permutation(4 * n)[: 2 * n].reshape(2, n), axis=0).astype(np.int64)
    born[: n // 8] = -1
    spans = spans_of([(i * top // 8, top // 8, -1 if i % 2 else 900, 3 * n) for i in range(8)])
    compiled = find_holes(among_others(addr), born, died, spans)
    replayed = replay_holes(addr, born, died, spans)
    assert_same(compiled[0], replayed[0])
    assert_same(compiled[1], replayed[1])
    assert (compiled[0] > 0).any()
    assert (compiled[1] > 0).any()
