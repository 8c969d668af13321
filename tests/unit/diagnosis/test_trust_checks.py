"""Mistakes in recording: each is named for its case, and for no sound recording."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dev.simulator.simulator import Simulator
from dev.simulator.training import TrainingRun, Transformer
from snapreport.diagnosis.conclude import find
from snapreport.diagnosis.recording_mistakes import _is_round
from snapreport.model.diagnoses import Finding
from snapreport.model.findings import DeviceFindings
from tests.builders import BASE, MIB, TraceBuilder, frame, history_of, trace

F: dict[str, Any] = {"frames": [frame("f")]}
NATIVE: dict[str, Any] = {"frames": [frame("at::empty", "??", 0)]}


def judged(builder: TraceBuilder) -> DeviceFindings:
    return find(builder.file()).devices[builder.ordinal]


def one(device: DeviceFindings, code: str) -> Finding:
    (found,) = [each for each in device.diagnosis.findings if each.code == code]
    return found


def codes(device: DeviceFindings) -> set[str]:
    return {each.code for each in device.diagnosis.findings if each.topic == "recording"}


def sound(events: int = 10) -> TraceBuilder:
    """A segment, and blocks that come and go in it; so many events, an odd number more or less."""
    made = trace().event("segment_alloc", addr=BASE, size=20 * MIB)
    made.alloc(BASE, 4 * MIB, **F)
    while len(made.events) + 3 <= events:
        made.alloc(BASE + 4 * MIB, 2 * MIB, **F).free(BASE + 4 * MIB, **F)
    return made.segment(BASE, 20 * MIB, (4 * MIB, 4 * MIB, "live"))


def late(events: int) -> TraceBuilder:
    """As many events on a segment from before the recording, with a block of 2 MiB in it."""
    made = trace()
    while len(made.events) + 3 <= events:
        made.alloc(BASE + 4 * MIB, 2 * MIB, **F).free(BASE + 4 * MIB, **F)
    while len(made.events) < events:
        made.event("snapshot", addr=0, size=2 * MIB)
    return made.segment(BASE, 20 * MIB, (2 * MIB, 2 * MIB, "live"))


def trained(
    max_entries: int = 1 << 40, build_first: bool = False, steps: int = 3
) -> DeviceFindings:
    """A small transformer's training, recorded from its start or only after it was built."""
    simulator = Simulator(seed=4)
    run = TrainingRun(simulator, Transformer(layers=2, batch=1, length=128))
    if build_first:
        run.build()
    simulator.start_recording(max_entries=max_entries)
    if not build_first:
        run.build()
    run.train(steps)
    return find(history_of(simulator.snapshot())).devices[0]


def test_a_training_that_was_recorded_whole_has_no_fault_and_can_be_trusted() -> None:
    device = trained()
    assert codes(device) == set()
    assert device.trust.verdict == "trusted"
    assert {check.mark for check in device.trust.checks} == {"ok"}
    assert device.trust.fixes == ()


def test_a_training_recorded_after_the_model_was_built_started_late() -> None:
    device = trained(build_first=True)
    assert codes(device) == {"started-late"}
    assert device.trust.verdict == "window"
    assert device.trust.facts.loss.state == "not known"
    assert device.start.allocated == one(device, "started-late").bytes


def test_a_ring_that_is_too_small_for_a_training_is_proven_by_stacks_without_events() -> None:
    device = trained(max_entries=700)
    finding = one(device, "ring-overflowed")
    assert finding.severity == "warning"
    assert finding.title.startswith("Older events are lost: ")
    assert device.trust.verdict == "earlier"
    # To begin in time would not have helped: that is what the finding of the ring is about.
    assert one(device, "started-late").severity == "note"
    assert one(device, "started-late").suggestions == ()


def test_events_that_went_when_recording_was_stopped_are_missing_but_not_called_lost() -> None:
    simulator = Simulator(seed=4)
    run = TrainingRun(simulator, Transformer(layers=2, batch=1, length=128))
    simulator.start_recording()
    run.build()
    simulator.stop_recording()
    simulator.start_recording()
    run.train(2)
    device = find(history_of(simulator.snapshot())).devices[0]
    assert device.trust.facts.loss.state == "missing"
    finding = one(device, "ring-overflowed")
    assert finding.severity == "note"
    assert finding.title.startswith("Older events are missing: ")
    # Who made the parameters is known all the same: they kept their call stacks.
    assert one(device, "started-late").severity == "note"


def test_the_ring_that_would_do_is_worked_out_from_the_events_of_a_step() -> None:
    whole = trained(steps=6)
    starts = [each.start_event for each in whole.stages if each.name.startswith("ProfilerStep")]
    length = starts[-1] - starts[-2]
    device = trained(max_entries=3 * length, steps=6)
    assert device.trust.facts.loss.events_per_step == length
    change = one(device, "ring-overflowed").suggestions[0].change
    entries = int(change.partition("max_entries=")[2].partition(")")[0])
    assert 10 * length <= entries <= 11 * length
    # A ring that does not hold two beginnings of a step tells nothing of it.
    short = trained(max_entries=length // 2, steps=6)
    assert short.trust.facts.loss.events_per_step is None
    assert "max_entries=" not in one(short, "ring-overflowed").suggestions[0].change


@pytest.mark.parametrize("entries", [5000, 8192])
def test_a_round_number_of_events_after_a_late_start_is_suspected_not_called_lost(
    entries: int,
) -> None:
    device = judged(late(entries))
    finding = one(device, "ring-overflowed")
    assert finding.title.startswith("Older events may be lost: ")
    assert finding.severity == "warning"
    assert device.trust.facts.loss.state == "suspected"


def test_numbers_that_people_type_are_round() -> None:
    assert all(map(_is_round, (500, 7000, 50_000, 65_536, 100_000, 150_000, 1 << 20)))
    assert not any(map(_is_round, (400, 512, 1100, 65_537, 120_000, 149_999)))


@pytest.mark.parametrize("events", [300, 4999, 5001])
def test_another_number_of_events_is_not_suspected(events: int) -> None:
    assert "ring-overflowed" not in codes(judged(late(events)))


def test_a_recording_from_before_the_first_segment_lost_nothing_however_round_it_is() -> None:
    builder = sound(5000)
    while len(builder.events) < 5000:
        builder.event("snapshot", addr=0, size=4 * MIB)
    device = judged(builder)
    assert device.history.events == 5000
    assert device.trust.facts.loss.state == "none"
    assert codes(device) == set()


def test_a_full_ring_is_suspected_unless_the_file_says_that_it_did_not_overflow() -> None:
    full = late(40).settings(trace_alloc_max_entries=40)
    assert judged(full).trust.facts.loss.state == "suspected"
    assert judged(late(40).settings(trace_alloc_max_entries=41)).trust.facts.loss.state == (
        "not known"
    )
    said = late(40).settings(trace_alloc_max_entries=40, trace_alloc_overflowed=False)
    assert judged(said).trust.facts.loss.state == "none"
    assert "ring-overflowed" not in codes(judged(said))


def test_of_two_devices_only_the_one_whose_ring_overflowed_is_told() -> None:
    first, second = late(40), trace(1).segment(BASE, 20 * MIB, (2 * MIB, 2 * MIB, "live"))
    for _ in range(10):
        second.alloc(BASE + 4 * MIB, 2 * MIB, **F).free(BASE + 4 * MIB, **F)
    snapshot = {
        "segments": first.segments + second.segments,
        "device_traces": [first.events, second.events],
    }
    for flag in ([True, False], True):
        settings = {"trace_alloc_overflowed": flag}
        devices = find(history_of({**snapshot, "allocator_settings": settings})).devices
        assert devices[0].trust.facts.loss.state == "lost"
        assert devices[1].trust.facts.loss.state != "lost"
        assert ["ring-overflowed" in codes(each) for each in devices] == [True, False]


def test_equal_numbers_of_events_on_two_devices_with_frees_of_older_memory_are_a_note() -> None:
    def device(ordinal: int) -> TraceBuilder:
        made = trace(ordinal).free(BASE + 8 * MIB, MIB)
        while len(made.events) < 605:
            made.alloc(BASE + 4 * MIB, 2 * MIB, **F).free(BASE + 4 * MIB, **F)
        return made.segment(BASE, 20 * MIB, (2 * MIB, 2 * MIB, "live"))

    first, second = device(0), device(1)
    snapshot = {
        "segments": first.segments + second.segments,
        "device_traces": [first.events, second.events],
    }
    for each in find(history_of(snapshot)).devices:
        assert one(each, "ring-overflowed").severity == "note"
        assert not each.trust.facts.loss.full


def test_equal_numbers_of_events_beside_stacks_without_events_are_a_full_ring() -> None:
    simulator = Simulator(devices=2, seed=4)
    simulator.start_recording(max_entries=333)
    for ordinal in range(2):
        run = TrainingRun(simulator, Transformer(layers=2, batch=1, length=128), ordinal)
        run.build()
        run.train(1 + ordinal)
    for device in find(history_of(simulator.snapshot())).devices:
        assert device.history.events == 333
        assert device.trust.facts.loss.state == "lost"


def test_an_idle_device_beside_recorded_ones_is_no_mistake() -> None:
    busy, idle = sound(), trace(1).segment(BASE, 20 * MIB, (2 * MIB, 2 * MIB, "live"))
    snapshot = {
        "segments": busy.segments + idle.segments,
        "device_traces": [busy.events, []],
    }
    device = find(history_of(snapshot)).devices[1]
    finding = one(device, "no-history")
    assert finding.severity == "note"
    assert finding.suggestions == ()
    assert "while other devices were recorded" in device.trust.sentence


STATES: dict[str, tuple[Callable[[], TraceBuilder], str]] = {
    "off": (lambda: trace().segment(BASE, 20 * MIB, (MIB, MIB, "live")), "Recording was off."),
    "at the end": (
        lambda: trace().event("snapshot").segment(BASE, 20 * MIB, (MIB, MIB, "live")),
        "switched on at the very end",
    ),
    "state": (
        lambda: trace().alloc(BASE, MIB, **F).segment(BASE, 20 * MIB, (MIB, MIB, "live")),
        "enabled='state'",
    ),
}


@pytest.mark.parametrize("case", STATES)
def test_a_history_that_is_missing_is_told_with_what_the_file_shows_of_it(case: str) -> None:
    build, words = STATES[case]
    device = judged(build())
    finding = one(device, "no-history")
    assert words in finding.explanation
    assert finding.bytes == MIB
    assert device.trust.verdict == "no history"


def test_stacks_of_one_language_are_told() -> None:
    native = trace().event("segment_alloc", addr=BASE, size=20 * MIB).alloc(BASE, MIB, **NATIVE)
    device = judged(native.segment(BASE, 20 * MIB, (MIB, MIB, "live")))
    assert codes(device) == {"native-stacks-only"}
    assert device.trust.facts.stack_kind == "native"


def test_python_stacks_alone_are_told_where_they_leave_memory_without_any() -> None:
    def recorded(empty: int) -> DeviceFindings:
        made = trace().event("segment_alloc", addr=BASE, size=40 * MIB)
        made.alloc(BASE, (40 - empty) * MIB, **F)
        made.alloc(BASE + (40 - empty) * MIB, empty * MIB, frames=[])
        made.free(BASE + (40 - empty) * MIB).free(BASE)
        return judged(made.segment(BASE, 40 * MIB))

    finding = one(recorded(10), "python-stacks-only")
    assert finding.severity == "note"
    assert "25%" in finding.title
    assert codes(recorded(2)) == set()


def grown(after: int) -> DeviceFindings:
    """Sixteen blocks one after the other, and then so many of them freed again."""
    made = trace().event("segment_alloc", addr=BASE, size=32 * MIB)
    for i in range(16):
        made.alloc(BASE + i * 2 * MIB, 2 * MIB, **F)
    for i in range(after):
        made.free(BASE + (15 - i) * 2 * MIB, **F)
    live = [(2 * MIB, 2 * MIB, "live")] * (16 - after)
    return judged(made.segment(BASE, 32 * MIB, *live))


def test_a_file_written_while_memory_grew_is_told_as_a_note() -> None:
    device = grown(0)
    assert one(device, "dumped-early").severity == "note"
    assert device.trust.verdict == "later"
    assert codes(grown(3)) == set()


def test_a_failure_ends_a_growth_so_that_nothing_came_too_early() -> None:
    made = trace().event("segment_alloc", addr=BASE, size=32 * MIB)
    for i in range(16):
        made.alloc(BASE + i * 2 * MIB, 2 * MIB, **F)
    made.event("oom", addr=None, size=2 * MIB, device_free=0)
    device = judged(made.segment(BASE, 32 * MIB, *[(2 * MIB, 2 * MIB, "live")] * 16))
    assert codes(device) == set()


def test_a_file_written_after_a_failure_was_cleared_away_is_told() -> None:
    made = trace().event("segment_alloc", addr=BASE, size=20 * MIB).alloc(BASE, 8 * MIB, **F)
    made.event("oom", addr=None, size=20 * MIB, device_free=0).free(BASE, **F)
    device = judged(made.segment(BASE, 20 * MIB))
    finding = one(device, "dumped-late")
    assert finding.title == (
        "The file was written 2 events after the failure, when 8.00 MiB had been freed"
    )
    assert device.trust.verdict == "trusted"


def test_more_reserved_before_the_recording_than_ever_used_in_it_means_an_earlier_peak() -> None:
    made = trace()
    made.alloc(BASE + 4 * MIB, 2 * MIB, **F).free(BASE + 4 * MIB, **F)
    made.segment(BASE, 20 * MIB)
    device = judged(made)
    assert device.trust.verdict == "earlier"
    assert "20.00 MiB was reserved before the first event" in device.trust.sentence


def test_the_parts_of_reserved_memory_are_each_counted_by_itself() -> None:
    made = trace().event("segment_alloc", addr=BASE, size=20 * MIB)
    made.event("segment_alloc", addr=BASE + 64 * MIB, size=20 * MIB)
    made.alloc(BASE, 4 * MIB - 100, **F)
    made.alloc(BASE + 4 * MIB, 2 * MIB, **F).request(BASE + 4 * MIB)
    made.segment(BASE, 20 * MIB, (4 * MIB, 4 * MIB - 100, "live"), (2 * MIB, 2 * MIB, "pending"))
    made.segment(BASE + 64 * MIB, 20 * MIB)
    parts = judged(made).trust.facts.at_end
    assert parts is not None
    assert (parts.requested, parts.slack) == (4 * MIB - 100, 100)
    assert (parts.awaiting_free, parts.fragmented) == (2 * MIB, 14 * MIB)
    assert (parts.returnable, parts.reserved) == (20 * MIB, 40 * MIB)
    assert parts.difference == 0


def test_a_block_outside_of_every_segment_leaves_a_difference() -> None:
    made = trace().event("segment_alloc", addr=BASE, size=20 * MIB).alloc(BASE, 4 * MIB, **F)
    made.alloc(BASE + 99 * MIB, 2 * MIB, **F)
    device = judged(made.segment(BASE, 20 * MIB, (4 * MIB, 4 * MIB, "live")))
    parts = device.trust.facts.at_end
    assert parts is not None
    assert parts.difference == 2 * MIB
    assert device.trust.verdict == "doubtful"


def looping(steps: int, inside: int = 15) -> list[dict[str, Any]]:
    """Steps of a loop, each of which allocates some, and frees all of them; two events each."""
    made = trace()
    for _ in range(steps):
        for number in range(inside):
            made.alloc(f"{number}", MIB, **F)
        for number in range(inside):
            made.event("free_completed", addr=made.address(f"{number}"), size=MIB)
    return made.events


def cached(events: list[dict[str, Any]]) -> TraceBuilder:
    """A recording of these events after a warm-up, whose memory is still reserved."""
    made = trace()
    made.events.extend(events)
    for number in range(15):
        made.segment(f"{number}", 2 * MIB, (2 * MIB, 0, "free"))
    return made


def test_a_round_number_of_events_that_begins_between_two_steps_is_not_suspected() -> None:
    device = judged(cached(looping(300)))
    assert device.history.events == 9000
    assert "ring-overflowed" not in codes(device)


def test_a_round_number_of_events_that_begins_within_a_step_is_suspected() -> None:
    """The newest 9,000 of more events, at all cuts but the one between two steps."""
    events = looping(301)
    for lost in (1, 7, 15, 22, 29):
        device = judged(cached(events[lost : lost + 9000]))
        assert device.history.events == 9000
        assert "ring-overflowed" in codes(device), lost
