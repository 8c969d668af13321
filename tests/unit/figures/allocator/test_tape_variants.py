"""What a recording leaves open about the program, and the tapes that it may stand for."""

from __future__ import annotations

import pytest

from dev.simulator import AllocatorSettings, OutOfMemoryError, Simulator
from dev.simulator.settings import MIB
from snapreport.figures.allocator.replaying import AllocatorModel, possible_tapes, scattered
from snapreport.figures.allocator.settings import replay_settings
from snapreport.figures.allocator.tape import AWAIT, CERTAINLY, FREE, PERHAPS
from snapreport.history.allocator_settings import parse_settings
from tests.unit.figures.allocator.test_process_limit import modelled

PLAIN = parse_settings("default")


def frees(tape_ops: list[int]) -> tuple[int, int]:
    return tape_ops.count(AWAIT), tape_ops.count(FREE)


def test_a_plain_recording_stands_for_one_program() -> None:
    simulator = Simulator()
    simulator.start_recording()
    simulator.free(simulator.malloc(30 * MIB))
    simulator.malloc(40 * MIB)
    found = modelled(simulator)
    assert possible_tapes(found.tape, found.settings) == [found.tape]


def test_frees_that_a_retry_waited_for_are_completed_then_or_never() -> None:
    """30 MiB wait for stream 7, 20 for nobody knows how long: freed right before a request of 26,
    which 60 MiB have no room for. Where they have, 28 more find the 30 free, or not yet."""
    simulator = Simulator(capacity=60 * MIB)
    simulator.start_recording()
    first, second = simulator.malloc(30 * MIB), simulator.malloc(20 * MIB)
    simulator.allocators[0].record_stream(first, 7)
    simulator.free(first)
    simulator.free(second)
    simulator.set_stack([{"name": "forward", "filename": "train.py", "line": 8}])
    simulator.malloc(26 * MIB)
    simulator.malloc(28 * MIB)
    found = modelled(simulator)
    assert found.factual.exact
    assert sorted(found.tape.waited[found.tape.waited > 0]) == [CERTAINLY, PERHAPS]
    tapes = possible_tapes(found.tape, found.settings)
    assert [frees(each.op.tolist()) for each in tapes] == [(2, 2), (1, 2), (2, 0)]
    (outcome,) = replay_settings(found, [PLAIN]).outcomes
    assert (outcome.peak.least, outcome.peak.most) == (76 * MIB, 104 * MIB)
    assert (outcome.capacity.least, outcome.capacity.most) == (54 * MIB, 54 * MIB)


def test_of_a_failed_request_only_the_rounded_size_is_known() -> None:
    """Eight steps between 32 and 64 MiB: 33 to 36 are all recorded as 36."""
    simulator = Simulator(AllocatorSettings(roundup_power2_divisions=(8,) * 16), capacity=30 * MIB)
    simulator.start_recording()
    simulator.malloc(10 * MIB)
    with pytest.raises(OutOfMemoryError):
        simulator.malloc(33 * MIB)
    found = modelled(simulator)
    sizes = [int(each.failed_size.max()) for each in possible_tapes(found.tape, found.settings)]
    assert sizes == [36 * MIB, 32 * MIB + 512]
    (outcome,) = replay_settings(found, [PLAIN]).outcomes
    assert (outcome.capacity.least, outcome.capacity.most) == (44 * MIB, 46 * MIB)


def test_blocks_that_were_there_may_each_keep_a_segment() -> None:
    """Three of 4 MiB in one segment; 18 MiB more need a segment of their own in any case."""
    simulator = Simulator()
    held = [simulator.malloc(4 * MIB) for _ in range(3)]
    simulator.start_recording()
    simulator.free(held[0])
    simulator.malloc(18 * MIB)
    found = modelled(simulator)
    assert AllocatorModel(found.tape).replay(PLAIN).peak == 38 * MIB
    model = AllocatorModel(scattered(found.tape))
    assert model.replay(PLAIN).peak == 60 * MIB  # where the first one was, 18 MiB fit
    wanted = parse_settings("max_split_size_mb:256")
    for capacity, serves in ((30 * MIB, None), (38 * MIB, None), (60 * MIB, True)):
        (outcome,) = replay_settings(found, [wanted], capacity).outcomes
        assert outcome.serves is serves
