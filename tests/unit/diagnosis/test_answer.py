"""The paragraph that says what held the memory at the peak."""

from __future__ import annotations

from snapreport.diagnosis.answer import write_answer
from snapreport.model.findings import Amounts, CallSite, OomEvent, StageUse

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
