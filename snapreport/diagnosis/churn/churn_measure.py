"""Measure memory that is reallocated, short-lived, held too long or waiting for a stream."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.block_room import freed_by
from snapreport.figures.callsites import label_sites
from snapreport.frames.missing_stacks import HAS_FRAMES
from snapreport.model.diagnoses import Frees
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import History
from snapreport.model.snapshot import NO_TIME
from snapreport.native.sorting import distinct, is_among, median, stable_order, sum_groups
from snapreport.native.sweeps import sum_live
from snapreport.roles.repeating_step import OPTIMIZER_STEP, find_iterations

AT_ONCE = 8
"""The most events between a free and an allocation made again at once: the free's own two events,
and those of one or two other tensors."""
SHORT = 0.02
"""Memory is short-lived if it lives for at most this part of a step (without steps: of the
recording): a few operations."""
_SHORT_EVENTS = 8
"""Lives of up to this many events always count as short: a single operation may take as many."""
_NEEDED = ("parameter", "gradient", "backward", "optimizer", "optimizer state")
"""Categories that an optimizer step uses. Gradients made by the autograd engine's threads have only
the category of the backward pass."""


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


@dataclass(frozen=True, eq=False)
class HeldThrough:
    """Memory live throughout an optimizer step that the optimizer does not use."""

    rows: NDArray[np.int64]
    """The allocations; int64."""
    most: int
    """Block bytes at most live through one optimizer step."""
    event: int
    """The first event of that optimizer step."""
    stages: int
    """Optimizer steps looked at."""
    frees: Frees
    """How far the peak would fall had they been freed as the optimizer step began."""


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


def find_remade(tables: History, device: DeviceFigures) -> NDArray[np.int64]:
    """Return the allocations made just after one of the same call site and size was freed."""
    rows = device.history.allocations
    made = np.flatnonzero(rows.alloc_event >= 0)  # in birth order
    sizes, size = distinct(rows.size[made])
    key = label_sites(device.history, tables.stacks)[0][made] * len(sizes) + size
    order = stable_order(key)
    made, key = made[order], key[order]
    wait = rows.alloc_event[made[1:]] - rows.free_requested_event[made[:-1]]
    again = (key[1:] == key[:-1]) & (wait > 0) & (wait <= AT_ONCE)
    return np.sort(made[1:][again])


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
    falls = freed_by(tables, history, same, rows.alloc_event[same]).expected
    return Transients(live, int(rows.block_size[live].sum()), longest, falls)


def find_held_through(tables: History, device: DeviceFigures) -> HeldThrough | None:
    """Find memory live all through an optimizer step that does not need it; None without a step.

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
        return None
    needed = [i for i, each in enumerate(device.categories) if each.name in _NEEDED]
    start, end = stages.start_event[optimizer], stages.end_event[optimizer]
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    candidates = np.flatnonzero(
        (rows.alloc_event >= 0)
        & (rows.free_requested_event < history.events)
        & ~is_among(device.category, needed)
        & (device.missing == HAS_FRAMES)  # without frames it may be a gradient
    )
    # Is each allocation still live when the first optimizer step after it ends?
    place = np.searchsorted(start, rows.alloc_event[candidates], side="right")
    there = place < len(start)
    candidates, place = candidates[there], place[there]
    through = rows.free_requested_event[candidates] >= end[place]
    chosen, place = candidates[through], place[through]
    held = sum_groups(place, rows.block_size[chosen], len(start))
    most = int(held.argmax())
    return HeldThrough(
        rows=chosen,
        most=int(held[most]),
        event=int(start[most]),
        stages=len(start),
        frees=freed_by(tables, history, chosen, start[place]),
    )


def find_pending(device: DeviceFigures) -> Pending:
    """Find the memory whose free waited for another stream."""
    history, rows = device.history, device.history.allocations
    # Where nothing waited, the two events of a free follow each other.
    waited = np.flatnonzero(rows.free_event > rows.free_requested_event + 1)
    events = rows.free_event[waited] - rows.free_requested_event[waited]
    curve: NDArray[np.int64] = sum_live(
        rows.block_size[waited],
        rows.free_requested_event[waited],
        rows.free_event[waited],
        history.events,
    )
    most = int(curve.argmax())
    active = device.curves["active"]
    return Pending(
        rows=waited,
        most=int(curve[most]),
        event=most - 1,
        peak_falls=int(active.max()) - int((active - curve).max()),
        byte_events=rows.block_size[waited] * events,
        longest=int(events.max(initial=0)),
    )
