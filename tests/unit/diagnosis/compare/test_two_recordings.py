"""Two small recordings compared: sites, sums, moments and the sentence about them."""

from __future__ import annotations

from typing import Any

import pytest

import snapreport
from snapreport.diagnosis.compare.diff_types import DIFF_GROUPINGS, UNUSED, Change, Diff
from tests.builders import MIB, TraceBuilder, frame, trace


def snapshot(builder: TraceBuilder) -> snapreport.Snapshot:
    return snapreport.Snapshot(builder.file())


def compare(base: TraceBuilder, new: TraceBuilder, **options: Any) -> Diff:
    return snapreport.diff(snapshot(base), snapshot(new), **options)


def at(name: str, line: int, filename: str = "/home/ann/run/model.py") -> list[dict[str, Any]]:
    return [frame(name, filename, line), frame("main", filename.rpartition("/")[0] + "/train.py")]


def site(diff: Diff, name: str) -> Change:
    (found,) = [change for change in diff.sites if change.name == name]
    return found


def test_a_site_of_both_changes_by_its_bytes() -> None:
    base = trace().alloc("a", MIB, frames=at("attend", 40))
    new = trace().alloc("a", MIB, frames=at("attend", 40)).alloc("b", MIB, frames=at("attend", 40))
    found = compare(base, new)
    change = site(found, "attend")
    assert (change.base_bytes, change.new_bytes, change.change) == (MIB, 2 * MIB, MIB)
    assert (change.base_count, change.new_count, change.match) == (1, 2, "exact")
    assert found.change == MIB
    assert found.conclusion == (
        "NEW peaks 1.00 MiB higher (+100%), mostly from model.py:40 attend, +1.00 MiB."
    )


def test_compiled_code_below_a_line_of_the_programs_is_in_no_file() -> None:
    called = at("call", 175, "/tmp/torchinductor_ann/yb/cyb76l5fmhd2v6zpvlbcu2iyb2l5jl.py")[:1]
    base, new = (
        trace().alloc("a", size, frames=[frame("empty", "??"), *called, *at("attend", 40)])
        for size in (MIB, 2 * MIB)
    )
    found = compare(base, new)
    assert [(each.name, each.change) for each in found.sites] == [("attend", MIB)]


def test_no_share_is_told_of_many_times_what_there_was() -> None:
    base = trace().alloc("a", MIB, frames=at("attend", 40))
    new = trace().alloc("a", 12 * MIB, frames=at("attend", 40))
    assert compare(base, new).conclusion.startswith("NEW peaks 11.00 MiB higher, ")


def test_a_site_that_is_not_live_at_the_other_moment_is_still_in_both() -> None:
    base = trace().alloc("a", MIB, frames=at("attend", 40)).free("a")
    base = base.alloc("b", 2 * MIB, frames=at("project", 50))
    new = trace().alloc("a", 3 * MIB, frames=at("attend", 40))
    new = new.free("a").alloc("b", MIB, frames=at("project", 50))
    found = compare(base, new)
    assert (site(found, "attend").match, site(found, "attend").change) == ("exact", 3 * MIB)
    assert (site(found, "project").match, site(found, "project").change) == ("exact", -2 * MIB)


def test_sites_of_one_recording_are_named_and_summed_up() -> None:
    base = trace().alloc("a", MIB, frames=at("old", 10)).alloc("b", MIB, frames=at("both", 20))
    new = trace().alloc("a", 5 * MIB, frames=at("fresh", 10)).alloc("b", MIB, frames=at("both", 20))
    found = compare(base, new)
    assert site(found, "old").match == "only in BASE"
    assert site(found, "fresh").match == "only in NEW"
    assert [(part.name, part.change) for part in found.parts] == [
        ("call sites in both", 0),
        ("call sites only in BASE", -MIB),
        ("call sites only in NEW", 5 * MIB),
    ]


def test_memory_without_a_stack_is_named_by_the_reason() -> None:
    base = trace().segment("s", 2 * MIB).alloc("a", MIB, frames=at("f", 1))
    new = (
        trace()
        .segment("s", 20 * MIB, (8 * MIB, 8 * MIB, "live"))
        .alloc("a", MIB, frames=at("f", 1))
    )
    found = compare(base, new)
    assert site(found, "before recording").change == 8 * MIB
    assert site(found, "before recording").kind == "no stack"
    assert [part.name for part in found.parts] == ["call sites in both", "without a call stack"]
    assert "memory without a call stack (before recording), +8.00 MiB" in found.conclusion


def test_a_moved_line_says_where_it_was() -> None:
    base = trace().alloc("a", MIB, frames=at("attend", 40)).alloc("b", MIB, frames=at("attend", 42))
    new = trace().alloc("a", MIB, frames=at("attend", 42)).alloc("b", MIB, frames=at("attend", 44))
    found = compare(base, new)
    lines = {
        (c.base_place.line, c.new_place.line) for c in found.sites if c.base_place and c.new_place
    }
    assert lines == {(40, 42), (42, 44)}
    assert {change.match for change in found.sites} == {"moved line"}


def test_a_line_that_another_stack_passes_through_is_no_moved_site() -> None:
    through = [frame("helper", "/home/ann/run/model.py", 5), *at("main", 66)]
    base = trace().alloc("a", MIB, frames=at("main", 66)).alloc("b", MIB, frames=through)
    new = trace().alloc("a", MIB, frames=at("main", 57)).alloc("b", MIB, frames=through)
    matches = {change.match for change in compare(base, new).sites if change.name == "main"}
    assert matches == {"only in BASE", "only in NEW"}


def test_the_same_code_in_another_folder_is_the_same_site() -> None:
    base = trace().alloc("a", MIB, frames=at("attend", 40))
    new = trace().alloc("a", 2 * MIB, frames=at("attend", 40, "/srv/job 7/model.py"))
    (change,) = compare(base, new).sites
    assert (change.match, change.change) == ("exact", MIB)


def test_a_function_in_a_file_that_moved_is_a_moved_site() -> None:
    others = at("load", 3, "/home/ann/run/data.py")
    base = trace().alloc("b", 512, frames=others).alloc("a", MIB, frames=at("attend", 40))
    elsewhere = [frame("attend", "/home/ann/run/layers/model.py", 12), *at("main", 1)[1:]]
    new = trace().alloc("b", 512, frames=others).alloc("a", MIB, frames=elsewhere)
    change = site(compare(base, new), "attend")
    assert change.match == "moved file"
    assert change.base_place is not None
    assert change.base_place.filename.endswith("run/model.py")


def test_reserved_memory_that_nobody_holds_is_a_change_of_its_own() -> None:
    base = trace().segment("s", 2 * MIB, (MIB, MIB, "live"))
    new = trace().segment("s", 20 * MIB, (MIB, MIB, "live"))
    found = compare(base, new, curve="reserved")
    assert found.change == 18 * MIB
    assert [(c.name, c.change) for c in found.sites if c.change] == [(UNUSED, 18 * MIB)]
    assert sum(part.change for part in found.parts) == 18 * MIB


@pytest.mark.parametrize("curve", ["allocated", "requested", "active", "reserved"])
@pytest.mark.parametrize("by", DIFF_GROUPINGS)
def test_every_grouping_sums_to_the_change(by: str, curve: str) -> None:
    base = trace().segment("s", 4 * MIB, (MIB, MIB - 9, "live")).alloc("a", MIB, frames=at("f", 1))
    new = trace().start("x", 0).alloc("a", 3 * MIB + 5, stream=7, frames=at("f", 1)).end("x", 50)
    new = new.segment("a", 20 * MIB, (3 * MIB + 512, 3 * MIB + 5, "live"), stream=7)
    found = compare(base, new, by=by, curve=curve)
    assert found.change != 0
    for changes in (found.groups, found.sites, found.parts, found.categories):
        assert sum(change.base_bytes for change in changes) == found.base.bytes
        assert sum(change.new_bytes for change in changes) == found.new.bytes


def test_files_are_grouped_wherever_they_lie() -> None:
    base = trace().alloc("a", MIB, frames=at("f", 1)).alloc("b", MIB, frames=at("g", 9))
    new = trace().alloc("a", MIB, frames=at("f", 2, "/srv/run/model.py"))
    (change,) = compare(base, new, by="file").groups
    assert (change.name, change.change) == ("/srv/run/model.py", -MIB)


def test_no_change_at_all_is_said_to_be_none() -> None:
    base = trace().alloc("a", MIB, frames=at("f", 1))
    found = compare(base, base)
    assert found.conclusion == (
        "NEW peaks as high as BASE, 1.00 MiB, and no call site holds more or less."
    )


def test_changes_that_cancel_out_are_said_to_be_there() -> None:
    base = trace().alloc("a", MIB, frames=at("f", 1)).alloc("b", MIB, frames=at("g", 9))
    new = trace().alloc("a", 2 * MIB, frames=at("f", 1))
    assert compare(base, new).conclusion == (
        "NEW peaks as high as BASE, 2.00 MiB, though call sites changed: some hold 1.00 MiB more,"
        " others as much less, most of all model.py:1 f, +1.00 MiB."
    )


def test_a_change_spread_over_many_sites_is_not_blamed_on_one() -> None:
    base, new = trace(), trace()
    for i in range(4):
        new.alloc(f"a{i}", MIB, frames=at(f"f{i}", 10 * i + 10))
    assert ", spread over 4 call sites, the largest " in compare(base, new).conclusion


def test_a_large_change_the_other_way_is_told_as_well() -> None:
    base = trace().alloc("a", 8 * MIB, frames=at("f", 1))
    new = trace().alloc("a", 20 * MIB, frames=at("g", 9))
    assert compare(base, new).conclusion.endswith(
        "mostly from model.py:9 g, +20.00 MiB; in the other direction model.py:1 f, -8.00 MiB."
    )


def test_the_start_and_the_end_can_be_compared() -> None:
    base = trace().alloc("a", 4 * MIB).free("a").alloc("b", MIB)
    new = trace().alloc("a", 4 * MIB).free("a").alloc("b", 2 * MIB)
    assert compare(base, new, at="start").change == 0
    found = compare(base, new, at="end")
    assert found.change == MIB
    assert found.conclusion.startswith("NEW holds 1.00 MiB more (+100%) at the end, ")


def test_events_of_each_can_be_compared() -> None:
    base = trace().alloc("a", 4 * MIB).free("a").alloc("b", MIB)
    found = compare(base, base, base_event=2, new_event=0)
    assert (found.change, found.moment) == (4 * MIB, "at NEW's event 0, against BASE's event 2")


def test_a_stage_of_both_can_be_compared() -> None:
    def recording(inside: int) -> TraceBuilder:
        made = trace().alloc("a", 9 * MIB).free("a").start("step", 25).alloc("b", inside)
        return made.end("step", 35).alloc("c", 512)

    found = compare(recording(MIB), recording(3 * MIB), stage="step")
    assert found.change == 2 * MIB
    assert "at the peak of stage 'step'" in found.conclusion
    (stage,) = found.stages
    assert (stage.name, stage.base_peak, stage.new_peak) == ("step", MIB, 3 * MIB)


def test_stages_are_matched_in_their_order_and_those_of_one_recording_named() -> None:
    def recording(*names: str) -> TraceBuilder:
        made = trace()
        for name in names:
            now = 10 * len(made.events)
            made = made.start(name, now).alloc(f"{name}{now}", 512).end(name, now + 5)
        return made

    found = compare(recording("step", "step", "test"), recording("step", "eval"))
    assert [(stage.name, stage.match) for stage in found.stages] == [
        ("step[1]", "exact"),
        ("step[2]", "only in BASE"),
        ("test", "only in BASE"),
        ("eval", "only in NEW"),
    ]


def test_settings_that_differ_are_listed() -> None:
    base = trace().settings(expandable_segments=False, max_split_size=-1)
    new = trace().settings(expandable_segments=True, max_split_size=-1)
    assert compare(base, new).settings == (("expandable_segments", False, True),)


def test_what_limits_the_comparison_is_noted() -> None:
    base = trace().alloc("a", MIB)
    new = trace().alloc("a", MIB).alloc("b", MIB).event("oom", addr=None, device_free=5, size=MIB)
    no_history, no_memory = compare(base, new).notes
    assert no_history.startswith("BASE recorded no history: its figures are the state when ")
    assert no_memory == "NEW ran out of memory at event 2, when it asked for 1.00 MiB."


def test_rules_decide_the_categories() -> None:
    rules = snapreport.load_rules('{"mine": "attend"}')
    base = trace().alloc("a", MIB, frames=at("attend", 40))
    new = trace().alloc("a", 2 * MIB, frames=at("attend", 40))
    (change,) = compare(base, new, rules=rules).categories
    assert (change.name, change.change) == ("mine", MIB)
