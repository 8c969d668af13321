"""Which allocations answer a question about lifetimes: small recordings, checked by hand."""

from __future__ import annotations

import pytest

from snapreport.api.device import Device
from snapreport.api.loading import Snapshot
from snapreport.ground.errors import MomentError
from snapreport.model.asked import Question, parse_marker
from tests.builders import KIB, TraceBuilder, frame, trace

OLD, LEFT, STAYS, BRIEF = 512 * KIB, 8 * KIB, 4 * KIB, 2 * KIB


def recording() -> TraceBuilder:
    """Six events: ``stays`` is made at 0, ``brief`` lives from 1 to 3, ``old`` is freed at 4.

    ``old`` and ``left`` are from before the recording, and nothing frees ``left``. Each free is
    requested one event before it is completed: 2 before 3, 4 before 5.
    """
    here, there = [frame("here", line=1)], [frame("there", line=2)]
    made = trace().alloc("stays", STAYS, frames=here).alloc("brief", BRIEF, frames=there)
    made.free("brief").free("old", OLD)
    made.segment("left", 2048 * KIB, (LEFT, LEFT, "live"))
    return made.segment("stays", 2048 * KIB, (STAYS, STAYS, "live"))


@pytest.fixture
def device() -> Device:
    return Snapshot(recording().file()).device()


def sizes(device: Device, **asked: object) -> list[int]:
    held: list[int] = device.ask(**asked).allocations.bytes.tolist()  # type: ignore[arg-type]
    return held


def test_what_is_made_between_leaves_out_the_first_marker_and_takes_the_second(
    device: Device,
) -> None:
    assert sizes(device, made=(-1, 1)) == [STAYS, BRIEF]
    assert sizes(device, made=(0, 1)) == [BRIEF]
    assert sizes(device, made=(-1, 0)) == [STAYS]
    assert sizes(device, made=(1, 5)) == []


def test_the_baseline_is_made_before_any_marker(device: Device) -> None:
    assert sizes(device, made=(-1, "end")) == [STAYS, BRIEF]
    assert sizes(device, alive=(-1, 3)) == [OLD, LEFT]
    assert sizes(device, alive=("start", "end")) == [LEFT]


def test_a_free_counts_when_the_curve_falls(device: Device) -> None:
    assert sizes(device, freed=(1, 2)) == [BRIEF]
    assert sizes(device, freed=(2, 3)) == []
    assert sizes(device, freed=(1, 2), curve="requested") == []
    assert sizes(device, freed=(2, 3), curve="requested") == [BRIEF]
    assert sizes(device, alive=2, curve="active") == [OLD, LEFT, STAYS, BRIEF]


def test_what_is_never_freed_is_freed_between_no_markers(device: Device) -> None:
    assert sizes(device, freed=("start", "end")) == [OLD, BRIEF]


def test_freed_at_the_marker_is_no_longer_alive_at_it(device: Device) -> None:
    assert sizes(device, made=(0, 1), alive=1) == [BRIEF]
    assert sizes(device, made=(0, 1), alive=2) == []
    assert sizes(device, made=(0, 2), freed=(0, 2)) == [BRIEF]


def test_alive_may_be_before_the_second_marker(device: Device) -> None:
    """Made by 5 and alive at 0 is what was made by 0 and alive there."""
    assert sizes(device, made=(-1, 5), alive=0) == [STAYS]
    assert sizes(device, made=(-1, 5), alive=-1) == []


def test_nothing_is_made_or_freed_between_a_moment_and_itself(device: Device) -> None:
    for event in range(-1, 6):
        assert sizes(device, made=(event, event)) == sizes(device, freed=(event, event)) == []
        live = device.at(event).live().bytes.tolist()
        assert sizes(device, alive=(event, event)) == sizes(device, alive=event) == live
        assert device.changed(event, event).bytes == 0


def test_three_conditions_narrow_one_another(device: Device) -> None:
    assert sizes(device, made=(-1, 1), freed=(1, 5)) == [BRIEF]
    assert sizes(device, made=(-1, 1), freed=(1, 5), alive=1) == [BRIEF]
    assert sizes(device, made=(-1, 1), freed=(1, 5), alive=2) == []
    assert sizes(device, alive=0, freed=(0, 5)) == [OLD]


def test_what_changed_is_what_came_and_stayed_minus_what_went(device: Device) -> None:
    found = device.changed("start", "end")
    assert found.bytes == STAYS - OLD
    assert found.allocations.bytes.tolist() == [-OLD, STAYS]
    changes = {each.name: (each.change, each.came, each.went) for each in found.by("site")}
    assert changes == {
        "before recording": (-OLD, 0, OLD),
        "here  train.py:1": (STAYS, STAYS, 0),
    }
    tree = found.tree()
    assert tree.bytes.tolist() == [STAYS - OLD, -OLD, STAYS]
    assert repr(found) == "<Changed cuda:0 events -1 to 5: -520,192 allocated bytes>"


def test_markers_have_names(device: Device) -> None:
    assert device.at().event == 1
    asked = device.ask(made=("start", "peak"), alive="end")
    assert asked.question == Question("allocated", (-1, 1), None, (5, 5))
    assert str(asked.question) == "made between the start and event 1, alive at event 5"
    assert repr(asked).startswith("<Asked cuda:0 made between the start and event 1, alive")
    both = device.ask(made=(0, 2), freed=(0, 2)).question
    assert str(both) == "made and freed between event 0 and event 2"
    # "30us" is the time of event 3; before event 0 there is the start alone.
    timed = device.ask(freed=("20us", "30us"), alive=(-1, "10us")).question
    assert (timed.freed, timed.alive) == ((2, 3), (-1, 1))
    assert str(timed) == "freed between event 2 and event 3, alive from the start to event 1"
    assert parse_marker("1,200") == 1200


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({}, "say when allocations were made, freed or alive"),
        ({"made": (3, 1)}, "event 1 is before event 3; name the earlier one first."),
        ({"made": ("end", "start")}, "the start is before event 5"),
        ({"made": (0, 6)}, "there is no event 6; this device has -1 (the start) to 5."),
        (
            {"alive": "noon"},
            "'noon' is not an event, a time, start, peak or end, and this recording has no st",
        ),
        ({"made": (2, 3), "alive": 1}, "what is made after event 2 is not alive at event 1"),
        ({"made": (0, 1), "curve": "reserved"}, "allocations do not add up to reserved bytes"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    device: Device, asked: dict[str, object], message: str
) -> None:
    with pytest.raises(MomentError) as raised:
        sizes(device, **asked)
    assert message in str(raised.value)


def test_a_state_without_history_says_so() -> None:
    state = trace().segment("left", 2048 * KIB, (LEFT, LEFT, "live")).file()
    with pytest.raises(MomentError, match="has no recorded history: nothing is made or freed"):
        Snapshot(state).device().changed("start", "end")


def test_a_time_past_the_end_is_refused_with_the_recordings_length() -> None:
    """The last event at 1.26 ms is shown as 1.3 ms, which is too late: so it is said exactly."""
    made = recording()
    made.events[-1]["time_us"] += 1210
    long = Snapshot(made.file()).device()
    assert long.ask(alive="1.26ms").question.alive == (5, 5)
    message = r"1\.3 ms is past the end; this recording is 1\.3 ms \(1,260 µs\) long\."
    for asked in ({"alive": "1.3ms"}, {"made": ("1.3ms", "end")}):
        with pytest.raises(MomentError, match=message):
            sizes(long, **asked)
    with pytest.raises(MomentError, match=message):
        long.at(time_us=1300)


def test_of_many_stages_some_are_named_and_the_others_counted() -> None:
    made = recording()
    for number in range(7):
        made.start(f"part {number}", 10 * len(made.events)).end(f"part {number}", 99)
    with pytest.raises(MomentError) as raised:
        sizes(Snapshot(made.file()).device(), alive="whole")
    assert str(raised.value) == (
        "'whole' is not an event, a time, start, peak or end, and no stage is named 'whole'; this"
        " recording has 'part 0', 'part 1', 'part 2', 'part 3', 'part 4' and 2 more."
    )
