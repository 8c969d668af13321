"""Annotations as stages: ties, lost markers, nesting, overlap, and the memory of each."""

from __future__ import annotations

import random

import pytest

from snapreport.diagnosis.conclude import find_figures
from snapreport.model.findings import StageUse
from tests.builders import KIB, TraceBuilder, trace


def four_events() -> TraceBuilder:
    """Events at 0, 10, 20 and 30 microseconds: 1 KiB, 2 KiB, both freed at once by requests."""
    return trace().alloc("a", KIB).alloc("b", 2 * KIB).free("b")


def stages(builder: TraceBuilder) -> dict[str, tuple[int, int]]:
    found = builder.history().stages
    events = zip(found.start_event.tolist(), found.end_event.tolist(), strict=True)
    return dict(zip(found.name, events, strict=True))


def use(builder: TraceBuilder) -> dict[str, StageUse]:
    return {stage.name: stage for stage in find_figures(builder.file(), 0).stages}


def test_a_stage_holds_the_events_between_its_markers() -> None:
    assert stages(four_events().start("s", 5).end("s", 25)) == {"s": (1, 3)}


def test_events_at_the_time_of_a_marker_are_inside() -> None:
    assert stages(four_events().start("s", 10).end("s", 20)) == {"s": (1, 3)}
    assert stages(four_events().start("s", 0).end("s", 30)) == {"s": (0, 4)}


def test_tied_events_are_inside_together() -> None:
    builder = trace()
    for place in "abcd":
        builder.alloc(place, 4, time_us=1000)
    builder.alloc("e", 4, time_us=2000)
    builder.start("s", 0).end("s", 0)
    for marker in builder.snapshot()["external_annotations"]:
        marker["time_us"] = 1000
    assert stages(builder) == {"s": (0, 4)}


def test_a_stage_between_two_events_is_empty() -> None:
    builder = four_events().start("s", 12).end("s", 18)
    assert stages(builder) == {"s": (2, 2)}
    stage = use(builder)["s"]
    assert (stage.start_bytes, stage.end_bytes, stage.peak_bytes) == (3 * KIB,) * 3
    assert (stage.change, stage.allocations, stage.allocated_bytes) == (0, 0, 0)


def test_a_lone_end_began_before_the_recording() -> None:
    builder = four_events().end("s", 15)
    assert stages(builder) == {"s": (-1, 2)}
    stage = use(builder)["s"]
    assert stage.cut == "start"
    assert (stage.start_bytes, stage.change, stage.allocations) == (None, None, None)
    assert (stage.peak_bytes, stage.end_bytes) == (3 * KIB, 3 * KIB)


def test_a_stage_that_began_before_the_first_event_has_figures_of_the_recorded_part() -> None:
    stage = use(four_events().start("s", -5).end("s", 15))["s"]
    assert stage.cut == "start"
    assert (stage.start_bytes, stage.end_bytes, stage.allocations) == (0, 3 * KIB, 2)


def test_a_stage_that_began_before_the_first_event_has_no_start_where_events_may_be_lost() -> None:
    builder = trace().free("old", KIB).alloc("a", KIB).start("s", -5).end("s", 100)
    stage = use(builder)["s"]
    assert stage.cut == "start"
    assert (stage.start_bytes, stage.change, stage.allocations) == (None, None, None)


def test_a_stage_over_before_the_first_event_has_no_figures() -> None:
    stage = use(four_events().start("s", -9).end("s", -5))["s"]
    assert (stage.start_bytes, stage.peak_bytes, stage.end_bytes, stage.allocated_bytes) == (
        (None,) * 4
    )


def test_a_stage_still_open_at_the_end_is_cut_there() -> None:
    builder = four_events().start("s", 5)
    assert stages(builder) == {"s": (1, 4)}
    stage = use(builder)["s"]
    assert stage.cut == "end"
    assert stage.end_time_us is None
    assert (stage.start_bytes, stage.peak_bytes, stage.peak_event, stage.end_bytes) == (
        *(KIB, 3 * KIB, 1),
        KIB,
    )
    assert (stage.allocations, stage.allocated_bytes) == (1, 2 * KIB)


def test_a_stage_that_began_before_the_trace_includes_its_start() -> None:
    assert stages(four_events().start("s", -5).end("s", 5)) == {"s": (-1, 1)}


def test_stages_outside_the_trace_are_at_its_ends() -> None:
    builder = four_events().start("early", -9).end("early", -5).start("late", 35).end("late", 39)
    assert stages(builder) == {"early": (-1, -1), "late": (4, 4)}
    found = use(builder)
    assert (found["early"].start_bytes, found["early"].end_bytes) == (None, None)
    assert (found["late"].start_bytes, found["late"].end_bytes) == (KIB, KIB)


def test_stages_nest_in_the_innermost_that_holds_them() -> None:
    builder = four_events().start("outer", 0).start("middle", 0).start("inner", 10)
    builder.end("inner", 20).end("middle", 20).end("outer", 30).start("next", 30).end("next", 30)
    found = builder.history().stages
    assert found.name == ["outer", "middle", "inner", "next"]
    assert found.parent.tolist() == [-1, 0, 1, -1]
    assert found.depth.tolist() == [0, 1, 2, 0]


def test_overlapping_stages_of_two_threads_do_not_nest() -> None:
    builder = four_events().start("one", 0).start("two", 10).end("one", 20).end("two", 30)
    found = builder.history().stages
    assert found.parent.tolist() == [-1, -1]
    assert found.depth.tolist() == [0, 0]


def test_an_end_closes_the_latest_open_start_of_its_name() -> None:
    builder = four_events().start("s", 0).start("s", 10).end("s", 20).end("s", 30)
    found = builder.history().stages
    assert list(zip(found.start_event.tolist(), found.end_event.tolist(), strict=True)) == [
        (0, 4),
        (1, 3),
    ]
    assert found.parent.tolist() == [-1, 0]


def test_without_times_stages_cannot_be_placed_and_are_counted() -> None:
    builder = trace().alloc("a", 4, time_us=None).start("s", 0).end("s", 5)
    file = builder.file()
    assert len(file.devices[0].stages) == 0
    assert file.oddities == {"annotation that cannot be placed": 2}


def test_the_peak_of_a_stage_may_be_what_it_began_with() -> None:
    builder = four_events().start("s", 20).end("s", 30)
    stage = use(builder)["s"]
    assert (stage.start_bytes, stage.peak_bytes, stage.peak_event) == (3 * KIB, 3 * KIB, 1)
    assert (stage.end_bytes, stage.change) == (KIB, -2 * KIB)


@pytest.mark.parametrize("seed", range(100))
def test_a_stage_lies_in_the_latest_earlier_one_that_is_on_and_lasts_as_long(seed: int) -> None:
    rng = random.Random(seed)
    builder = four_events()
    for name in range(rng.randint(1, 30)):
        begin = rng.randint(0, 40)
        builder.start(f"{name}", begin)
        if rng.random() < 0.9:
            builder.end(f"{name}", begin + rng.randint(0, 40))
    found = builder.history().stages
    starts = found.start_time_us.tolist()
    ends = [end if end >= 0 else 2**62 for end in found.end_time_us.tolist()]
    for row, (start, end) in enumerate(zip(starts, ends, strict=True)):
        holders = [-1, *(i for i in range(row) if ends[i] > start and ends[i] >= end)]
        assert found.parent[row] == holders[-1]
        assert found.depth[row] == (found.depth[holders[-1]] + 1 if holders[-1] >= 0 else 0)
