"""The paragraph that says what held the memory at the peak."""

from __future__ import annotations

from dev.simulator.simulator import Simulator
from snapreport.diagnosis.answer import write_answer
from snapreport.diagnosis.conclude import find_figures
from snapreport.model.diagnoses import OomEvent
from snapreport.model.findings import Amounts, CallSite, StageUse
from tests.builders import MIB, TraceBuilder, history_of, trace

GIB = 2**30


def amounts(allocated: int, event: int = 7, **other: int) -> Amounts:
    values = {
        "requested": allocated,
        "active": allocated,
        "reserved": allocated,
        "slack": 0,
        "inactive": 0,
        "fragmentation": 0,
        "live": 3,
        "allocated_width": 0,
        **other,
    }
    return Amounts(event=event, time_us=None, allocated=allocated, **values)


def site(size: int, name: str = "forward", frame: int | None = 1) -> CallSite:
    filename, line = ("model.py", 12) if frame is not None else ("", None)
    return CallSite(frame, name, filename, line, size, size, 1)


def answer(peak: Amounts, *sites: CallSite, recorded: bool = True) -> str:
    return write_answer(peak, 10, sites, (), None, (), recorded)


def test_the_largest_call_sites_are_named_with_their_shares() -> None:
    text = answer(amounts(10 * GIB), site(6 * GIB), site(4 * GIB, "backward"))
    assert text == (
        "Allocated memory peaked at event 7 of 10: 3 allocations held 10.00 GiB. The largest call"
        " site, forward (model.py:12), held 6.00 GiB (60%), followed by backward (model.py:12)"
        " with 4.00 GiB (40%)."
    )


def test_memory_without_a_stack_comes_first_where_it_is_the_larger_part() -> None:
    text = answer(amounts(10 * GIB), site(8 * GIB, "before recording", None), site(2 * GIB))
    assert text.index("8.00 GiB (80%) has no call stack: before recording.") < text.index(
        "The largest call site"
    )


def test_many_small_call_sites_are_counted_instead_of_named() -> None:
    text = answer(amounts(1000), *(site(5, f"f{i}") for i in range(200)))
    assert "1000 B (100%) is spread over 200 call sites; the largest, f0 (model.py:12)" in text


def test_nearly_all_is_not_called_all() -> None:
    assert "(over 99%)" in answer(amounts(1000), site(998), site(2))


def test_the_innermost_stage_at_the_peak_is_named() -> None:
    def stage(name: str, depth: int, start: int, end: int) -> StageUse:
        return StageUse(name, None, depth, start, end, None, None, "", 0, 0, 0, 0, 0, 0, 0)

    stages = (stage("step", 0, 0, 10), stage("forward", 1, 0, 7), stage("backward", 1, 7, 9))
    text = write_answer(amounts(GIB), 10, (site(GIB),), stages, None, (), recorded=True)
    assert "at event 7 of 10, in “backward”:" in text


def test_running_out_of_memory_comes_first() -> None:
    oom = OomEvent(9, None, 2 * GIB, 512, 3 * GIB, 4 * GIB, -1)
    text = write_answer(amounts(3 * GIB), 10, (site(3 * GIB),), (), None, (oom,), recorded=True)
    assert text.startswith(
        "The program ran out of memory at event 9: it asked for 2.00 GiB when the device had 512 B"
        " free and 3.00 GiB were allocated."
    )


def test_without_history_no_peak_is_claimed() -> None:
    text = answer(amounts(GIB, event=-1), site(GIB), recorded=False)
    assert "peaked" not in text
    assert "no history was recorded" in text


def test_large_slack_and_fragmentation_are_named() -> None:
    text = answer(amounts(8 * GIB, reserved=12 * GIB, slack=GIB, fragmentation=3 * GIB), site(8))
    assert "1.00 GiB of it is slack" in text
    assert "Another 3.00 GiB was reserved and unused" in text


def test_an_empty_device_says_so() -> None:
    assert answer(amounts(0)) == "Nothing was allocated on this device."


def answer_of(made: Simulator | TraceBuilder) -> str:
    return find_figures(history_of(made.snapshot()), 0).answer


def reserving(times: int) -> TraceBuilder:
    """Requests of 100 MiB, 110 MiB and so on, one at a time, each of which gets a new segment."""
    made = trace()
    for number in range(times):
        size = (100 + 10 * number) * MIB
        made.event("segment_alloc", addr=made.address(f"{number}"), size=size)
        made.alloc(f"{number}", size).free(f"{number}")
        made.segment(f"{number}", size, (size, 0, "free"))
    return made


def test_a_cache_far_above_what_was_allocated_is_told_with_what_becomes_of_it() -> None:
    text = answer_of(reserving(8))
    # 100 + 110 + ... + 170 MiB are 1,080; at the last request the first seven are free: 910.
    assert "PyTorch had reserved 1.05 GiB at event 28, 6 times the allocated peak." in text
    assert "910.0 MiB of it was unused, and goes back to the driver before a request fails." in text
    assert "cannot go back" not in text


def test_a_cache_of_less_than_three_times_is_not_told_of() -> None:
    assert "had reserved" not in answer_of(reserving(3))


def test_unused_parts_of_segments_in_use_cannot_go_back() -> None:
    made = trace()
    for number in range(8):
        address, last = made.address(f"{number}"), number == 7
        made.event("segment_alloc", addr=address, size=100 * MIB).alloc(address, 80 * MIB)
        made.alloc(address + 80 * MIB, 2 * MIB)
        if not last:
            made.free(address)
        kept = (2 * MIB, 2 * MIB, "live")
        first = (80 * MIB, 80 * MIB, "live") if last else (80 * MIB, 0, "free")
        made.segment(address, 100 * MIB, first, kept, (18 * MIB, 0, "free"))
    text = answer_of(made)
    # With the first block of the last segment: 7 kept blocks of 2 MiB in 700 MiB, and 80 of 100.
    assert "PyTorch had reserved 800.0 MiB at event 35, 8 times the allocated peak." in text
    assert "706.0 MiB of it was unused but cannot go back to the driver" in text
    assert "goes back" not in text
