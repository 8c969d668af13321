"""Findings about segments given back to the driver: retries, and memory fetched again and again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from snapreport.diagnosis.allocator_use.allocator_faults import Burst, find_bursts
from snapreport.diagnosis.finding_tables import top_table
from snapreport.diagnosis.oom.setting_verdict import judge_settings
from snapreport.diagnosis.oom.verdict import judge
from snapreport.figures.callsites import name_stacks
from snapreport.figures.fragmentation import allocator_of
from snapreport.ground.units import format_bytes, plural, times
from snapreport.model.diagnoses import Figure, Finding, Frees, Suggestion, Table, View
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import History

WORTH = 32 << 20
"""Smaller losses are not worth a finding: the allocator gets memory 2 to 20 MiB at a time, and a
program of a few hundred MiB always has some of that free."""
_CYCLES = 3
"""Segments given back and fetched again this often are thrash. Once or twice is a program that
cleans up between its parts."""
_COMES_BACK = 0.25
"""A burst counts if at least this part of it was fetched again before the next."""
EXPANDABLE = "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"


def find_given_back(tables: History, device: DeviceFigures) -> Iterator[Finding]:
    """Yield the findings about segments that a device's allocator gave back."""
    bursts = find_bursts(tables, device)
    yield from _retries(tables, device, [each for each in bursts if each.kind == "retry"])
    yield from _thrash(
        tables, device, [each for each in bursts if each.kind in ("emptied", "other")]
    )


def expandable_may_help(tables: History, device: DeviceFigures) -> bool:
    """Say whether expandable segments are off, and nothing known speaks against them.

    Where a request failed, a replay may show that they would not have served it.
    """
    if is_expandable(tables, device):
        return False
    verdict = judge(tables, device, device.ooms[0]) if device.ooms else None
    if verdict is None:
        return True
    return judge_settings(tables, device, verdict).may_help("expandable_segments:True")


def is_expandable(tables: History, device: DeviceFigures) -> bool:
    """Say whether expandable segments are on, by the settings or as the segments show."""
    seen = bool(allocator_of(device).segments.expandable.any())
    return tables.settings.get("expandable_segments") is True or seen


def _retries(tables: History, device: DeviceFigures, bursts: Sequence[Burst]) -> Iterator[Finding]:
    if not bursts:
        return
    given = sum(burst.bytes for burst in bursts)
    curve = allocator_of(device).fragmentation
    # Memory that was free, but could not be given back when the allocator was short of it.
    pieces = max(int(curve[burst.last_event + 1]) for burst in bursts)
    suggestions: tuple[Suggestion, ...] = ()
    if pieces >= WORTH and expandable_may_help(tables, device):
        suggestions = (
            Suggestion(
                "allocator-setting",
                "Switch on expandable segments: what is free in them can be given back even while"
                f" other parts are in use. Up to {format_bytes(pieces)} were free in segments"
                " partly in use when this happened.",
                EXPANDABLE,
            ),
        )
    yield Finding(
        "allocator-retries",
        "warning",
        f"The device was full: unused memory had to be given back {times(len(bursts))} to"
        f" serve {'a request' if len(bursts) == 1 else 'requests'}",
        "The driver had no memory left for a request. So the allocator gave back the segments that"
        " nothing used, and asked again. That worked, but it is slow, as it waits for the GPU. The"
        " recording does not mark such retries; they show in the order and the call stacks of its"
        " events.",
        evidence=(
            Figure("retries", len(bursts), "count"),
            Figure("segments given back", sum(burst.count for burst in bursts), "count"),
            Figure("bytes given back", given),
            Figure("first at event", bursts[0].first_event, "event"),
            Figure("last at event", bursts[-1].last_event, "event"),
        ),
        tables=(_burst_table(tables, bursts, "Which requests this was for"),),
        suggestions=suggestions,
        view=View("events", event=bursts[0].last_event),
        bytes=max(burst.bytes for burst in bursts),
    )


def _thrash(tables: History, device: DeviceFigures, bursts: Sequence[Burst]) -> Iterator[Finding]:
    back = [burst for burst in bursts if burst.got_again >= max(_COMES_BACK * burst.bytes, 1)]
    if len(back) < _CYCLES:
        return
    again = sum(burst.got_again for burst in back)
    most = max(burst.got_again for burst in back)
    emptied = sum(burst.kind == "emptied" for burst in back)
    suggestions: tuple[Suggestion, ...] = ()
    if emptied:
        suggestions = (
            Suggestion(
                "keep-cache",
                "Leave out torch.cuda.empty_cache() in the loop: PyTorch had to fetch"
                f" {format_bytes(again)} again afterwards. A call waits for the GPU, and"
                f" {plural(sum(burst.count for burst in back), 'segment was', 'segments were')}"
                " given back in all. Without these calls the program is faster, but needs no less"
                " memory.",
                frees=Frees.exactly(0),
            ),
        )
    peak = device.peaks.get("reserved")
    large = peak is not None and most >= _COMES_BACK * peak.bytes
    yield Finding(
        "segment-thrash",
        "warning" if large else "note",
        f"PyTorch gave memory back to the driver {times(len(back))}, only to fetch"
        f" {format_bytes(again)} of it again",
        "Getting memory from the driver and giving it back is slow. PyTorch keeps unused memory to"
        " avoid just that."
        + (
            f" The program called torch.cuda.empty_cache() {times(emptied)}."
            if emptied
            else " The recording does not show what made it give memory back."
        ),
        evidence=(
            Figure("times given back and fetched again", len(back), "count"),
            Figure("bytes fetched again", again),
            Figure("most at once", most),
            Figure("segments given back", sum(burst.count for burst in back), "count"),
            Figure("by empty_cache()", emptied, "count"),
            Figure("first at event", back[0].first_event, "event"),
        ),
        tables=(_burst_table(tables, back, "Who gave memory back"),),
        suggestions=suggestions,
        view=View("events", event=back[0].last_event),
        bytes=most,
    )


def _burst_table(tables: History, bursts: Sequence[Burst], title: str) -> Table:
    """Add bursts up by their call site."""
    held: dict[str, list[int]] = {}
    names = name_stacks(tables.stacks, [burst.stack for burst in bursts])
    for burst, name in zip(bursts, names, strict=True):
        sums = held.setdefault(name, [0, 0, 0])
        sums[0] += burst.bytes
        sums[1] += burst.count
        sums[2] += 1
    order = sorted(held, key=lambda name: -held[name][0])
    return top_table(
        title,
        {"call site": "text", "given back": "bytes", "segments": "count", "times": "count"},
        [(name, *held[name]) for name in order],
    )
