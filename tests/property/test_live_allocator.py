"""The allocator asked one request at a time: as in the replay of all of them, and the reference."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from snapreport.figures.allocator.live import UPWARDS
from snapreport.figures.allocator.replaying import Addresses, from_scratch
from snapreport.figures.allocator.tape import ALLOCATE, AWAIT, EMPTY_CACHE, FREE, ReplayTape
from snapreport.ground.native.allocator_replay import ASCENDING, FIRST_FIT
from snapreport.history.allocator_settings import UNLIMITED, parse_settings
from tests.corpus import every_corpus_file, loaded
from tests.property.simulated import Simulated, simulations
from tests.reference.allocator import Replay
from tests.reference.live import MIB, in_the_default_pool, same_as_at_once, tape_of
from tests.reference.replays import conf_of, modelled_devices
from tests.thorough import tried

_SETTINGS = st.sampled_from(
    [
        "default",
        "expandable_segments:True",
        "max_split_size_mb:20",
        "expandable_segments:True,max_split_size_mb:20",
        "roundup_power2_divisions:4",
        "large_segment_size_mb:64,expandable_segments:True",
        "large_segment_size_mb:12,max_split_size_mb:16,max_non_split_rounding_mb:40",
        "per_process_memory_fraction:0.7",
        "per_process_memory_fraction:0.7,expandable_segments:True",
        "garbage_collection_threshold:0.4,per_process_memory_fraction:0.9",
    ]
)
_CAPACITIES = st.sampled_from([UNLIMITED, 64 * MIB, 200 * MIB, 600 * MIB])
_SIZES = st.one_of(
    st.integers(1, 5000), st.integers(1, 3 * MIB), st.integers(1, 120 * MIB), st.just(MIB)
)
_WHICH = st.integers(0, 1 << 16)
_OPERATIONS = st.one_of(
    *[st.tuples(st.just(ALLOCATE), _SIZES, st.sampled_from([0, 0, 0, 1, 2]))] * 3,
    *[st.tuples(st.just(FREE), _WHICH, st.just(0))] * 2,
    st.tuples(st.just(AWAIT), _WHICH, st.just(0)),
    st.tuples(st.just(EMPTY_CACHE), st.just(0), st.just(0)),
)
# Of its own accord Hypothesis draws a handful.
_PROGRAMS = st.one_of(
    st.lists(_OPERATIONS, max_size=8), st.lists(_OPERATIONS, min_size=60, max_size=200)
)
_TAPES = _PROGRAMS.map(tape_of)
_WAYS = st.sampled_from([UPWARDS, Addresses(FIRST_FIT, above=UPWARDS.above), Addresses(ASCENDING)])


@tried(400)
@given(tape=_TAPES, text=_SETTINGS, capacity=_CAPACITIES, way=_WAYS)
def test_one_by_one_is_as_all_at_once_and_as_the_reference(
    tape: ReplayTape, text: str, capacity: int, way: Addresses
) -> None:
    settings = parse_settings(text)
    found = same_as_at_once(tape, settings, capacity, way)
    share = settings.memory_fraction if capacity < UNLIMITED else 0.0
    conf = conf_of(
        settings,
        capacity=capacity,
        limit=int(share * capacity) if share else UNLIMITED,
        room=capacity * 9 // 8 if capacity < UNLIMITED else 1 << 42,
        policy=way.policy,
        above=way.above,
    )
    plain = Replay(tape, conf).run()
    assert (plain.address, plain.size) == (found.placed, found.sizes)
    assert [list(event) for event in plain.events] == found.events
    live = found.allocator
    outcome = (live.reserved, live.peak_reserved, live.retries, found.failed_op)
    assert (plain.reserved, plain.peak, plain.retries, plain.failed_op) == outcome


@tried(60)
@given(simulation=simulations(), text=_SETTINGS, capacity=_CAPACITIES)
def test_what_is_simulated_is_served_alike(simulation: Simulated, text: str, capacity: int) -> None:
    for each in modelled_devices(simulation.history):
        tape = in_the_default_pool(from_scratch(each.tape))
        same_as_at_once(tape, parse_settings(text), capacity)


@every_corpus_file
def test_what_real_programs_asked_for_is_served_alike(path: Path) -> None:
    for each in modelled_devices(loaded(path).history):
        tape = in_the_default_pool(from_scratch(each.tape))
        found = same_as_at_once(tape, each.settings)
        same_as_at_once(tape, each.settings, found.allocator.peak_reserved // 4 * 3)
