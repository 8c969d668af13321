"""Charts in characters: the events of each column, bars of memory, axes, and stages below them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from snapreport.commands.explorer.lines import Cell, Line, Run, fit, width_of
from snapreport.ground.units import format_bytes, format_count, format_duration
from snapreport.model.findings import StageUse
from snapreport.model.snapshot import NO_TIME

# Positions of events along the timeline: evenly, or by time. The page has the same rules.


_MARGIN = 0.008
"""Room before the start and after the last event, as a share of the recording."""


class EventScale:
    """One unit per event; the start covers -1 to 0.

    The state after an event covers the range from its own x to the next event's.
    """

    def __init__(self, events: int) -> None:
        """Take the number of events."""
        self.events = events
        self.whole = (-1.0, float(max(events, 1)))

    def x_of(self, event: int) -> float:
        """Return the x at which an event begins; -1 is the start, ``events`` the end."""
        return float(event)

    def spans(self, edges: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the events that begin in each column; if none does, the one still in effect.

        Args:
            edges: of columns; float64, shape (m + 1,), ascending.

        Returns:
            twice int64, shape (m,): ``first <= event < end``, never empty; -1 is the start.
        """
        begins = np.ceil(edges).astype(np.int64)
        some = begins[1:] > begins[:-1]
        first = np.where(some, begins[:-1], np.floor(edges[:-1]).astype(np.int64))
        first = np.clip(first, -1, self.events - 1)
        return first, np.maximum(np.minimum(begins[1:], self.events), first + 1)


class TimeScale:
    """One unit per microsecond since the first event, otherwise like ``EventScale``.

    If the clock steps back, x stays at the latest time so far.
    """

    def __init__(self, times: NDArray[np.int64]) -> None:
        """Take each event's time, NO_TIME where unknown; int64, shape (events,), one known."""
        self.events = len(times)
        known = np.where(times == NO_TIME, np.iinfo(np.int64).min, times)
        held = np.maximum.accumulate(known)
        first = int(times[(times != NO_TIME).argmax()])
        self._edges = np.maximum(held - first, 0)
        last = float(self._edges[-1])
        margin = max(last * _MARGIN, 1.0)
        self.whole = (-margin, last + margin)

    def x_of(self, event: int) -> float:
        """Return the event's time."""
        if event < 0:
            return self.whole[0]
        return self.whole[1] if event >= self.events else float(self._edges[event])

    def spans(self, edges: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the events of each column, and the one whose state lasts into it."""
        at = np.searchsorted(self._edges, edges[:-1], side="left").astype(np.int64)
        begins = np.append(self._edges, np.iinfo(np.int64).max)[at] == edges[:-1]
        first = np.clip(np.where(begins, at, at - 1), -1, self.events - 1)
        end = np.searchsorted(self._edges, edges[1:], side="left").astype(np.int64)
        return first, np.maximum(end, first + 1)


Scale = EventScale | TimeScale


# The most of a curve in each column, as bars: eighths of blocks for allocated, dots for reserved.


class Heights:
    """Answers which is the most of a curve over spans, in a bounded number of steps for each.

    Within a span whole blocks of the curve are known already, so that a span of a long recording
    takes about as long as one of a short recording.
    """

    BLOCK = 1024

    def __init__(self, values: NDArray[np.int64]) -> None:
        """Take a curve; int64, shape (n,), n > 0."""
        self.values = values
        self._blocks = np.maximum.reduceat(values, np.arange(0, len(values), self.BLOCK))

    def most(self, low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the most of each span ``low <= place < high``, none empty; int64, shape (m,)."""
        spans = zip(low.tolist(), high.tolist(), strict=True)
        return np.array([self._most(first, end) for first, end in spans], np.int64)

    def first(self, low: int, high: int) -> int:
        """Return the first place of a span that has its most."""
        most = self._most(low, high)
        for block in range(low // self.BLOCK, len(self._blocks)):
            begin = max(block * self.BLOCK, low)
            end = min((block + 1) * self.BLOCK, high)
            if self._blocks[block] >= most and (self.values[begin:end] == most).any():
                return begin + int(self.values[begin:end].argmax())
        raise AssertionError("the most of a span is somewhere in it")

    def _most(self, low: int, high: int) -> int:
        begin, end = -(-low // self.BLOCK), high // self.BLOCK
        if end <= begin:
            return int(self.values[low:high].max())
        parts = (
            self.values[low : begin * self.BLOCK],
            self._blocks[begin:end],
            self.values[end * self.BLOCK : high],
        )
        return max(int(part.max()) for part in parts if len(part))


class Bars(NamedTuple):
    """The columns of a chart, in bytes; int64, shape (m,), -1 for columns without data."""

    allocated: NDArray[np.int64]
    requested: NDArray[np.int64]
    reserved: NDArray[np.int64] | None


def bars_of(
    curves: Mapping[str, Heights], spans: tuple[NDArray[np.int64], NDArray[np.int64]]
) -> Bars:
    """Return the most of each curve in columns with these events."""
    first, end = spans
    found = {name: each.most(first + 1, end + 1) for name, each in curves.items()}
    return Bars(found["allocated"], found["requested"], found.get("reserved"))


BLOCKS = " ▁▂▃▄▅▆▇█"
DOTS = "⣀⠤⠒⠉"
"""A line of dots at each quarter of a cell, from the bottom."""


def levels(values: NDArray[np.int64], low: int, high: int, steps: int) -> NDArray[np.int64]:
    """Return how many of ``steps`` each value fills between two bounds.

    Any value above ``low`` fills at least one step, and only one of at least ``high`` fills all.
    """
    span = max(high - low, 1)
    above = np.clip(values - low, 0, span)
    rounded = np.rint(above * (steps / span)).astype(np.int64)
    rounded = np.where(above > 0, np.maximum(rounded, 1), 0)
    return np.where(values >= high, steps, np.minimum(rounded, steps - 1))


def chart(bars: Bars, rows: int, low: int, high: int) -> list[list[Cell]]:
    """Draw columns as cells, the top row first.

    Args:
        bars: the columns.
        rows: the chart's height.
        low, high: bytes at its bottom and its top.
    """
    held = levels(bars.allocated, low, high, rows * 8).tolist()
    asked = levels(bars.requested, low, high, rows * 8).tolist()
    dots = [-1] * len(held)
    if bars.reserved is not None:
        line = levels(bars.reserved, low, high, rows * 4)
        dots = np.where((bars.reserved > low) & (bars.reserved <= high), line - 1, -1).tolist()
    return [
        [
            _cell(filled - 8 * row, wanted - 8 * row, DOTS[dot % 4] if dot // 4 == row else "")
            for filled, wanted, dot in zip(held, asked, dots, strict=True)
        ]
        for row in range(rows - 1, -1, -1)
    ]


def _cell(filled: int, wanted: int, dots: str) -> Cell:
    """Return one cell, from its eighths of allocated and requested memory, or else its dots."""
    if filled >= 8:
        if 0 < wanted < 8:
            return BLOCKS[wanted], "bar.both"
        return ("█", "bar") if wanted > 0 else ("▒", "slack")
    if filled > 0:
        return BLOCKS[filled], "bar" if wanted * 2 >= filled else "slack"
    if wanted > 0:  # freed, but another stream may still use it
        return ("░" if wanted >= 8 else BLOCKS[wanted]), "pending"
    return (dots, "reserved") if dots else (" ", "")


def with_cursor(runs: tuple[Run, ...], column: int) -> tuple[Run, ...]:
    """Return a row of cells with the cursor in one of its columns."""
    done, at = [], 0
    for text, role in runs:
        place = column - at
        at += len(text)
        if not 0 <= place < len(text):
            done.append(Run(text, role))
            continue
        letter = text[place] if text[place] in BLOCKS[1:] and role != "pending" else "│"
        parts = (text[:place], role), (letter, "bar.cursor"), (text[place + 1 :], role)
        done += [Run(*part) for part in parts if part[0]]
    return tuple(done)


# The axes.


def grid(rows: int, low: int, high: int) -> dict[int, str]:
    """Return labels of the y axis by row from the top: round amounts, about one in four rows."""
    height = max(high - low, 1)
    least = -(-height // max(min(rows // 4, 8), 1))
    step = 1 << (least - 1).bit_length()
    return {
        min((high - amount) * rows // height, rows - 1): format_bytes(amount)
        for amount in range(-(-low // step) * step, high + 1, step)
    }


def ticks(axis: str, window: tuple[float, float], width: int) -> tuple[Line, Line]:
    """Return the line of the x axis, and round numbers of events or times below it.

    Labels that do not fit are left out.

    Args:
        axis: ``events`` or ``time``.
        window: its two ends.
        width: columns of the chart.
    """
    x0, x1 = window
    sizes = (factor * 10.0**power for power in count() for factor in (1, 2, 5))
    step = next(size for size in sizes if (x1 - x0) / size <= max(width // 14, 1))
    line, text = ["─"] * width, [" "] * width
    free = 0
    for k in range(math.ceil(max(x0, 0) / step), math.floor(x1 / step) + 1):
        column = math.floor((k * step - x0) / (x1 - x0) * width)
        x = k * step
        label = format_count(x) if axis == "events" else format_duration(round(x))
        begin = min(max(column - len(label) // 2, 0), width - len(label))
        if 0 <= column < width and begin >= free:
            line[column] = "┴"
            text[begin : begin + len(label)] = label
            free = begin + len(label) + 2
    return Line((Run("".join(line), "axis"),)), Line((Run("".join(text), "dim"),))


# Stages as bands below a chart, a row for each depth.


_MOST_ROWS = 5
"""Deeper stages share the last row, the innermost in front, as on the page."""


def stage_bands(
    stages: Sequence[StageUse], scale: Scale, window: tuple[float, float], width: int
) -> list[list[Cell]]:
    """Return the visible stages as rows of cells.

    Args:
        stages: the device's.
        scale: of the axis.
        window: its two ends.
        width: columns of the chart.
    """
    x0, x1 = window
    depth = min(max((stage.depth for stage in stages), default=-1) + 1, _MOST_ROWS)
    rows: list[list[Cell]] = [[(" ", "")] * width for _ in range(depth)]
    for number, stage in sorted(enumerate(stages), key=lambda each: (each[1].depth, each[0])):
        begin = scale.x_of(stage.start_event)
        end = scale.x_of(max(stage.end_event, stage.start_event))
        left = math.floor((max(begin, x0) - x0) / (x1 - x0) * width)
        right = math.ceil((min(end, x1) - x0) / (x1 - x0) * width)
        right = min(max(right, left + 1), width)
        if end < x0 or begin >= x1 or left >= right:
            continue
        role = f"stage{number % 3}"
        row = rows[min(stage.depth, depth - 1)]
        wide = right - left  # a name cannot be read in two columns
        text = fit(f"▏{stage.name}" if wide > 2 else "▏", wide)
        if width_of(text) == len(text):
            row[left:right] = [(letter, role) for letter in text]
        else:  # letters that are two columns wide
            row[left:right] = [("▏", role), *[(" ", role)] * (wide - 1)]
    return rows
