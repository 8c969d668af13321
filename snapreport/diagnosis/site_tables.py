"""Tables of call sites for findings: who made some allocations, and how much of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from snapreport.figures.callsites import label_sites
from snapreport.model.diagnoses import Column, Table
from snapreport.model.history import DeviceHistory, History

TOP = 8
"""Rows of a table: the first few call sites mostly hold nearly all of it."""


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
