"""Memory that is reallocated, short-lived, held too long or waiting for a stream."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.block_room import freed_by
from snapreport.diagnosis.finding_tables import site_table, top_table
from snapreport.figures.callsites import label_sites
from snapreport.ground.native.columns import (
    distinct,
    median,
    stable_order,
    sum_groups,
    sum_live,
)
from snapreport.ground.records import dataclass
from snapreport.ground.units import format_bytes, format_count, rounded_share
from snapreport.model.diagnoses import Figure, Finding, Frees, Suggestion, Table, View
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import START, History
from snapreport.model.snapshot import NO_TIME
from snapreport.roles.stack_kinds import HAS_FRAMES
from snapreport.roles.steps import OPTIMIZER_STEP, allocated_outline, find_iterations

MIB = 1 << 20


def find_churn(tables: History, device: DeviceFigures) -> Iterator[Finding]:
    """Yield the findings about a device's churn."""
    if not device.recorded:
        return
    yield from _remade(tables, device)
    yield from _transients(tables, device)
    yield from _held_through(tables, device)
    yield from _pending(tables, device)


# Made again at once.


AT_ONCE = 8
"""The most events between a free and an allocation made again at once: the free's own two events,
and those of one or two other tensors."""
_OFTEN, _SHARE = 200, 0.1
"""Allocations made again at once are worth a note if there are at least so many, and this part of
all allocations: fewer cost no time that anyone would notice."""


def _remade(tables: History, device: DeviceFigures) -> Iterator[Finding]:
    """Find the allocations made just after one of the same call site and size was freed."""
    rows = device.history.allocations
    made = np.flatnonzero(rows.alloc_event >= 0)  # in birth order
    sizes, size = distinct(rows.size[made])
    key = label_sites(device.history, tables.stacks)[0][made] * len(sizes) + size
    order = stable_order(key)
    made, key = made[order], key[order]
    wait = rows.alloc_event[made[1:]] - rows.free_requested_event[made[:-1]]
    again = (key[1:] == key[:-1]) & (wait > 0) & (wait <= AT_ONCE)
    found, made_in_all = np.sort(made[1:][again]), device.sizes.made
    count = len(found)
    if count < _OFTEN or count < _SHARE * made_in_all:
        return
    share = count / made_in_all
    one = int(rows.alloc_event[found[count // 2]])
    turned_over = int(rows.block_size[found].sum())
    yield Finding(
        "churn",
        "note",
        f"{format_count(count)} allocations ({rounded_share(share)}) were made just after one like"
        " them was freed",
        "The same line freed a tensor and at once made another of the same size. The allocator"
        " reuses the memory, so none is lost. But each allocation costs a little time on the CPU:"
        " many of them show where many small operations run one after the other.",
        evidence=(
            Figure("made again at once", count, "count"),
            Figure("share of allocations", round(share, 4), "share"),
            Figure("bytes turned over", turned_over, meaning="their blocks, added up"),
            Figure("allocations in the recording", made_in_all, "count"),
        ),
        tables=(site_table(tables, device.history, found, "Who made them", heading="in all"),),
        view=View("events", event=one),  # the list of events shows the free just before it
    )


# Short-lived at the peak.


SHORT = 0.02
"""Memory is short-lived if it lives for at most this part of a step (without steps: of the
recording): a few operations."""
_SHORT_EVENTS = 8
"""Lives of up to this many events always count as short: a single operation may take as many."""
_TRANSIENT = 0.2
"""Short-lived memory is worth a note if it is this part of the peak, and the peak would fall by
this part without it: below that there is more to gain elsewhere."""


@dataclass(frozen=True, eq=False)
class Transients:
    """Short-lived memory at the peak."""

    rows: NDArray[np.int64]
    """The allocations live at the peak; int64."""
    bytes: int
    """Their block bytes."""
    longest: int
    """The most events for which memory may live and count as short-lived."""
    peak_falls: int
    """How far the peak falls without any short-lived allocation of their call sites."""


def find_transients(tables: History, device: DeviceFigures) -> Transients:
    """Find the short-lived allocations that are live at the allocated peak."""
    history, rows = device.history, device.history.allocations
    turns = find_iterations(device.history, tables)
    span = history.events if turns is None else int(median(np.diff(turns.bounds)))
    longest = max(int(SHORT * span), _SHORT_EVENTS)
    life = rows.free_requested_event - rows.alloc_event
    short = (rows.alloc_event >= 0) & (life <= longest)
    short &= rows.free_requested_event < history.events
    live = np.flatnonzero(short & rows.live_at(device.peak.event))
    key, names = label_sites(history, tables.stacks)
    there = np.zeros(len(names), np.bool_)
    there[key[live]] = True
    same = np.flatnonzero(short & there[key])
    lives = rows.alloc_event[same], rows.free_requested_event[same]
    without, _ = allocated_outline(history).peak_without((rows.block_size[same], *lives))
    falls = device.peaks["allocated"].bytes - without
    return Transients(live, int(rows.block_size[live].sum()), longest, falls)


def _transients(tables: History, device: DeviceFigures) -> Iterator[Finding]:
    peak = device.peak.allocated
    found = find_transients(tables, device)
    if min(found.bytes, found.peak_falls) < max(_TRANSIENT * peak, MIB):
        return
    yield Finding(
        "transient-peak",
        "note",
        f"{format_bytes(found.bytes)} of the {format_bytes(peak)} at the peak is short-lived",
        f"At the peak {rounded_share(found.bytes, peak)} of what is allocated is freed within"
        f" {format_count(found.longest)} events of its allocation. Without the short-lived memory"
        f" of these call sites the peak would be {format_bytes(found.peak_falls)} lower.",
        evidence=(
            Figure("short-lived at the peak", found.bytes),
            Figure("share of the peak", round(found.bytes / peak, 4), "share"),
            Figure("allocations", len(found.rows), "count"),
            Figure(
                "live for at most", found.longest, "event", "events from its allocation to its free"
            ),
            Figure("peak falls by", found.peak_falls, meaning="added up again without them"),
            Figure("peak at event", device.peak.event, "event"),
        ),
        tables=(site_table(tables, device.history, found.rows, "Short-lived at the peak"),),
        suggestions=(
            Suggestion(
                "ask-for-less",
                "Do these operations in parts (chunks of the batch or the vocabulary), or use fused"
                " or in-place ones: less of their temporary memory is then live at once. If they"
                f" needed none, the peak would be {format_bytes(found.peak_falls)} lower.",
            ),
        ),
        view=View("stacks", event=device.peak.event, curve="allocated"),
        bytes=found.peak_falls,
    )


# Held through an optimizer step.


_NEEDED = ("parameter", "gradient", "backward", "optimizer", "optimizer state")
"""Categories that an optimizer step uses. Gradients made by the autograd engine's threads have only
the category of the backward pass."""
_HELD, _HELD_COSTS = 0.05, 0.1
"""Memory held through an optimizer step is worth a note from this part of the peak on, and a
warning if the peak would fall by the second part without it."""


def _held_through(tables: History, device: DeviceFigures) -> Iterator[Finding]:
    """Find memory live all through an optimizer step that does not need it.

    Only memory freed later in the recording counts: the rest may be kept on purpose.
    """
    history, rows, stages = device.history, device.history.allocations, device.history.stages
    optimizer = [
        i
        for i, name in enumerate(stages.name)
        if OPTIMIZER_STEP.match(name)
        and stages.start_time_us[i] != NO_TIME
        and stages.end_time_us[i] != NO_TIME
        and 0 <= stages.start_event[i] < stages.end_event[i] <= history.events
    ]
    if not optimizer:
        return
    needed = np.array([each.name in _NEEDED for each in device.categories], np.bool_)
    start, end = stages.start_event[optimizer], stages.end_event[optimizer]
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    candidates = np.flatnonzero(
        (rows.free_requested_event < history.events)
        & ~needed[device.category]
        & (device.missing == HAS_FRAMES)  # without frames it may be a gradient
    )
    candidates = candidates[np.searchsorted(candidates, rows.made.start) :]
    # Is each allocation still live when the first optimizer step after it ends?
    place = np.searchsorted(start, rows.alloc_event[candidates], side="right")
    there = place < len(start)
    candidates, place = candidates[there], place[there]
    through = rows.free_requested_event[candidates] >= end[place]
    chosen, place = candidates[through], place[through]
    held = sum_groups(place, rows.block_size[chosen], len(start))
    most, event, peak = int(held.max()), int(start[held.argmax()]), device.peak.allocated
    if most < max(_HELD * peak, MIB):
        return
    # Had they been freed as the optimizer step began.
    frees = freed_by(tables, history, chosen, start[place])
    costs = frees.expected >= max(_HELD_COSTS * peak, MIB)
    yield Finding(
        "held-across-stages",
        "warning" if costs else "note",
        f"{format_bytes(most)} made before an optimizer step stays live all through it",
        "An optimizer needs parameters, gradients and its own state. As far as its call stacks"
        " show, this memory is none of these, and it is freed only after the optimizer step. It may"
        " be the loss, the model's outputs or the batch, held by a variable."
        + (
            f" Without it the peak would be {format_bytes(frees.expected)} lower."
            if frees.expected
            else " It does not raise the peak."
        ),
        evidence=(
            Figure("held through an optimizer step", most, meaning="the most of any such step"),
            Figure("that optimizer step, from event", event, "event"),
            Figure("optimizer steps", len(start), "count"),
            Figure("peak falls by", frees.expected, meaning="added up again without it"),
        ),
        tables=(site_table(tables, device.history, chosen, "What was held, over all steps"),),
        suggestions=(
            Suggestion(
                "free-earlier",
                "Delete these variables after loss.backward() and before optimizer.step(). The"
                f" peak would be {format_bytes(frees.expected)} lower, added up again without"
                " them.",
                "del outputs, loss",
                frees=frees,
            ),
        )
        if costs
        else (),
        view=View("live", event=event),
        bytes=most,
    )


# Freed, and waiting for another stream.


_PENDING, _PENDING_COSTS = 0.02, 0.25
"""The same for memory waiting for another stream, as parts of the active peak. Some waiting is the
price of working on two streams at once."""


@dataclass(frozen=True, eq=False)
class Pending:
    """Freed memory that waits for another stream."""

    rows: NDArray[np.int64]
    """The allocations that waited; int64."""
    most: int
    """Block bytes that waited at once, at most."""
    event: int
    """When that was first."""
    peak_falls: int
    """How far the active peak would fall had nothing waited."""
    byte_events: NDArray[np.int64]
    """For each of ``rows``, its block bytes times the events that it waited; int64."""
    longest: int
    """The most events that one waited."""


def find_pending(device: DeviceFigures) -> Pending:
    """Find the memory whose free waited for another stream."""
    history, rows = device.history, device.history.allocations
    # Where nothing waited, the two events of a free follow each other.
    waited = np.flatnonzero(rows.free_event > rows.free_requested_event + 1)
    if not len(waited):
        return Pending(waited, 0, START, 0, waited, 0)
    events = rows.free_event[waited] - rows.free_requested_event[waited]
    curve: NDArray[np.int64] = sum_live(
        rows.block_size[waited],
        rows.free_requested_event[waited],
        rows.free_event[waited],
        history.events,
    )
    most = int(curve.argmax())
    active, peak = device.curves["active"], device.peaks["active"].bytes
    return Pending(
        rows=waited,
        most=int(curve[most]),
        event=most - 1,
        peak_falls=peak - int((active - curve).max()) if curve[most] else 0,
        byte_events=rows.block_size[waited] * events,
        longest=int(events.max(initial=0)),
    )


def _pending(tables: History, device: DeviceFigures) -> Iterator[Finding]:
    found = find_pending(device)
    active = device.peaks["active"].bytes
    if found.most < max(_PENDING * active, MIB):
        return
    yield Finding(
        "pending-free",
        "warning" if found.peak_falls >= max(_PENDING_COSTS * active, MIB) else "note",
        f"Up to {format_bytes(found.most)} of freed memory waited for another stream",
        "Memory that was used on another stream (record_stream()) cannot be used again until that"
        " stream is done with it. Until then it counts as active, though the program has freed it."
        f" {format_count(len(found.rows))} allocations waited, the longest for"
        f" {format_count(found.longest)} events.",
        evidence=(
            Figure("waiting at most", found.most),
            Figure("at event", found.event, "event"),
            Figure("active peak falls by", found.peak_falls, meaning="had nothing waited"),
            Figure("allocations that waited", len(found.rows), "count"),
            Figure(
                "longest wait", found.longest, "count", "events from the free to its completion"
            ),
        ),
        tables=(
            site_table(tables, device.history, found.rows, "Whose memory waited", heading="in all"),
            _streams(device, found.rows, found.byte_events),
        ),
        suggestions=(
            Suggestion(
                "wait-for-stream",
                "Let the stream that made the memory wait for the other one"
                " (stream.wait_stream(other)) before the tensors are dropped, instead of calling"
                " record_stream(): then they are free at once. The active peak would be"
                f" {format_bytes(found.peak_falls)} lower, added up again without what waits.",
                "torch.cuda.current_stream().wait_stream(other)",
                frees=Frees.exactly(found.peak_falls),
            ),
        )
        if found.peak_falls
        else (),
        view=View("allocator", event=found.event),  # other views leave out what only waits
        bytes=found.most,
    )


def _streams(device: DeviceFigures, rows: np.ndarray, byte_events: np.ndarray) -> Table:
    """Add up the waiting memory by the stream that allocated it."""
    allocations = device.history.allocations
    streams, place = distinct(allocations.stream[rows])
    held, waited = np.zeros((2, len(streams)), np.int64)
    np.add.at(held, place, allocations.block_size[rows])
    np.add.at(waited, place, byte_events)
    columns = zip(streams.tolist(), held.tolist(), waited.tolist(), strict=True)
    return top_table(
        "By the stream that made it",
        {"stream": "text", "in all": "bytes", "bytes times events": "count"},
        [
            (hex(stream) if stream else "default", size, wait)
            for stream, size, wait in sorted(columns, key=lambda each: -each[-1])
        ],
    )
