"""Tables for findings: the first of many rows, who made allocations, and who held the memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from snapreport.figures.callsites import find_sites, label_sites, site_text
from snapreport.model.diagnoses import Column, Table, Unit, Value
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import DeviceHistory, History

TOP = 8
"""Rows shown in a table: the first few call sites mostly hold nearly all of the memory."""
HOLDERS = 12
"""Rows shown in a table of who held the memory: there the rows are the answer itself."""


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
    sites, place, counts = np.unique(number[rows], return_inverse=True, return_counts=True)
    held = np.zeros(len(sites), np.int64)
    np.add.at(held, place, history.allocations.block_size[rows])
    order = np.argsort(-held, kind="stable")
    columns = zip(sites[order].tolist(), held[order].tolist(), counts[order].tolist(), strict=True)
    return top_table(
        title,
        {"call site": "text", heading: "bytes", "allocations": "count"},
        [(names[site], size, count) for site, size, count in columns],
    )


def held_tables(
    tables: History, device: DeviceFigures, event: int, title: str
) -> tuple[Table, Table]:
    """Return tables of the call sites and the categories that held the memory after an event.

    Args:
        event: -1 for the start.
        title: the beginning of both titles.
    """
    stacks, live = tables.stacks, device.history.allocations.live_at(event)
    size = device.history.allocations.block_size[live]
    held = np.zeros(len(device.categories), np.int64)
    np.add.at(held, device.category[live], size)
    count = np.bincount(device.category[live], minlength=len(held)).tolist()
    total = int(size.sum())

    def table(what: str, rows: Sequence[tuple[int, int, str]], most: int) -> Table:
        return top_table(
            f"{title} by {what}",
            {"bytes": "bytes", "share": "share", "allocations": "count", what: "text"},
            [(size, size / total if total else 0.0, n, name) for size, n, name in rows],
            most,
        )

    sites = [
        (each.bytes, each.count, each.name if each.frame is None else site_text(stacks, each.frame))
        for each in find_sites(device.history, stacks, event)
    ]
    categories = [
        (int(held[i]), count[i], device.categories[i].name)
        for i in np.argsort(-held, kind="stable").tolist()
        if count[i]
    ]
    return table("call site", sites, HOLDERS), table("category", categories, len(categories))
