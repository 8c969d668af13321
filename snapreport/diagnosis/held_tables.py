"""Tables of who held the memory after an event."""

from __future__ import annotations

import numpy as np

from snapreport.figures.callsites import find_sites, site_text
from snapreport.figures.curves import live_at
from snapreport.model.diagnoses import Column, Table
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import History

_ROWS = 12
_COLUMNS = (Column("bytes"), Column("share", "share"), Column("allocations", "count"))


def sites_table(tables: History, device: DeviceFigures, event: int, title: str) -> Table:
    """List the call sites with the most allocated bytes after an event."""
    sites = find_sites(device.history, tables.stacks, event)
    whole = sum(each.bytes for each in sites)
    rows = tuple(
        (
            each.bytes,
            each.bytes / whole if whole else 0.0,
            each.count,
            each.name if each.frame is None else site_text(tables.stacks, each.frame),
        )
        for each in sites[:_ROWS]
    )
    return Table(title, (*_COLUMNS, Column("call site", "text")), rows, max(len(sites) - _ROWS, 0))


def categories_table(device: DeviceFigures, event: int, title: str) -> Table:
    """List the categories with allocated bytes after an event, the most first."""
    live = live_at(device.history, event, "allocated")
    held = np.zeros(len(device.categories), np.int64)
    np.add.at(held, device.category[live], device.history.allocations.block_size[live])
    count = np.bincount(device.category[live], minlength=len(held))
    whole = int(held.sum())
    rows = tuple(
        (
            int(held[i]),
            int(held[i]) / whole if whole else 0.0,
            int(count[i]),
            device.categories[i].name,
        )
        for i in np.argsort(-held, kind="stable").tolist()
        if count[i]
    )
    return Table(title, (*_COLUMNS, Column("category", "text")), rows)
