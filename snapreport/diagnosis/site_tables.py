"""Tables for findings of who made some allocations, and of who held the memory after an event."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from snapreport.figures.callsites import find_sites, label_sites, site_text
from snapreport.figures.curves import live_at
from snapreport.model.diagnoses import Column, Table
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import DeviceHistory, History

TOP = 8
"""Rows of a table: the first few call sites mostly hold nearly all of it."""
_HOLDERS = 12


def site_table(
    tables: History,
    history: DeviceHistory,
    rows: NDArray[np.int64],
    title: str,
    heading: str = "allocated",
) -> Table:
    """Return the call sites of some allocations by the bytes of their blocks, most first.

    Args:
        rows: int64, shape (n,), rows of its allocations.
        title: of the table.
        heading: of the column of bytes.
    """
    number, names = label_sites(history, tables.stacks)
    sites, place, counts = np.unique(number[rows], return_inverse=True, return_counts=True)
    held = np.zeros(len(sites), np.int64)
    np.add.at(held, place, history.allocations.block_size[rows])
    order = np.argsort(-held, kind="stable")[:TOP]
    return Table(
        title,
        (Column("call site", "text"), Column(heading), Column("allocations", "count")),
        tuple((names[int(sites[i])], int(held[i]), int(counts[i])) for i in order),
        left_out=max(len(sites) - TOP, 0),
    )


def held_tables(
    tables: History, device: DeviceFigures, event: int, title: str
) -> tuple[Table, Table]:
    """Return who held the memory after an event: the call sites with the most, and categories.

    Args:
        event: -1 for the start.
        title: of both, up to what they list.
    """
    live = live_at(device.history, event, "allocated")
    size = device.history.allocations.block_size[live]
    held = np.zeros(len(device.categories), np.int64)
    np.add.at(held, device.category[live], size)
    count = np.bincount(device.category[live], minlength=len(held)).tolist()
    whole = int(size.sum())

    def table(what: str, rows: Iterable[tuple[int, int, str]], left_out: int = 0) -> Table:
        return Table(
            f"{title} by {what}",
            (
                Column("bytes"),
                Column("share", "share"),
                Column("allocations", "count"),
                Column(what, "text"),
            ),
            tuple((size, size / whole if whole else 0.0, n, name) for size, n, name in rows),
            left_out,
        )

    sites = find_sites(device.history, tables.stacks, event)
    largest = (
        (
            each.bytes,
            each.count,
            each.name if each.frame is None else site_text(tables.stacks, each.frame),
        )
        for each in sites[:_HOLDERS]
    )
    categories = (
        (int(held[i]), count[i], device.categories[i].name)
        for i in np.argsort(-held, kind="stable").tolist()
        if count[i]
    )
    return table("call site", largest, max(len(sites) - _HOLDERS, 0)), table("category", categories)
