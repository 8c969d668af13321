"""A chart of memory in characters: eighths of blocks for allocated, dots for reserved memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from snapreport.explorer.parts.inking import Line, Run
from snapreport.ground.units import format_bytes, format_count, format_duration

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
