"""Lines of text for a screen, and what is drawn in them: charts, segments, axes and stages.

A line is runs with a role each, measured in terminal columns.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len, chop_cells, set_cell_size

from snapreport.figures.segments import Heap
from snapreport.ground.safe_text import visible
from snapreport.ground.units import format_bytes, format_count, format_duration
from snapreport.model.findings import StageUse
from snapreport.model.snapshot import NO_TIME
from snapreport.reporters.plain_text import cut_place, cut_site

_HEAT = (0.05, 0.2, 0.4, 0.7)
"""The shares from which a row has the next warmer colour."""


class Run(NamedTuple):
    """Text of one role; ``drawing.palette`` says what a role looks like."""

    text: str
    role: str = ""


@dataclass(frozen=True)
class Line:
    """One row of a screen."""

    runs: tuple[Run, ...] = ()
    mark: str = ""
    """How the entire row is marked: ``cursor``, ``match``, ``bar``, or ``""`` for none."""

    @property
    def text(self) -> str:
        """Its text, without roles."""
        return "".join(run.text for run in self.runs)

    def marked(self, mark: str) -> Line:
        """Return it with another mark."""
        return Line(self.runs, mark)


EMPTY = Line()


def ink(*parts: str | tuple[str, str], mark: str = "") -> Line:
    """Make a line of texts and of ``(text, role)``; control characters become visible."""
    runs = (Run(part) if isinstance(part, str) else Run(*part) for part in parts)
    return Line(tuple(Run(visible(text), role) for text, role in runs if text), mark)


def heat(share: float) -> str:
    """Return the role of a row with this share of the total: the more, the warmer."""
    return f"heat{sum(share >= least for least in _HEAT)}"


def width_of(text: str) -> int:
    """Return how many columns a text takes: a Chinese letter takes two."""
    return len(text) if text.isascii() else cell_len(text)


def fit(text: str, width: int, *, right: bool = False) -> str:
    """Return text of exactly ``width`` columns: cut with an ellipsis, or padded with spaces."""
    text = visible(text)
    wide = width_of(text)
    if wide > width:
        return clip(text, width)
    space = " " * (width - wide)
    return space + text if right else text + space


def clip(text: str, width: int) -> str:
    """Return text cut to exactly ``width`` columns, the last one an ellipsis."""
    if width <= 1:
        return "…"[:width]
    return set_cell_size(text, width - 1) + "…"


def fit_site(text: str, width: int) -> str:
    """Return ``function  file:line`` in exactly ``width`` columns: the function is kept."""
    return fit(cut_site(visible(text), max(width, 1)), width)


def fit_place(text: str, width: int) -> str:
    """Return a path in exactly ``width`` columns: its end is kept."""
    return fit(cut_place(visible(text), max(width, 1)), width)


def wrap(text: str, width: int, indent: str = "") -> list[str]:
    """Break a text into lines; control characters become visible."""
    lines = textwrap.wrap(
        visible(text),
        max(width, len(indent) + 8),
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )
    whole = (part for line in lines for part in (chop_cells(line, width) or [line]))
    return list(whole) or [indent.rstrip()]


def clipped(line: Line, width: int) -> Line:
    """Return a line of exactly ``width`` columns."""
    runs, left = [], width
    for text, role in line.runs:
        wide = width_of(text)
        if wide > left:
            runs.append(Run(clip(text, left), role))
            left = 0
            break
        runs.append(Run(text, role))
        left -= wide
    if left:
        runs.append(Run(" " * left))
    return Line(tuple(runs), line.mark)


def beside(one: Line, other: Line, width: int) -> Line:
    """Join two lines: the second at the right end, the first cut if both do not fit."""
    right = sum(width_of(run.text) for run in other.runs)
    room = max(width - right, 0)
    return clipped(Line(clipped(one, room).runs + other.runs, one.mark), width)


def columns(
    cells: Sequence[str], widths: Sequence[int], lefts: Iterable[int] = (), role: str = ""
) -> Line:
    """Return a row of a table: right-aligned, except the columns in ``lefts``."""
    lefts = set(lefts)
    parts = [
        fit(cell, wide, right=k not in lefts)
        for k, (cell, wide) in enumerate(zip(cells, widths, strict=True))
    ]
    return Line((Run("  ".join(parts), role),))


# A chart of memory in characters: eighths of blocks for allocated, dots for reserved memory.


BLOCKS = " ▁▂▃▄▅▆▇█"
DOTS = "⣀⠤⠒⠉"
"""A line of dots at each quarter of a cell, from the bottom."""

Cell = tuple[str, str]
"""A character and its role."""


@dataclass(frozen=True, eq=False)
class Bars:
    """The columns of a chart, in bytes; int64, shape (m,), -1 for columns without data."""

    allocated: NDArray[np.int64]
    requested: NDArray[np.int64]
    reserved: NDArray[np.int64] | None


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
    count = len(bars.allocated)
    held = levels(bars.allocated, low, high, rows * 8).tolist()
    asked = levels(bars.requested, low, high, rows * 8).tolist()
    dots = [-1] * count
    if bars.reserved is not None:
        line = levels(bars.reserved, low, high, rows * 4)
        dots = np.where((bars.reserved > low) & (bars.reserved <= high), line - 1, -1).tolist()
    cells: list[list[Cell]] = []
    for row in range(rows - 1, -1, -1):
        line_cells = []
        for column in range(count):
            dot = dots[column]
            mark = DOTS[dot % 4] if dot >= 0 and dot // 4 == row else ""
            line_cells.append(_cell(held[column] - 8 * row, asked[column] - 8 * row, mark))
        cells.append(line_cells)
    return cells


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


def in_line(cells: list[Cell]) -> tuple[Run, ...]:
    """Return cells as runs, one for neighbours with the same role."""
    return tuple(
        Run("".join(cell[0] for cell in group), role)
        for role, group in groupby(cells, key=lambda cell: cell[1])
    )


def grid(rows: int, low: int, high: int) -> dict[int, str]:
    """Return labels of the y axis by row from the top: round amounts, about one in four rows."""
    height = max(high - low, 1)
    least = -(-height // max(min(rows // 4, 8), 1))
    step = 1 << (least - 1).bit_length()
    return {
        min((high - amount) * rows // height, rows - 1): format_bytes(amount)
        for amount in range(-(-low // step) * step, high + 1, step)
    }


def ticks(labels: list[tuple[int, str]], width: int) -> tuple[Line, Line]:
    """Return the line of an axis and the labels below it; labels that do not fit are left out.

    Args:
        labels: columns and what to write under them, ascending.
        width: columns of the chart.
    """
    line = ["─"] * width
    text = [" "] * width
    free = 0
    for column, label in labels:
        begin = min(max(column - len(label) // 2, 0), width - len(label))
        if begin < free:
            continue
        line[column] = "┴"
        text[begin : begin + len(label)] = label
        free = begin + len(label) + 2
    return Line((Run("".join(line), "axis"),)), Line((Run("".join(text), "dim"),))


def tick_labels(axis: str, window: tuple[float, float], width: int) -> list[tuple[int, str]]:
    """Return round numbers of events or times in a window, each with its column.

    Args:
        axis: ``events`` or ``time``.
        window: its two ends.
        width: columns of the chart.
    """
    x0, x1 = window
    step = nice_step(x1 - x0, max(width // 14, 1))
    found = []
    for k in range(math.ceil(max(x0, 0) / step), math.floor(x1 / step) + 1):
        column = math.floor((k * step - x0) / (x1 - x0) * width)
        if 0 <= column < width:
            x = k * step
            label = format_count(x) if axis == "events" else format_duration(round(x))
            found.append((column, label))
    return found


def nice_step(span: float, most: int) -> float:
    """Return the least of 1, 2, 5, 10, ... that fits at most ``most`` times into a span."""
    step = 1.0
    while True:
        for factor in (1, 2, 5):
            if span / (step * factor) <= most:
                return step * factor
        step *= 10


# Segments as bars of cells: how much of each is allocated, awaits its free, or is inactive.


_ROWS = 30
"""Before zooming all segments together take at most about this many rows, or one row each."""
_LEAST_CELL = 512
_MOST_ROWS = 200_000
"""Rows of all bars: zooming in ends there."""


class Cells:
    """Bars of segments, in rows of ``width`` cells."""

    def __init__(self, heap: Heap, width: int, size: int) -> None:
        """``size``: bytes of a cell."""
        self.heap, self.width, self.bytes = heap, width, size
        self._rows = -(-heap.size // (width * size))
        self.segment: NDArray[np.int64] = np.repeat(np.arange(len(heap.size)), self._rows)
        """The segment of each row; int64, shape (n_rows,)."""
        self._first = np.cumsum(self._rows) - self._rows
        self._ends = heap.start + heap.bytes
        # Bytes in use, and bytes awaiting their free, before each block; the last is the total.
        self._used = np.concatenate([[0], np.cumsum(heap.bytes)])
        self._pending = np.concatenate([[0], np.cumsum(np.where(heap.pending, heap.bytes, 0))])

    def is_first(self, place: int) -> bool:
        """Say whether a row is the first of its segment."""
        return bool(self._first[self.segment[place]] == place)

    def place_of(self, segment: int, address: int) -> int:
        """Return the row that shows an address of a segment."""
        offset = address - int(self.heap.address[segment])
        return int(self._first[segment]) + offset // (self.width * self.bytes)

    def edges(self, place: int) -> NDArray[np.int64]:
        """Return the addresses at which the cells of a row begin, and the last one's end."""
        segment = int(self.segment[place])
        low = int(self.heap.address[segment])
        begin = low + (place - int(self._first[segment])) * self.width * self.bytes
        high = low + int(self.heap.size[segment])
        count = min(-(-(high - begin) // self.bytes), self.width)
        return np.minimum(begin + np.arange(count + 1, dtype=np.int64) * self.bytes, high)

    def amounts(self, place: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return how many bytes of each cell of a row are in use, and how many await their free."""
        edges = self.edges(place)
        whole = np.searchsorted(self._ends, edges, side="right")
        starts = np.append(self.heap.start, np.iinfo(np.int64).max)[whole]
        part = np.maximum(edges - starts, 0)  # of the block that contains an edge
        waits = np.append(self.heap.pending, False)[whole]
        used = self._used[whole] + part
        pending = self._pending[whole] + np.where(waits, part, 0)
        return np.diff(used), np.diff(pending)

    def row(self, place: int, block: int) -> tuple[Run, ...]:
        """Return a row's cells; those of one block are highlighted."""
        edges = self.edges(place)
        size = np.diff(edges)
        used, pending = self.amounts(place)
        low = high = -1
        if block >= 0:
            low, high = int(self.heap.start[block]), int(self._ends[block])
        cells = []
        for k in range(len(size)):
            letter, role = _segment_cell(int(used[k]), int(pending[k]), int(size[k]))
            if low < edges[k + 1] and edges[k] < high:
                role = "bar.cursor"
            cells.append((letter, role))
        return in_line(cells)


def _segment_cell(used: int, pending: int, size: int) -> Cell:
    """Return a cell, fuller the more is in use; only one entirely in use is full."""
    if not used:
        return "░", "inactive"
    role = "pending" if pending * 2 > used else "bar"
    if used == size:
        return ("▒" if role == "pending" else "█"), role
    return "▁▂▃▄▅▆▇"[min(used * 7 // size, 6)], role


def lay_segments(heap: Heap, width: int, zoom: int) -> Cells:
    """Lay out segments; ``zoom`` is how often a cell's bytes are halved, or doubled if negative."""
    total = int(heap.size.sum())
    size = _LEAST_CELL
    while total > size * width * _ROWS:
        size *= 2
    size = max(size >> zoom if zoom > 0 else size << -zoom, _LEAST_CELL)
    while total // (size * width) > _MOST_ROWS:
        size *= 2
    return Cells(heap, width, size)


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
        self._edges = np.maximum(held - first, 0) if len(held) else held
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
        first = np.where(begins, at, at - 1)
        first = np.clip(first, -1, self.events - 1)
        end = np.searchsorted(self._edges, edges[1:], side="left").astype(np.int64)
        return first, np.maximum(end, first + 1)


Scale = EventScale | TimeScale


def scale_of(axis: str, times: NDArray[np.int64]) -> Scale:
    """Return the scale of an axis, ``events`` or ``time``."""
    return TimeScale(times) if axis == "time" else EventScale(len(times))


def has_times(times: NDArray[np.int64]) -> bool:
    """Say whether a recording has times."""
    return bool((times != NO_TIME).any())


# Stages as bands below a chart, a row for each depth.


_NARROW = 2
"""Columns in which a name cannot be read."""
MOST_ROWS = 5
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
    depth = min(max((stage.depth for stage in stages), default=-1) + 1, MOST_ROWS)
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
        wide = right - left
        text = fit(f"▏{stage.name}", wide) if wide > _NARROW else fit("▏", wide)
        if width_of(text) == len(text):
            row[left:right] = [(letter, role) for letter in text]
        else:  # letters that are two columns wide
            row[left:right] = [("▏", role), *[(" ", role)] * (right - left - 1)]
    return rows
