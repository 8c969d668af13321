"""Allocations as drawable strips: the rows of ``allocations.json``.

A strip lies on those that were born before it and are still live, so its offset falls whenever
one of them is freed. Exact paths would grow with frees times live allocations; so a trace of more
than EXACT_UP_TO steps is sampled, at one step in each of COLUMNS columns of steps, or of fewer
where so much is live at once that even these would be large.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from snapreport.model.history import Allocations, DeviceHistory

if TYPE_CHECKING:
    from numpy.typing import NDArray

EXACT_UP_TO = 4096
COLUMNS = 384
FEWEST_COLUMNS = 16
_LIVE_SAMPLES = 2_000_000
_LIVE_SAMPLES_EACH = 8
"""Live strips in all samples, and for each allocation: what is more is sampled more coarsely."""

RULE = (
    f"Strips of requested bytes in birth order. Traces of up to {EXACT_UP_TO} steps are exact at"
    f" every step. Longer ones are divided into {COLUMNS} columns of steps, or fewer if very much"
    " is live at once (strips_columns), and sampled at the step in each at which most is requested;"
    " every birth and death, and the last step, are exact as well. Between its points a strip runs"
    " straight."
)


def count_columns(history: DeviceHistory) -> int:
    """Return into how many columns of steps the rule of the manifest divides a trace."""
    events, rows = history.events, history.allocations
    if events <= EXACT_UP_TO:
        return events
    freed = rows.free_step < events
    # What lies below all that is ever freed never moves.
    moving = slice(int(freed.argmax()) if freed.any() else len(rows), None)
    lives = rows.free_step[moving] - np.maximum(rows.alloc_step[moving], 0)
    at_once = max(int(lives.sum()) // events, 1)
    samples = max(_LIVE_SAMPLES, _LIVE_SAMPLES_EACH * len(rows))
    return min(max(samples // at_once, FEWEST_COLUMNS), COLUMNS)


def sampled_steps(history: DeviceHistory, columns: int | None = None) -> NDArray[np.int64]:
    """Return the steps at which every live strip is exact; int64, ascending."""
    events = history.events
    if columns is None:
        columns = count_columns(history)
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


def with_last_step(history: DeviceHistory, steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Add the last step, which is always exact, to those that are sampled."""
    last = max(history.events, 1) - 1
    return steps if len(steps) and steps[-1] >= last else np.append(steps, last)


def lay_strips(history: DeviceHistory, steps: NDArray[np.int64]) -> Iterator[list[Strip]]:
    """Lay out every allocation of a device, some rows at a time.

    Args:
        history: the device.
        steps: where to sample: ``sampled_steps`` of this history or of a like one.
    """
    rows = history.allocations
    end = max(history.events, 1)  # where strips that are never freed end: wide enough to see
    free = np.where(rows.free_step >= history.events, end, rows.free_step)
    steps = with_last_step(history, steps)
    paths = _Paths(rows, free)
    paths.walk(steps, np.searchsorted(rows.alloc_step, steps, side="right"))
    row, step, offset = (np.concatenate(part) for part in zip(*paths.points, strict=True))
    del paths
    # Each row's points were made in order; stable sorting keeps it. Up to 16 bits that is quick.
    few = len(rows) <= np.iinfo(np.uint16).max
    order = np.argsort(row.astype(np.uint16) if few else row, kind="stable")
    step, offset = step[order], offset[order]
    cuts = np.searchsorted(row[order], np.arange(len(rows) + 1))
    low = 0
    while low < len(rows):
        full = int(np.searchsorted(cuts, cuts[low] + POINTS_AT_ONCE, side="right")) - 1
        high = max(full, low + 1)
        spans = itertools.pairwise(cuts[low : high + 1].tolist())
        sizes = rows.size[low:high].tolist()
        yield [(size, step[a:b], offset[a:b]) for size, (a, b) in zip(sizes, spans, strict=True)]
        low = high


Strip = tuple[int, "NDArray[np.int64]", "NDArray[np.int64]"]
"""Its size, timesteps and offsets."""

_Points = tuple["NDArray[np.int64]", "NDArray[np.int64]", "NDArray[np.int64]"]
"""Rows, steps and offsets, each of shape (n,)."""

POINTS_AT_ONCE = 1 << 14
"""How many points are handed out at a time, if no row has more."""

_CELLS = 1 << 15
"""Samples times rows that are looked at together: few enough for the processor's cache."""


class _Paths:
    """Walks over the sampled steps, a block of them at a time, and collects points.

    Points are births, deaths, and where the offset is another than at the sample before; of one
    row they come in the order of their steps.
    """

    def __init__(self, rows: Allocations, free: NDArray[np.int64]) -> None:
        self._size, self._free = rows.size, free
        self._begin = np.maximum(rows.alloc_step, 0)
        self._end_offset = _death_offsets(rows.size, free)
        self._offset = _birth_offsets(rows)  # at each row's latest point
        self._turned = np.zeros(len(rows), np.bool_)  # whether that is at the latest sample
        self._live = np.empty(0, np.int64)
        self._rows = np.arange(len(rows), dtype=np.int64)
        self.points: list[_Points] = [(self._rows, self._begin, self._offset.copy())]

    def walk(self, steps: NDArray[np.int64], born: NDArray[np.int64]) -> None:
        """Go over all samples.

        Args:
            steps: int64, ascending, shape (n,), where to sample.
            born: rows below this have been born by then, shape (n,).
        """
        at = np.concatenate(([-1], steps))
        born = np.concatenate(([0], born))
        low = 1
        while low < len(at):
            cells = np.arange(1, len(at) - low + 1) * (len(self._live) + born[low:] - born[low - 1])
            high = low + max(int(np.searchsorted(cells, _CELLS)), 1)
            newborn = self._rows[born[low - 1] : born[high - 1]]
            rows = np.concatenate((self._live, newborn))
            self._block(rows, at[low - 1 : high], born[low:high])
            low = high
        self._bury(self._live)

    def _block(
        self, rows: NDArray[np.int64], at: NDArray[np.int64], born: NDArray[np.int64]
    ) -> None:
        """Go over some samples.

        Args:
            rows: what is live at the sample before, or born since.
            at: the steps of the sample before and of these.
            born: rows below this have been born by each of these.
        """
        free, width = self._free[rows], len(rows)
        live = (rows < born[:, None]) & (free > at[1:, None])  # samples down, rows across
        sizes = np.where(live, self._size[rows], 0)
        # What each row has at the sample before and at this one, beside one another.
        offset = np.empty((len(born), 2, width), np.int64)
        np.subtract(sizes.cumsum(axis=1), sizes, out=offset[:, 1])
        offset[0, 0] = self._offset[rows]
        offset[1:, 0] = np.where(live[:-1], offset[:-1, 1], offset[0, 0])
        point = np.empty((len(born), 2, width), np.bool_)
        moved = np.logical_and(live, offset[:, 0] != offset[:, 1], out=point[:, 1])
        # Where there is no point at the sample before: hold the old offset up to there.
        held = np.logical_and(moved, self._begin[rows] < at[:-1, None], out=point[:, 0])
        held[0] &= ~self._turned[rows]
        held[1:] &= ~moved[:-1]
        places = np.flatnonzero(point)
        down, across = np.divmod(places, width)
        self.points.append((rows[across], at[(down + 1) >> 1], offset.reshape(-1)[places]))

        # The state at the last sample at which each row was live, if there was one.
        last = np.searchsorted(at[1:], free) - 1
        seen = (last >= 0) & (rows < born[last])
        which = np.flatnonzero(seen)
        self._offset[rows[seen]] = offset[last[seen], 1, which]
        self._turned[rows[seen]] = moved[last[seen], which]
        gone = free <= at[-1]
        self._bury(rows[gone], np.where(seen, at[last + 1], at[0])[gone])
        self._live = rows[~gone]

    def _bury(self, dead: NDArray[np.int64], sampled: NDArray[np.int64] | None = None) -> None:
        """Give rows their last point.

        Args:
            dead: the rows.
            sampled: the last sample at which each was live; None for those that live on.
        """
        if sampled is not None:
            offset = self._offset[dead]
            held = ~self._turned[dead] & (self._begin[dead] < sampled)
            held &= offset != self._end_offset[dead]
            self.points.append((dead[held], sampled[held], offset[held]))
        self.points.append((dead, self._free[dead], self._end_offset[dead]))


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
    # Last freed first; of those that are freed at once, older first.
    order = np.argsort(-free, kind="stable")
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
