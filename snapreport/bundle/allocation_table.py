"""Reads the allocations of ``elements.db``: the one table that grows with the recording.

Its columns are those of the view ``allocations`` in ``schema.sql``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapreport.bundle.differences import SPAN, add_up
from snapreport.bundle.integer_table import Cells, read_cells
from snapreport.bundle.tables import Columns, Tables
from snapreport.model.history import START
from snapreport.model.snapshot import NO_TIME

NEVER = int(np.iinfo(np.int64).min)
"""Stands for NULL: the event of what never happens, on any device."""

_ADDED = {
    "size",
    "slack",
    "block_range",
    "event",
    "time_us",
    *(f"{what}_after{unit}" for what in ("alloc", "requested", "free") for unit in ("", "_us")),
}
_IDS = {"pool", "stack", "free_stack", "category", "compile_context", "metadata"}
_MOST_ADDED = 2**60
"""The most in a column that is added up: sums of four fit in 64 bits."""


def read_allocations(tables: Tables) -> Columns:
    """Return the allocations of all devices, as the view ``allocations`` has them.

    Returns:
        int64 of the same shape by the columns' names, without the id, which is the row's number;
        int32 for ids of other tables, where those fit.
        NULL is -1, and NEVER in the events of frees.

    Raises:
        apsw.Error, TypeError, ValueError, OverflowError: the table is damaged.
    """
    rows = _read(tables, "allocation_rows")
    kind, _ = rows["kind"]
    columns = _of_kinds(_read(tables, "allocation_kinds"))
    n_kinds = len(columns["device"])
    if len(kind) and not 0 <= int(kind.min()) <= int(kind.max()) < n_kinds:
        raise IndexError("an allocation has an unknown kind")
    spans = _read(tables, "allocation_spans")
    if len(spans["event"][0]) != -(-len(kind) // SPAN):
        raise ValueError("the table allocation_spans has the wrong length")
    return (
        {name: rows[name][0] for name in ("addr", "version")}
        | {name: values.take(kind) for name, values in columns.items()}
        | _added_up(rows, spans)
    )


def _of_kinds(kinds: dict[str, Cells]) -> Columns:
    """Return the columns that the allocations of a kind share."""
    del kinds["role"]  # roles are found again from the history, not taken from the file
    columns: dict[str, NDArray[Any]] = {}
    for name, (values, missing) in kinds.items():
        values[missing] = -1
        columns[name] = values
        if name in _IDS:  # before they are repeated for each row
            narrow = values.astype(np.int32)
            columns[name] = narrow if np.array_equal(narrow, values) else values
    slack, block_range = columns.pop("slack"), columns.pop("block_range")
    columns["block_size"] = columns["size"] + slack
    columns["block_size_max"] = columns["block_size"] + block_range
    return columns


def _added_up(rows: dict[str, Cells], spans: dict[str, Cells]) -> Columns:
    """Return the events and times, added up from differences."""
    n = len(rows["kind"][0])

    def from_span(after: str, base: str, none: int) -> NDArray[np.int64]:
        values, missing = rows[after]
        found: NDArray[np.int64] = np.repeat(spans[base][0], SPAN)[:n]
        found += values
        found[missing] = none
        return found

    def after(begin: NDArray[np.int64], name: str, none: int) -> NDArray[np.int64]:
        return add_up(begin, *rows[name], none)

    alloc_event = from_span("alloc_after", "event", START)
    requested_event = after(alloc_event, "requested_after", NEVER)
    alloc_time = from_span("alloc_after_us", "time_us", NO_TIME)
    requested_time = after(alloc_time, "requested_after_us", NO_TIME)
    return {
        "alloc_event": alloc_event,
        "free_requested_event": requested_event,
        "free_event": after(requested_event, "free_after", NEVER),
        "alloc_time_us": alloc_time,
        "free_requested_time_us": requested_time,
        "free_time_us": after(requested_time, "free_after_us", NO_TIME),
    }


def _read(tables: Tables, table: str) -> dict[str, Cells]:
    cells, _ = read_cells(tables, table)
    for name in _ADDED.intersection(cells):
        values, _ = cells[name]
        if len(values) and _range(values) > _MOST_ADDED:
            raise OverflowError("a number in the table of allocations is out of range")
    return cells


def _range(values: NDArray[np.int64]) -> int:
    return max(-int(values.min()), int(values.max())) + 1
