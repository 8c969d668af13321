"""What each change would free in this recording: at the peak, or where a request failed.

At the peak the figure is how far the peak falls, exactly, when the memory in question is taken
away. Where a request failed it is the memory in question that was live then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from snapreport.diagnosis.oom.failed_request import Request
from snapreport.diagnosis.oom.saving_types import Change, Saving
from snapreport.diagnosis.oom.verdict_types import OomVerdict
from snapreport.figures.curves import live_at, peak_without
from snapreport.figures.heap import LARGE_GRANULE, SMALL_GRANULE, Heap, heap_at
from snapreport.frames.categories import category_of_stack, shows_training
from snapreport.history.block_sizes import SMALL_SIZE, SplitRules, round_sizes, split_rules
from snapreport.model.findings import MISSING_REASONS, DeviceFigures
from snapreport.model.history import START, History
from snapreport.model.stacks import NO_STACK
from snapreport.model.what_if import WhatIf
from snapreport.native.sorting import is_among, unique

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WORTH = 0.05
"""A change that frees less than this part of the peak, or of the request, is not worth the work."""
_CHECKPOINT = re.compile(r"torch[/\\]utils[/\\]checkpoint\.py$")
_SPLIT_SIZES = tuple(size << 20 for size in (512, 256, 128, 64, 32))
"""For ``max_split_size_mb``: large ones first, as they cost least. PyTorch wants more than 20."""
_DIVISIONS = 8
"""For ``roundup_power2_divisions``: at most an eighth is lost."""
_MANY_SIZES = 16
"""So many different sizes, and at most half as many once rounded, are the case for rounding."""
_HALF = 0.5


def find_peak_savings(
    tables: History, device: DeviceFigures, by_site: Sequence[WhatIf]
) -> tuple[Saving, ...]:
    """Return what would lower the allocated peak, that which lowers it most first.

    Args:
        tables: the file.
        device: the device's figures.
        by_site: the peak without each call site, the lowest first.
    """
    history, curve = device.history, device.curves["allocated"]
    rows, top = history.allocations, int(curve.max(initial=0))
    event = int(curve.argmax()) - 1
    worth = _WORTH * top

    def lowered(chosen: NDArray[np.bool_], share: float) -> tuple[int, int]:
        """How far the peak falls, and where it is then."""
        gone = (rows.block_size[chosen] * share).astype(np.int64)
        rest, where = peak_without(
            curve, gone, rows.alloc_event[chosen], rows.free_requested_event[chosen]
        )
        return top - rest, where

    known = [each for each in by_site if each.name not in MISSING_REASONS]
    found = [
        Saving(
            "site", each.falls, about=each.name, peak=each.peak_bytes, peak_event=each.peak_event
        )
        for each in known[:1]
    ]
    made = np.flatnonzero((rows.alloc_event == event) & (event > START))
    phase = device.categories[int(device.category[made[0]])].name if len(made) else ""
    live = live_at(history, event, "allocated")
    for change, chosen, share in _of_program(tables, device, phase):
        if change == "gradients":  # they are needed in backward: what is at the peak could be gone
            most = min(int(rows.block_size[chosen & live].sum()), lowered(chosen, share)[0])
            found.append(Saving(change, None, most))
            continue
        falls, where = lowered(chosen, share)
        found.append(Saving(change, None, falls, peak=top - falls, peak_event=where))
    return _in_order(each for each in found if _bytes(each) >= worth)


def find_oom_savings(
    tables: History, device: DeviceFigures, verdict: OomVerdict, stack: int
) -> tuple[Saving, ...]:
    """Return what would have freed memory for a request that failed, the most first.

    Args:
        tables: the file.
        device: the device's figures.
        verdict: about the request.
        stack: the request's call stack, or NO_STACK.
    """
    history = device.history
    live = live_at(history, verdict.event, "allocated")
    size = history.allocations.block_size
    phase = category_of_stack(tables.stacks, stack) if stack != NO_STACK else ""
    found = [
        Saving(change, None, int(size[chosen & live].sum() * share))
        for change, chosen, share in _of_program(tables, device, phase)
    ]
    found += _of_allocator(tables, device, verdict)
    worth = max(_WORTH * verdict.missing, 1)
    return _in_order(
        _judged(each, verdict) for each in found if _bytes(each) >= worth and verdict.missing > 0
    )


def _judged(saving: Saving, verdict: OomVerdict) -> Saving:
    enough = _bytes(saving) >= verdict.missing
    return Saving(saving.change, saving.frees, saving.most, enough, saving.about)


def _bytes(saving: Saving) -> int:
    return max(saving.frees or 0, saving.most or 0)


def _in_order(found: Iterable[Saving]) -> tuple[Saving, ...]:
    return tuple(sorted(found, key=lambda each: -_bytes(each)))


def _of_program(
    tables: History, device: DeviceFigures, phase: str
) -> Iterator[tuple[Change, NDArray[np.bool_], float]]:
    """Yield changes to the program: the allocations that each concerns, and the share it frees.

    Args:
        tables: the file.
        device: the device's figures.
        phase: the category of what was asked for at the moment in question.
    """
    names = [category.name for category in device.categories]

    def of(*wanted: str) -> NDArray[np.bool_]:
        places = [i for i, name in enumerate(names) if name in wanted]
        return is_among(device.category, places)

    activations = of("activation")
    if shows_training(tables.stacks):
        if not any(map(_CHECKPOINT.search, tables.stacks.frames.filenames)):
            yield "checkpointing", activations, 1.0
        yield "batch", activations | of("input"), _HALF
        if phase == "activation":
            yield "gradients", of("gradient", "backward"), 1.0
        yield "foreach", of("optimizer"), 1.0
    else:
        yield "inference", activations, 1.0


def _of_allocator(tables: History, device: DeviceFigures, verdict: OomVerdict) -> Iterator[Saving]:
    """Yield changes to the allocator's settings and use, where they would have been enough."""
    if verdict.pending:
        yield Saving("record-stream", verdict.pending)
    if verdict.pool != "default":
        back = sum(each.returnable for each in verdict.pools)
        if back >= verdict.missing:
            yield Saving("return-cache", back)
    elif verdict.locked:
        yield Saving("private-pools", None, verdict.locked)
    short = verdict.missing - verdict.returnable
    if verdict.expandable or verdict.pieces < short:
        return
    in_pages = _from_pages(verdict)
    if in_pages >= short:
        yield Saving("expandable", None, in_pages)
    rules = split_rules(tables.settings)
    heap = heap_at(tables, device, verdict.event)
    request = Request(verdict.size, verdict.stream, rules)
    if rules.max_split_size == SplitRules().max_split_size:
        limit, kept = _best_split(heap, request)
        if kept >= short:
            yield Saving("max-split", None, kept, about=str(limit >> 20))
    if not rules.divisions:
        most = _from_rounding(device, heap, request, verdict.pieces)
        if most >= short:
            yield Saving("roundup", None, most)


def _from_pages(verdict: OomVerdict) -> int:
    """Return what would be free at the most if blocks lay side by side in pages.

    Of the last page of each kind a part stays unused, and so it does behind the request.
    """
    own = [
        each for each in verdict.pools if (each.pool, each.stream) == (verdict.pool, verdict.stream)
    ]
    free = -verdict.returnable
    for kind, page in (("small", SMALL_GRANULE), ("large", LARGE_GRANULE)):
        used = sum(each.allocated + each.pending for each in own if each.kind == kind)
        asked = verdict.size if (verdict.size > SMALL_SIZE) == (kind == "large") else 0
        pages = -(-(used + asked) // page) * page - asked
        free += sum(each.reserved for each in own if each.kind == kind) - pages
    # From here on to the request itself: the driver gives pages, not segments of its size.
    return min(free + verdict.needed - verdict.size, verdict.pieces)


def _best_split(heap: Heap, request: Request) -> tuple[int, int]:
    """Return the split limit that would have kept most segments whole, and the bytes in those.

    A segment at least as large as the limit serves no smaller request; so one that smaller blocks
    alone keep from being free would have been free.
    """
    n = len(heap.size)
    used, largest = np.zeros(n, np.int64), np.zeros(n, np.int64)
    np.add.at(used, heap.segment, heap.bytes)
    np.maximum.at(largest, heap.segment, heap.bytes)
    own = request.sources(heap) & ~heap.expandable & (used > 0)
    best = (_SPLIT_SIZES[0], 0)
    for limit in _SPLIT_SIZES:
        kept = own & (heap.size >= limit) & (largest < limit)
        free = int((heap.size - used)[kept].sum())
        if free > best[1]:
            best = (limit, free)
    return best


def _from_rounding(device: DeviceFigures, heap: Heap, request: Request, pieces: int) -> int:
    """Return what rounding could free at the most, 0 where sizes do not vary enough for it."""
    rows = device.history.allocations
    sizes = rows.size[(rows.size > SMALL_SIZE) & (rows.stream == request.stream)]
    rounded = SplitRules(divisions=(_DIVISIONS,) * 16)
    distinct = unique(sizes)
    if len(distinct) < _MANY_SIZES:
        return 0
    if 2 * len(unique(round_sizes(distinct, rounded))) > len(distinct):
        return 0
    mine = (heap.stream == request.stream)[heap.segment]
    live = heap.row[mine]
    needed = np.maximum(round_sizes(rows.size[live], rounded), heap.bytes[mine])
    return max(pieces - int((needed - heap.bytes[mine]).sum()), 0)
