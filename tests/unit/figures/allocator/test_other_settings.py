"""Other settings and other cards: hand-checked programs, and laws for any."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dev.simulator.settings import MIB
from dev.simulator.settings import AllocatorSettings as ProgramSettings
from dev.simulator.simulator import Simulator
from snapreport import read
from snapreport.diagnosis.trust import check_replay
from snapreport.figures.allocator.factual import ModelledDevice, failed_capacity
from snapreport.figures.allocator.replaying import from_scratch
from snapreport.figures.allocator.settings import WAYS, replay_settings, table_of_settings
from snapreport.history.allocator_settings import AllocatorSettings, parse_settings
from snapreport.history.block_sizes import LiveFloor, live_floor
from snapreport.history.build import build_history
from tests.property.simulated import Simulated, simulations
from tests.reference.replays import modelled_devices
from tests.thorough import tried

EXPANDABLE = parse_settings("expandable_segments:True")
PLAIN = AllocatorSettings()


def modelled(simulator: Simulator) -> ModelledDevice:
    file = pickle.dumps(simulator.snapshot(), 4)
    (found,) = modelled_devices(build_history(read.read_bytes(file, "snap.pickle")))
    return found


def recorded() -> Simulator:
    simulator = Simulator(capacity=1 << 34)
    simulator.start_recording()
    return simulator


@pytest.fixture
def holes() -> ModelledDevice:
    """Four segments of 30 MiB; the first and the third are freed, and 60 MiB asked for."""
    simulator = recorded()
    blocks = [simulator.malloc(30 * MIB) for _ in range(4)]
    simulator.free(blocks[0])
    simulator.free(blocks[2])
    simulator.malloc(60 * MIB)
    return modelled(simulator)


def test_plain_segments_are_given_back_where_they_have_to_be(holes: ModelledDevice) -> None:
    """Live are 120 MiB at most, twice; 180 MiB are got where nothing limits them."""
    (found,) = replay_settings(holes, [PLAIN]).outcomes
    assert (found.peak.least, found.peak.most) == (180 * MIB, 180 * MIB)
    assert (found.capacity.least, found.capacity.most) == (120 * MIB, 120 * MIB)
    assert (found.retries.least, found.retries.most) == (1, 1)
    # Four segments, two given back, and one of 60 MiB.
    assert (found.driver_calls.least, found.driver_calls.most) == (7, 7)
    assert found.recorded
    assert found.serves is None


def test_expandable_segments_give_back_whole_granules_alone(holes: ModelledDevice) -> None:
    """Granules of 20 MiB: blocks at 0, 30, 60, 90 of 120 MiB. Free are 0-30 and 60-90, of which the
    granules 0-20 and 60-80 can go; 60 MiB more then take three behind 120."""
    (found,) = replay_settings(holes, [EXPANDABLE]).outcomes
    assert (found.peak.least, found.peak.most) == (180 * MIB, 180 * MIB)
    assert (found.capacity.least, found.capacity.most) == (140 * MIB, 140 * MIB)
    # Six granules, two given back, three more.
    assert (found.driver_calls.least, found.driver_calls.most) == (11, 11)


def test_the_floor_is_what_lives_together(holes: ModelledDevice) -> None:
    assert live_floor(holes.history, divided=False) == LiveFloor(120 * MIB, 7, failed=False)


def test_a_capacity_is_judged(holes: ModelledDevice) -> None:
    found = replay_settings(holes, [PLAIN, EXPANDABLE], 130 * MIB)
    assert [each.serves for each in found.outcomes] == [True, False]
    assert not found.hopeless


def test_below_the_floor_nothing_is_tried(holes: ModelledDevice) -> None:
    found = replay_settings(holes, [PLAIN, EXPANDABLE], 119 * MIB)
    assert found.hopeless
    assert found.outcomes == ()


def test_a_failed_request_counts_and_the_card_is_told_by_it() -> None:
    simulator = Simulator(capacity=100 * MIB, others=10 * MIB)
    simulator.start_recording()
    simulator.malloc(60 * MIB)
    with pytest.raises(Exception, match="tried to allocate"):
        simulator.malloc(40 * MIB)
    found = modelled(simulator)
    assert found.factual.exact
    assert live_floor(found.history, divided=False) == LiveFloor(100 * MIB, 2, failed=True)
    assert failed_capacity(found) == 90 * MIB


def test_a_late_start_has_two_ends() -> None:
    """40 MiB are live in two segments of 30 MiB: kept, or asked for anew in one of 40."""
    simulator = Simulator(capacity=1 << 34)
    first, second = simulator.malloc(20 * MIB), simulator.malloc(20 * MIB)
    simulator.start_recording()
    simulator.free(first)
    simulator.malloc(20 * MIB)
    del second
    found = modelled(simulator)
    both = replay_settings(found, [PLAIN, EXPANDABLE])
    assert both.starts == 2
    assert both.outcomes[0].capacity.one  # under its own setting what was there is known
    scratch = from_scratch(found.tape)
    assert scratch.reserved == 0
    assert len(scratch) == len(found.tape) + 2


def test_an_inexact_replay_tells_nothing_about_other_settings() -> None:
    simulator = recorded()
    for _ in range(3):
        simulator.free(simulator.malloc(30 * MIB))
    simulator.malloc(4 * MIB)
    snapshot = simulator.snapshot()
    *_, last = snapshot["device_traces"][0]
    last["addr"] += 512  # as no allocator would do it
    history = build_history(read.read_bytes(pickle.dumps(snapshot, 4), "snap.pickle"))
    (found,) = modelled_devices(history)
    assert not found.factual.exact
    told = replay_settings(found, [PLAIN])
    assert told.outcomes == ()
    assert "3 of 4 allocations" in told.refused


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("expandable_segments_reserve:0.5", "it limits how far an expandable segment can grow"),
        ("throw_on_cudamalloc_oom:True", "it refuses requests before anything cached is given"),
        ("made_up_in_a_later_version:1", "what it does is not known"),
    ],
)
def test_nothing_is_predicted_from_a_recorded_setting_that_is_not_modelled(
    setting: str, why: str
) -> None:
    simulator = Simulator(ProgramSettings(expandable_segments=True, also=(setting,)))
    simulator.start_recording()
    simulator.malloc(30 * MIB)
    found = modelled(simulator)
    assert found.factual.exact
    assert found.factual.settings == f"expandable_segments:True,{setting}"
    told = replay_settings(found, table_of_settings(found.settings))
    assert told.outcomes == ()
    assert told.refused.startswith(
        f"Other settings are not replayed: {setting} is not modelled ({why}"
    )
    assert check_replay(found.factual).mark == "unknown"


def test_the_recorded_setting_comes_first_and_once() -> None:
    assert table_of_settings(EXPANDABLE)[0] == EXPANDABLE
    assert table_of_settings(EXPANDABLE).count(EXPANDABLE) == 1
    assert table_of_settings(PLAIN)[0] == PLAIN


_SETTINGS = st.sampled_from(
    [
        PLAIN,
        EXPANDABLE,
        parse_settings("max_split_size_mb:20"),
        parse_settings("roundup_power2_divisions:4"),
    ]
)


def exact(simulation: Simulated) -> Iterator[ModelledDevice]:
    for each in modelled_devices(simulation.history):
        if each.factual.exact and len(each.tape.lanes) < 4:
            yield each


@tried(40)
@given(simulation=simulations(), settings=_SETTINGS)
def test_floors_are_below_capacities_and_those_below_peaks(
    simulation: Simulated, settings: AllocatorSettings
) -> None:
    for each in exact(simulation):
        found = replay_settings(each, [settings])
        (outcome,) = found.outcomes
        assert found.floor <= outcome.capacity.least <= outcome.capacity.most
        assert outcome.peak.least <= outcome.peak.most
        unit = 2 * MIB
        most = max(outcome.peak.most, each.tape.reserved, found.floor)
        assert outcome.capacity.most <= most + unit


@tried(30)
@given(simulation=simulations(), settings=_SETTINGS)
def test_the_capacity_that_is_told_serves_every_request(
    simulation: Simulated, settings: AllocatorSettings
) -> None:
    """And so do larger ones that were looked at."""
    for each in exact(simulation):
        found = replay_settings(each, [settings])
        (outcome,) = found.outcomes
        judged = replay_settings(each, [settings], outcome.peak.most + 2 * MIB)
        if not each.tape.reserved or settings == each.settings:
            assert judged.outcomes[0].serves
        if not each.tape.reserved:
            for way in WAYS:
                replay = each.model.replay(settings, outcome.capacity.most, way, stop=True)
                assert replay.failed_op < 0 or outcome.capacity.least < outcome.capacity.most
