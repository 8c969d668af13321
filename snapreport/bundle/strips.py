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
    paths = _Paths(rows, history.events)
    for step in sampled_steps(history, columns).tolist():
        paths.advance(step)
    timesteps, offsets = paths.finish()
    return Strips(timesteps, offsets, rows.size.tolist())


class _Paths:
    """Walks over the sampled steps and collects the points where offsets change."""

    def __init__(self, rows: Allocations, events: int) -> None:
        self._rows = rows
        self._end = max(events, 1)  # where strips that are never freed end: wide enough to see
        self._free = np.where(rows.free_step >= events, self._end, rows.free_step)
        self._born = 0  # rows come in birth order: those below this have been born
        self._live = np.empty(0, np.int64)
        self._step = -1
        self._offset = _birth_offsets(rows)
        self._pointed = np.maximum(rows.alloc_step, 0)  # the step of each row's latest point
        deaths = np.argsort(self._free, kind="stable")
        self._deaths = deaths
        self._death_steps = self._free[deaths]
        self._points: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]] = []
        everyone = np.arange(len(rows), dtype=np.int64)
        self._add(everyone, self._pointed, self._offset)

    def _add(
        self, rows: NDArray[np.int64], steps: NDArray[np.int64], offsets: NDArray[np.int64]
    ) -> None:
        self._points.append((rows, steps.copy(), offsets.copy()))

    def advance(self, step: int) -> None:
        """Move to a later sampled step."""
        rows = self._rows
        self._bury(step)
        born = int(np.searchsorted(rows.alloc_step, step, side="right"))
        live = np.concatenate([self._live, np.arange(self._born, born)])
        self._live = live = live[self._free[live] > step]
        self._born = born
        sizes = rows.size[live]
        offsets = np.cumsum(sizes) - sizes
        changed = offsets != self._offset[live]
        moved = live[changed]
        if len(moved):
            # Hold the old offset up to the previous sample, then run to the new one.
            held = moved[self._pointed[moved] < self._step]
            self._add(held, np.full(len(held), self._step), self._offset[held])
            self._add(moved, np.full(len(moved), step), offsets[changed])
            self._offset[moved] = offsets[changed]
            self._pointed[moved] = step
        self._step = step

    def _bury(self, step: int) -> None:
        """Give each row freed since the previous sample its last point, with the exact offset."""
        low, high = np.searchsorted(self._death_steps, [self._step, step], side="right")
        dead = np.sort(self._deaths[low:high])
        if not len(dead):
            return
        free, offset = self._free[dead], self._offset[dead]
        since = np.maximum(self._rows.alloc_step[dead], self._step)
        # What lay below row j and was freed after j's offset was taken, before j itself.
        below = (
            (dead[:, None] < dead[None, :])
            & (free[:, None] > since[None, :])
            & (free[:, None] < free[None, :])
        )
        offset = offset - (below * self._rows.size[dead][:, None]).sum(axis=0)
        held = self._pointed[dead] < np.minimum(self._step, free)
        held &= offset != self._offset[dead]
        self._add(dead[held], np.full(int(held.sum()), self._step), self._offset[dead[held]])
        self._add(dead, free, offset)

    def finish(self) -> tuple[list[list[int]], list[list[int]]]:
        """Close what is still live and return each row's steps and offsets."""
        if self._step < self._end - 1:
            self.advance(self._end - 1)  # the last step is always exact
        left = np.flatnonzero(self._free >= self._end)
        self._add(left, np.full(len(left), self._end), self._offset[left])
        row, step, offset = (np.concatenate(part) for part in zip(*self._points, strict=True))
        # Stable: points of one row at one step stay in the order in which they were made.
        order = np.lexsort((step, row))
        cuts = np.searchsorted(row[order], np.arange(len(self._rows) + 1)).tolist()
        steps, offsets = step[order].tolist(), offset[order].tolist()
        spans = list(itertools.pairwise(cuts))
        return [steps[a:b] for a, b in spans], [offsets[a:b] for a, b in spans]


def _birth_offsets(rows: Allocations) -> NDArray[np.int64]:
    """Return what is requested just before each birth: a newcomer goes on top."""
    order = np.argsort(rows.free_step, kind="stable")
    freed = np.concatenate([[0], np.cumsum(rows.size[order])])
    gone = freed[np.searchsorted(rows.free_step[order], rows.alloc_step, side="right")]
    below: NDArray[np.int64] = np.cumsum(rows.size) - rows.size - gone
    return below
