"""Findings about segments given back to the driver: retries, and memory fetched again and again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from snapreport.diagnosis.allocator_faults import (
    Burst,
    Tightest,
    find_bursts,
    find_private_pools,
    find_slack,
    find_tightest,
    served_like,
)
from snapreport.diagnosis.finding_tables import tell_of_kept, top_table
from snapreport.diagnosis.oom.settings import judge_settings
from snapreport.diagnosis.oom.verdict import judge
from snapreport.figures.callsites import name_stacks
from snapreport.figures.curves import peak_without, reserved_at
from snapreport.figures.segments import (
    allocator_of,
    find_holes,
    heap_at,
    returnable_bytes,
    whole_bytes,
)
from snapreport.ground.native.columns import is_among, median
from snapreport.ground.units import format_bytes, plural, times
from snapreport.history.allocator_settings import recorded_settings
from snapreport.model.diagnoses import Figure, Finding, Frees, Suggestion, Table, View
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import History
from snapreport.roles.steps import find_iterations

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


# Findings about memory lost in the allocator: fragmentation, unused segments, pools, slack.


_LOST, _LOST_MUCH = 0.05, 0.2
"""Fragments from this part of reserved memory on are worth a note, and from the second a warning.
Programs whose tensor sizes vary little stay below the first."""
_UNUSED = 0.1
"""Unused segments from this part of reserved memory on are worth a note: some are always kept."""
_ENOUGH = 4
"""With at least this many steps, the second half of them is a fair sample of those to come."""
_SLACK, _SLACK_MUCH = 0.02, 0.1
"""Slack from this part of the allocated peak on is worth a note, and from the second a warning.
Rounding to 512 bytes alone costs far less."""
_MANY_POOLS = 3
"""From this many private pools on, it is likely that each belongs to a graph for one shape."""
_PINNED_WORTH = 1 << 20
_SEVERAL = 4
"""From this many allocations on, it is no accident that the sizes of all are powers of two."""


def find_allocator_faults(tables: History, device: DeviceFigures) -> Iterator[Finding]:
    """Yield the findings about a device's allocator."""
    history = device.history
    # Pinned memory has an allocator of its own, with other rules.
    if "reserved" not in device.curves or not len(history.allocations):
        return
    if history.device.kind == "host":
        yield from _pinned_rounding(tables, device)
    if not history.device.on_card or not history.blocks_known:
        return
    tightest = find_tightest(tables, device)
    if tightest is not None:
        yield from _fragmentation(tables, device, tightest)
        yield from _unused(tables, device, tightest)
    yield from _locked(tables, device)
    yield from _slack(tables, device)
    if device.recorded:
        yield from find_given_back(tables, device)


def _fragmentation(tables: History, device: DeviceFigures, tightest: Tightest) -> Iterator[Finding]:
    lost = min(tightest.pieces, tightest.beyond)
    share = lost / max(tightest.reserved, 1)
    if share < _LOST or lost < WORTH:
        return
    curve = allocator_of(device).fragmentation
    known = curve[curve >= 0]
    heap = heap_at(tables, device, tightest.event)
    kept = tell_of_kept(tables, device, heap, tightest.pieces, served_like(device, heap, tightest))
    suggestions = kept.suggestions
    if expandable_may_help(tables, device):
        suggestions = (
            *suggestions,
            Suggestion(
                "allocator-setting",
                "Switch on expandable segments: what is free in them can go back to the driver, so"
                f" few pieces are left over. That saves at most {format_bytes(tightest.beyond)}:"
                " the reserved peak minus the active peak.",
                EXPANDABLE,
            ),
        )
    if tightest.grew:
        explanation = (
            "That was when reserved memory rose to its peak. The allocator asks the driver for more"
            " only when none of its free blocks serves a request. So these free pieces, of the same"
            " pool and stream, were all too small. They lie in segments that are partly in use, so"
            " they cannot be given back to the driver either. Never more than"
            f" {format_bytes(int(device.curves['active'].max()))} were active at once."
        )
    else:
        moment = "at the allocated peak" if device.recorded else "when the snapshot was written"
        explanation = (
            f"That was {moment}. The pieces lie in segments that are partly in use, so they cannot"
            " be given back to the driver. Each serves only requests that fit into it."
        )
    yield Finding(
        "fragmentation",
        "warning" if share >= _LOST_MUCH and tightest.grew else "note",
        f"{format_bytes(tightest.pieces)} of {format_bytes(tightest.reserved)} reserved were free,"
        + (" but in too small pieces" if tightest.grew else " in pieces between live blocks"),
        explanation,
        evidence=(
            Figure("fragmentation", tightest.pieces, meaning="free, in segments partly in use"),
            *kept.figures,
            Figure("reserved", tightest.reserved),
            Figure("active", tightest.active),
            Figure("unused segments", tightest.whole, meaning="whole segments that were free"),
            Figure("free in other pools and streams", tightest.elsewhere),
            Figure("reserved peak minus active peak", tightest.beyond),
            Figure("at event", tightest.event, "event"),
            Figure("most fragmentation", int(known.max()), meaning="over the recording"),
            Figure("most at event", allocator_of(device).most, "event"),
            Figure("median fragmentation", int(median(known)), meaning="over the recording"),
        ),
        tables=kept.tables,
        suggestions=suggestions,
        view=View("allocator", event=tightest.event),
        bytes=lost,
    )


def _unused(tables: History, device: DeviceFigures, tightest: Tightest) -> Iterator[Finding]:
    if not device.recorded:
        return
    end = device.end
    reserved = end.reserved or 0
    half = _active_lately(tables, device)
    heap = heap_at(tables, device, device.history.events - 1)
    at_end = min(int(returnable_bytes(heap, find_holes(heap)).sum()), reserved - half)
    falls_off = half <= (1 - _UNUSED) * int(device.curves["active"].max())
    if at_end < max(_UNUSED * reserved, WORTH) or not falls_off:
        at_end = 0
    # These pieces were free while more was reserved, so they were too small.
    idle = min(tightest.whole, tightest.beyond) if tightest.grew and not tightest.private else 0
    if idle < max(_UNUSED * tightest.reserved, WORTH):
        idle = 0
    if not max(at_end, idle):
        return
    suggestions = []
    if idle and not tables.settings.get("garbage_collection_threshold"):
        suggestions.append(
            Suggestion(
                "allocator-setting",
                "Let the allocator give back segments unused for long before it asks for more. That"
                f" could have saved at most {format_bytes(idle)} of the segments unused then.",
                "export PYTORCH_CUDA_ALLOC_CONF=garbage_collection_threshold:0.8",
            )
        )
    if at_end:
        suggestions.append(
            Suggestion(
                "return-cache",
                "If another program needs the memory, call this once, after the part that needed so"
                f" much: {format_bytes(at_end)} are in segments that nothing uses.",
                "torch.cuda.empty_cache()",
                frees=Frees.exactly(at_end),
            )
        )
    yield Finding(
        "unused-reserved",
        "note",
        f"{format_bytes(at_end)} of {format_bytes(reserved)} reserved are no longer used"
        if at_end
        else f"{format_bytes(idle)} lay unused when more was reserved",
        "PyTorch keeps segments that nothing uses any more, for later requests. This program can"
        " use them again; other programs cannot."
        + (
            f" In the second half of its steps at most {format_bytes(half)} were active."
            if at_end
            else " When more was reserved, these were too small for the request."
        ),
        evidence=(
            Figure("no longer used", at_end, meaning="whole segments, free at the end"),
            Figure("reserved at the end", reserved),
            Figure("most active in later steps", half),
            Figure("unused when reserved was raised", idle),
            Figure("raised at event", tightest.event if tightest.grew else None, "event"),
        ),
        suggestions=tuple(suggestions),
        view=View("allocator", event=device.history.events - 1 if at_end else tightest.event),
        bytes=max(at_end, idle),
    )


def _active_lately(tables: History, device: DeviceFigures) -> int:
    """Return the most that was active in the second half of the program's steps.

    What these steps do not need, later ones will hardly need either. Without a loop this is the
    most that was ever active.
    """
    turns, active = find_iterations(device.history, tables), device.curves["active"]
    if turns is None or len(turns) < _ENOUGH:
        return int(active.max())
    return int(active[int(turns.starts[len(turns) // 2]) :].max())


def _locked(tables: History, device: DeviceFigures) -> Iterator[Finding]:
    if not any(pool != (0, 0) for pool in tables.pools):
        return
    # Graphs captured after the peak hold more, so the end counts as well.
    events = sorted({device.peak.event, device.history.events - 1})
    known = {
        each: size for each in events if (size := reserved_at(device.curves, each)) is not None
    }
    held = {event: find_private_pools(tables, device, event) for event in known}
    event = max(held, key=lambda each: sum(pool[-1] for pool in held[each]), default=None)
    if event is None:
        return
    pools, reserved = held[event], known[event]
    locked = sum(each[-1] for each in pools)
    if locked < max(_LOST * reserved, WORTH):
        return
    suggestions = []
    # What one graph keeps may lie in what another has free, so all but the largest pool may go.
    sizes = [each[1] for each in pools]
    shared, typical = min(sum(sizes) - max(sizes), locked), int(median(np.array(sizes)))
    if shared:
        suggestions.append(
            Suggestion(
                "share-pool",
                "Let CUDA graphs that never run at the same time share a pool: pass the same one to"
                " each capture, the largest shape first. Read a graph's results before another one"
                f" runs. That saves at most {format_bytes(shared)} of what the pools reserve.",
                "pool = torch.cuda.graph_pool_handle()  # once, then for each graph:\n"
                "with torch.cuda.graph(graph, pool=pool): ...",
            )
        )
    whole = _whole_in_mempools(tables, device, event)
    if whole >= max(_LOST * reserved, WORTH) and len(pools) < _MANY_POOLS:
        suggestions.append(
            Suggestion(
                "release-pool",
                f"If this is a MemPool: {format_bytes(whole)} are in whole segments that nothing"
                " uses, and only go back to the driver when the pool goes. Delete its last tensor"
                " and the MemPool itself, or make what is soon freed outside of it.",
                "del tensors, pool; torch.cuda.empty_cache()",
            )
        )
    if len(pools) >= _MANY_POOLS:
        suggestions.append(
            Suggestion(
                "fewer-graphs",
                "If each pool belongs to a graph for one shape, capture fewer shapes, and pad input"
                f" to the next larger one: the median pool holds {format_bytes(typical)}.",
            )
        )
    several = f"{len(pools)} private pools" if len(pools) > 1 else "a private pool"
    moment = "at the peak" if event == device.peak.event else "at the end"
    unused = reserved - int(device.curves["active"][event + 1])
    rest = "" if unused == locked else f" {format_bytes(locked)} of it"
    yield Finding(
        "locked-pool",
        "warning" if shared >= _LOST_MUCH * reserved and len(pools) >= _MANY_POOLS else "note",
        f"{format_bytes(unused)} of {format_bytes(reserved)} reserved are not in use {moment},"
        f"{rest or ' all of it'} in {several}",
        "A private pool belongs to a CUDA graph or a MemPool; nothing else may use what is free in"
        " it. A replayed graph uses its memory without recording events, so part of this may still"
        " be in use.",
        evidence=(
            Figure("inactive in private pools", locked),
            Figure("reserved", reserved),
            Figure("private pools", len(pools), "count"),
            Figure("at event", event, "event"),
        ),
        tables=(
            top_table(
                "Private pools",
                {"pool": "text", "reserved": "bytes", "active": "bytes", "inactive": "bytes"},
                pools,
            ),
        ),
        suggestions=tuple(suggestions),
        view=View("allocator", event=event),
        bytes=locked,
    )


def _whole_in_mempools(tables: History, device: DeviceFigures, event: int) -> int:
    """Add up the wholly unused segments of pools that may be a MemPool's, after an event."""
    heap = heap_at(tables, device, event)
    holes = find_holes(heap)
    mine = [pool for pool, (first, second) in enumerate(tables.pools) if second and not first]
    inside = is_among(heap.pool, mine)[holes.segment]
    return int(whole_bytes(heap, holes)[inside].sum())


def _pinned_rounding(tables: History, device: DeviceFigures) -> Iterator[Finding]:
    """Say what rounding to powers of two costs, or may cost where only rounded sizes are known."""
    rows, peak = device.history.allocations, device.peak
    limit = recorded_settings(tables.settings, "host").pinned_limit
    size, block = rows.size, rows.block_size
    live = rows.live_at(peak.event)
    rounds = (
        "PyTorch's allocator of pinned memory rounds every request up to a power of two, so that"
        " blocks can be used again."
    )
    if (size == block).all():
        whole = (block & (block - 1)) == 0
        most = int(((block // 2 - 1)[live & (block <= limit)]).sum())
        if len(rows) < _SEVERAL or not whole.all() or most < _PINNED_WORTH:
            return
        yield Finding(
            "pinned-rounding",
            "note",
            f"Up to {format_bytes(most)} of the {format_bytes(peak.allocated)} at the peak may be"
            " rounding: all sizes are powers of two",
            f"{rounds} This recording has only the sizes of blocks, not what was asked for. All are"
            " powers of two, so up to half of this memory may never have been asked for.",
            evidence=(
                Figure("rounding at the peak, at most", most),
                Figure("allocated at the peak", peak.allocated),
            ),
            view=View(event=peak.event),
            bytes=most,
        )
        return
    lost = int((block - size)[live].sum())
    if lost < max(_SLACK * peak.allocated, _PINNED_WORTH):
        return
    large = (size > _PINNED_WORTH) & (size <= limit)
    left, _ = peak_without(
        device.curves["allocated"],
        (block - size)[large],
        rows.alloc_event[large],
        rows.ends("allocated")[large],
    )
    suggestions = []
    if left < peak.allocated:
        suggestions.append(
            Suggestion(
                "allocator-setting",
                "Do not round pinned memory above 1 MiB, where your PyTorch has this setting:"
                f" {format_bytes(peak.allocated - left)} less at the peak. A freed block then only"
                " serves requests of its own size, which suits programs that ask for the same sizes"
                " again and again.",
                "export PYTORCH_ALLOC_CONF=pinned_max_round_threshold_mb:1",
                frees=Frees.exactly(peak.allocated - left),
            )
        )
    yield Finding(
        "pinned-rounding",
        "warning" if lost >= _SLACK_MUCH * peak.allocated else "note",
        f"{format_bytes(lost)} of the {format_bytes(peak.allocated)} at the peak are rounding:"
        f" {format_bytes(peak.requested)} were asked for",
        rounds,
        evidence=(
            Figure("rounding at the peak", lost),
            Figure("share of the peak", round(lost / peak.allocated, 4), "share"),
            Figure("at event", peak.event, "event"),
        ),
        suggestions=tuple(suggestions),
        view=View(event=peak.event),
        bytes=lost,
    )


def _slack(tables: History, device: DeviceFigures) -> Iterator[Finding]:
    found = find_slack(tables, device)
    peak = device.peak.allocated
    if found.total < max(_SLACK * peak, WORTH):
        return
    suggestions = []
    if found.unsplit >= _SLACK * peak and not is_expandable(tables, device):
        suggestions.append(
            Suggestion(
                "allocator-setting",
                "Switch on expandable segments: they split every block, so none is handed out"
                f" larger than rounding makes it. {format_bytes(found.unsplit)} at the peak come"
                " from blocks that were not split.",
                EXPANDABLE,
                frees=Frees.exactly(found.unsplit),
            )
        )
    if found.divided >= _SLACK * peak:
        suggestions.append(
            Suggestion(
                "allocator-setting",
                "Round less: leave roundup_power2_divisions out, or give it a larger number. At the"
                f" peak it adds {format_bytes(found.divided)} to blocks, beyond the usual rounding"
                " to 512 bytes.",
                "roundup_power2_divisions",
                frees=Frees.exactly(found.divided),
            )
        )
    columns = (found.lower, 2 * found.lower, found.count, found.requested, found.slack)
    order = np.argsort(-found.slack, kind="stable")
    at_least = "At least " if device.peak.allocated_width else ""
    yield Finding(
        "slack",
        "warning" if found.total >= _SLACK_MUCH * peak else "note",
        f"{at_least}{format_bytes(found.total)} of the peak was never asked for: blocks are larger"
        " than their requests",
        "The allocator rounds sizes up. It also hands out a free block whole when little of it"
        " would be left (at most 1 MiB). Tensors hold this memory, the slack, without using it.",
        evidence=(
            Figure("slack at the peak", found.total),
            Figure("share of the peak", round(found.total / peak, 4), "share"),
            Figure(
                "blocks handed out whole", found.unsplit, meaning="the part of the slack in these"
            ),
            Figure(
                "by roundup_power2_divisions",
                found.divided,
                meaning="the part of the slack that it added",
            ),
            Figure("at event", device.peak.event, "event"),
        ),
        tables=(
            top_table(
                "By the size that was asked for",
                {
                    "from": "bytes",
                    "below": "bytes",
                    "allocations": "count",
                    "requested": "bytes",
                    "slack": "bytes",
                },
                [tuple(row) for row in np.column_stack(columns)[order].tolist()],
            ),
        ),
        suggestions=tuple(suggestions),
        view=View("allocator", event=device.peak.event),
        bytes=found.total,
    )
