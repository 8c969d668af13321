"""Memory lost in the allocator: fragmentation, unused segments, private pools, slack, rounding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.finding_tables import tell_of_kept, top_table
from snapreport.diagnosis.given_back import find_given_back
from snapreport.diagnosis.oom.settings import (
    EXPANDABLE,
    WORTH,
    expandable_may_help,
    is_expandable,
)
from snapreport.figures.segments import (
    Heap,
    allocator_of,
    find_holes,
    heap_at,
    returnable_bytes,
    whole_bytes,
)
from snapreport.ground.native.columns import (
    distinct,
    is_among,
    median,
    sum_groups,
    unique,
)
from snapreport.ground.records import dataclass
from snapreport.ground.units import format_bytes
from snapreport.history.allocator_settings import SMALL_SEGMENT, UNLIMITED, recorded_settings
from snapreport.history.block_sizes import round_sizes
from snapreport.model.diagnoses import Figure, Finding, Frees, Suggestion, View
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import History
from snapreport.model.snapshot import NO_ID, pool_name
from snapreport.roles.steps import allocated_outline, find_iterations

_LOST, _LOST_MUCH = 0.05, 0.2
"""Fragments from this part of reserved memory on are worth a note, and from the second a warning.
Programs whose tensor sizes vary little stay below the first."""
_UNUSED = 0.1
"""Unused segments from this part of reserved memory on are worth a note: some are always kept."""
_SLACK, _SLACK_MUCH = 0.02, 0.1
"""Slack from this part of the allocated peak on is worth a note, and from the second a warning.
Rounding to 512 bytes alone costs far less."""


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


# Fragmentation, and segments that nothing uses.


@dataclass(frozen=True)
class Tightest:
    """The state when reserved memory last rose to a new maximum.

    Nothing that was free then could serve the request.
    """

    event: int
    """The event of the allocation for which it rose; the allocated peak's if it never rose."""
    grew: bool
    """Whether it rose in the recording, for a request of the large pool."""
    reserved: int
    active: int
    pieces: int
    """Inactive bytes in segments partly in use, of the request's pool, stream and kind; of all
    pools, streams and kinds if reserved memory never rose."""
    whole: int
    """Bytes in wholly unused segments of the same pool, stream and kind."""
    elsewhere: int
    """Inactive bytes of other pools, streams and kinds."""
    beyond: int
    """The reserved peak minus the active peak: the most that better packing could save."""
    private: bool = False
    """Whether the request was for a private pool."""

    @property
    def lost(self) -> int:
        """What fragments cost: no more than better packing could save."""
        return min(self.pieces, self.beyond)


def find_tightest(tables: History, device: DeviceFigures) -> Tightest | None:
    """Return the state when reserved memory reached its maximum; None where it is not known.

    Reserved memory only grows when no cached block serves a request, so what is free just then is
    what the allocator could not use. Segments of the small pool are left out: they have 2 MiB, and
    free memory of other pools may not serve them.
    """
    if "reserved" not in device.peaks or device.peak.inactive is None:
        return None
    beyond = int(device.curves["reserved"].max()) - int(device.curves["active"].max())
    event = _raised_for(device)
    if event is None:
        pieces = device.peak.fragmentation or 0
        return Tightest(
            event=device.peak.event,
            grew=False,
            reserved=device.peak.reserved or 0,
            active=device.peak.active,
            pieces=pieces,
            whole=device.peak.inactive - pieces,
            elsewhere=0,
            beyond=max(beyond, 0),
        )
    heap = heap_at(tables, device, event)
    same = _served_like(device, heap, event)
    if not len(same):  # the new allocation lies in no segment: events are missing
        return None
    free = heap.size - heap.used
    return Tightest(
        event=event,
        grew=True,
        reserved=int(device.curves["reserved"][event + 1]),
        active=int(device.curves["active"][event + 1]),
        pieces=int(free[same & (heap.used > 0)].sum()),
        whole=int(free[same & (heap.used == 0)].sum()),
        elsewhere=int(free[~same].sum()),
        beyond=max(beyond, 0),
        private=bool(heap.private[same].any()),
    )


def served_like(device: DeviceFigures, heap: Heap, found: Tightest) -> NDArray[np.bool_] | None:
    """Say in which segments ``found.pieces`` are; bool, shape (n_segments,), None for all.

    Args:
        heap: at that event.
        found: from ``find_tightest``.
    """
    return _served_like(device, heap, found.event) if found.grew else None


def _served_like(device: DeviceFigures, heap: Heap, event: int) -> NDArray[np.bool_]:
    """Say which segments could serve the event's allocation; empty if no segment holds it."""
    mine = heap.segment[device.history.allocations.alloc_event[heap.row] == event]
    same = np.ones(len(heap.address) if len(mine) else 0, np.bool_)
    for column in (heap.pool, heap.stream, heap.kind) if len(mine) else ():
        same &= column == column[mine[0]]
    return same


def _raised_for(device: DeviceFigures) -> int | None:
    """Return the event of the allocation whose large segment last set a reserved maximum."""
    events, reserved = device.reserved_events, device.reserved_bytes
    if len(events) < 2:
        return None
    record = np.append(False, reserved[1:] > np.maximum.accumulate(reserved)[:-1])
    record &= np.diff(reserved, prepend=reserved[0]) > SMALL_SEGMENT
    if not record.any():
        return None
    made = device.history.allocations.alloc_event
    # The segment comes first, in several parts if expandable, then what it is for.
    after = made[made > int(events[record][-1])]
    return int(after.min()) if len(after) else None


def _fragmentation(tables: History, device: DeviceFigures, tightest: Tightest) -> Iterator[Finding]:
    lost = tightest.lost
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
        "warning" if tightest.grew and share >= _LOST_MUCH else "note",
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


_ENOUGH = 4
"""With at least this many steps, the second half of them is a fair sample of those to come."""


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


# Private pools.


_MANY_POOLS = 3
"""From this many private pools on, it is likely that each belongs to a graph for one shape."""


def _locked(tables: History, device: DeviceFigures) -> Iterator[Finding]:
    if not tables.private.any():
        return
    # Graphs captured after the peak hold more, so the end counts as well.
    events = sorted({device.peak.event, device.history.events - 1})
    known = {each: size for each in events if (size := device.curves.reserved_at(each)) is not None}
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


def find_private_pools(
    tables: History, device: DeviceFigures, event: int
) -> list[tuple[str, int, int, int]]:
    """Return what private pools hold after an event, the one with most inactive bytes first.

    Args:
        event: -1 for the start.

    Returns:
        of each its name, as ``1,0 (CUDA graph)``, and its reserved, active and inactive bytes.
    """
    heap = heap_at(tables, device, event)
    pools = []
    for pool in unique(heap.pool[heap.private & (heap.pool != NO_ID)]).tolist():
        inside = heap.pool == pool
        reserved, active = int(heap.size[inside].sum()), int(heap.used[inside].sum())
        pools.append((pool_name(tables.pools[pool]), reserved, active, reserved - active))
    return sorted(pools, key=lambda each: -each[-1])


def _whole_in_mempools(tables: History, device: DeviceFigures, event: int) -> int:
    """Add up the wholly unused segments of pools that may be a MemPool's, after an event."""
    heap = heap_at(tables, device, event)
    holes = find_holes(heap)
    mine = [pool for pool, (first, second) in enumerate(tables.pools) if second and not first]
    inside = is_among(heap.pool, mine)[holes.segment]
    return int(whole_bytes(heap, holes)[inside].sum())


# Slack, and what rounding of pinned memory costs.


@dataclass(frozen=True, eq=False)
class Slack:
    """Block bytes beyond what was asked for, over what is live at the allocated peak."""

    total: int
    unsplit: int
    """The part that is there because a larger free block was handed out whole."""
    divided: int
    """The part that ``roundup_power2_divisions`` added."""
    lower: NDArray[np.int64]
    """The least bytes of each class of requested sizes: a power of two; int64, shape (n,)."""
    count: NDArray[np.int64]
    """Allocations in each class; ``requested`` and ``slack`` are their bytes, per class."""
    requested: NDArray[np.int64]
    slack: NDArray[np.int64]


def find_slack(tables: History, device: DeviceFigures) -> Slack:
    """Split the slack at the allocated peak by the size that was asked for, and by its cause."""
    history, rows = device.history, device.history.allocations
    live = rows.live_at(device.peak.event)
    size, block = rows.size[live], rows.block_size[live]
    rules = recorded_settings(tables.settings, history.device.kind)
    rounded = np.minimum(round_sizes(size, rules), block)
    unset = replace(rules, roundup_power2_divisions=(), pinned_max_round_threshold=UNLIMITED)
    plain = np.minimum(round_sizes(size, replace(unset, pinned_max_cached_size=UNLIMITED)), block)
    power = np.frexp(np.maximum(size, 1).astype(np.float64))[1] - 1
    classes, place = distinct(power)
    requested = sum_groups(place, size, len(classes))
    slack = sum_groups(place, block - size, len(classes))
    return Slack(
        total=int((block - size).sum()),
        unsplit=int((block - rounded).sum()),
        divided=int((rounded - plain).sum()),
        lower=np.left_shift(np.int64(1), classes.astype(np.int64)),
        count=np.bincount(place, minlength=len(classes)).astype(np.int64),
        requested=requested,
        slack=slack,
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


_PINNED_WORTH = 1 << 20
_SEVERAL = 4
"""From this many allocations on, it is no accident that the sizes of all are powers of two."""


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
    left, _ = allocated_outline(device.history).peak_without(
        ((block - size)[large], rows.alloc_event[large], rows.ends("allocated")[large])
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
