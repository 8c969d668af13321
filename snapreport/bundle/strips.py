"""Allocations as drawable strips: the rows of ``allocations.json``.

A strip lies on those that were born before it and are still live, so its offset falls whenever
one of them is freed. Exact paths would grow with frees times live allocations; so a trace of more
than EXACT_UP_TO steps is sampled, at one step in each of COLUMNS columns of steps.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from snapreport.model.history import Allocations, DeviceHistory

if TYPE_CHECKING:
    from numpy.typing import NDArray

EXACT_UP_TO = 4096
COLUMNS = 512

RULE = (
    f"Strips of requested bytes in birth order. Traces of up to {EXACT_UP_TO} steps are exact at"
    f" every step. Longer ones are divided into {COLUMNS} columns of steps and sampled at the step"
    " in each at which most is requested; every birth and death, and the last step, are exact as"
    " well. Between its points a strip runs straight."
)


@dataclass(frozen=True)
class Strips:
    """One path for each allocation; row i is allocation i of the device."""

    timesteps: list[list[int]]
    offsets: list[list[int]]
    size: list[int]


def sampled_steps(history: DeviceHistory, columns: int | None = None) -> NDArray[np.int64]:
    """Return the steps at which every live strip is exact; int64, ascending."""
    events = history.events
    if columns is None:
        columns = EXACT_UP_TO if events <= EXACT_UP_TO else COLUMNS
    if events <= columns:
        return np.arange(events, dtype=np.int64)
    rows = history.allocations
    deltas = np.zeros(events + 2, np.int64)
    np.add.at(deltas, rows.alloc_step + 1, rows.size)
    np.add.at(deltas, rows.free_step + 1, -rows.size)
    curve = np.cumsum(deltas)[1 : events + 1]
    edges = np.arange(columns + 1, dtype=np.int64) * events // columns
    return np.array(
        [
            low + int(curve[low:high].argmax())
            for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        ],
        np.int64,
    )


def make_strips(history: DeviceHistory, columns: int | None = None) -> Strips:
    """Lay out every allocation of a device.

    Args:
        history: the device.
        columns: the most steps to sample; None for the rule that the manifest states.
    """
    rows = history.allocations
    end = max(history.events, 1)  # where strips that are never freed end: wide enough to see
    free = np.where(rows.free_step >= history.events, end, rows.free_step)
    steps = sampled_steps(history, columns)
    if not len(steps) or steps[-1] < end - 1:
        steps = np.append(steps, end - 1)  # the last step is always exact
    points = _points(rows, free, steps)
    row, step, offset = (np.concatenate(part) for part in zip(*points, strict=True))
    # Each row's points were made in order; stable sorting keeps it. Up to 16 bits that is quick.
    few = len(rows) <= np.iinfo(np.uint16).max
    order = np.argsort(row.astype(np.uint16) if few else row, kind="stable")
    cuts = np.searchsorted(row[order], np.arange(len(rows) + 1)).tolist()
    timesteps, offsets = step[order].tolist(), offset[order].tolist()
    spans = list(itertools.pairwise(cuts))
    return Strips(
        [timesteps[a:b] for a, b in spans], [offsets[a:b] for a, b in spans], rows.size.tolist()
    )


_Points = tuple["NDArray[np.int64]", "NDArray[np.int64]", "NDArray[np.int64]"]
"""Rows, steps and offsets, each of shape (n,)."""


def _points(
    rows: Allocations, free: NDArray[np.int64], steps: NDArray[np.int64]
) -> list[_Points]:
    """Collect the points of all paths: births, where offsets change between samples, deaths."""
    ids = np.arange(len(rows), dtype=np.int64)
    born_at = np.maximum(rows.alloc_step, 0)
    birth, death = _birth_offsets(rows), _death_offsets(rows.size, free)
    found: list[_Points] = [(ids, born_at, birth)]
    # Rows come in birth order: those below this have been born at each sample.
    born = np.searchsorted(rows.alloc_step, steps, side="right").tolist()
    live = np.empty(0, np.int64)
    known, pointed = birth.copy(), born_at.copy()  # offset and step of each row's latest point
    before, born_before = -1, 0
    for step, born_now in zip(steps.tolist(), born, strict=True):
        if born_now > born_before:
            live = np.concatenate((live, ids[born_before:born_now]))
        until = free[live]
        gone = until <= step
        if gone.any():
            dead, live = live[gone], live[~gone]
            # Hold the old offset up to the previous sample, then run to the last one.
            held = dead[(pointed[dead] < before) & (death[dead] != known[dead])]
            if len(held):
                found.append((held, np.full(len(held), before), known[held]))
            found.append((dead, free[dead], death[dead]))
        sizes = rows.size[live]
        offsets = sizes.cumsum() - sizes
        changed = offsets != known[live]
        moved = live[changed]
        if len(moved):
            held = moved[pointed[moved] < before]
            found.append((held, np.full(len(held), before), known[held]))
            offsets = offsets[changed]
            found.append((moved, np.full(len(moved), step), offsets))
            known[moved] = offsets
            pointed[moved] = step
        before, born_before = step, born_now
    found.append((live, free[live], death[live]))
    return found


def _birth_offsets(rows: Allocations) -> NDArray[np.int64]:
    """Return what is requested just before each birth: a newcomer goes on top."""
    order = np.argsort(rows.free_step, kind="stable")
    freed = np.concatenate([[0], np.cumsum(rows.size[order])])
    gone = freed[np.searchsorted(rows.free_step[order], rows.alloc_step, side="right")]
    below: NDArray[np.int64] = np.cumsum(rows.size) - rows.size - gone
    return below


def _death_offsets(size: NDArray[np.int64], free: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what lies below each row just before it is freed: older rows freed no earlier.

    A sum over pairs, so rows are halved again and again: in each part the newer half counts
    what the older half has that is freed no earlier.
    """
    n = len(size)
    below = np.zeros(n, np.int64)
    order = np.argsort(-free, kind="stable")  # last freed first; of those freed at once, older first
    for bit in reversed(range(max(n - 1, 0).bit_length())):
        # Parts of 2 * half rows lie one after another, each in the order of its frees.
        half = 1 << bit
        newer = (order & half) != 0
        part = order >> (bit + 1)
        older_bytes = np.concatenate(([0], np.cumsum(np.where(newer, 0, size[order]))))
        before = older_bytes[part[newer] * (2 * half)]
        below[order[newer]] += older_bytes[1:][newer] - before
        # Only the last part can be short, so each half's place is known.
        place = part * half + np.where(newer, half + newer.cumsum(), (~newer).cumsum()) - 1
        halved = np.empty_like(order)
        halved[place] = order
        order = halved
    return below
