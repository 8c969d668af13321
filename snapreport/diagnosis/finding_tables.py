"""Tables for findings: the first of many rows, what made allocations, and what held the memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from snapreport.figures.callsites import label_sites
from snapreport.figures.grouping import group_up
from snapreport.model.diagnoses import Column, Table, Unit, Value
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import DeviceHistory, History

TOP = 8
"""Rows shown in a table: the first few call sites mostly hold nearly all of the memory."""
HOLDERS = 12
"""Rows shown in a table of what held the memory: more, because these rows are the answer."""


def top_table(
    title: str, columns: Mapping[str, Unit], rows: Sequence[tuple[Value, ...]], most: int = TOP
) -> Table:
    """Return a table of the first rows, which says how many more there are.

    Args:
        title: of the table.
        columns: the title of each, with its unit.
        rows: the most important first.
        most: how many are shown.
    """
    headings = tuple(Column(name, unit) for name, unit in columns.items())
    return Table(title, headings, tuple(rows[:most]), max(len(rows) - most, 0))


def site_table(
    tables: History,
    history: DeviceHistory,
    rows: NDArray[np.int64],
    title: str,
    heading: str = "allocated",
) -> Table:
    """Return a table of the call sites of some allocations, those with most block bytes first.

    Args:
        rows: int64, shape (n,), rows of the history's allocations.
        title: of the table.
        heading: of the bytes column.
    """
    number, names = label_sites(history, tables.stacks)
    held = group_up(history.allocations, rows, number[rows], names, "allocated")
    return top_table(
        title,
        {"call site": "text", heading: "bytes", "allocations": "count"},
        [(each.name, each.bytes, each.count) for each in held],
    )


def held_tables(
    tables: History, device: DeviceFigures, event: int, title: str
) -> tuple[Table, Table]:
    """Return tables of the call sites and the categories that held the memory after an event.

    Args:
        event: -1 for the start.
        title: the beginning of both titles.
    """
    rows = device.history.allocations
    live = np.flatnonzero(rows.live_at(event))
    total = int(rows.block_size[live].sum())

    def table(what: str, number: NDArray[np.integer], names: Sequence[str], most: int) -> Table:
        held = group_up(rows, live, number[live], names, "allocated")
        return top_table(
            f"{title} by {what}",
            {"bytes": "bytes", "share": "share", "allocations": "count", what: "text"},
            [
                (each.bytes, each.bytes / total if total else 0.0, each.count, each.name)
                for each in held
            ],
            most,
        )

    categories = [category.name for category in device.categories]
    return (
        table("call site", *label_sites(device.history, tables.stacks), HOLDERS),
        table("category", device.category, categories, len(categories)),
    )
