"""Read the allocations of ``elements.db``: the one table that grows with the recording.

They are taken from the pages of the tables where that goes, and else asked for in SQL, and put
together as the view ``allocations`` of ``schema.sql`` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from snapreport.bundle.differences import SPAN, add_up
from snapreport.bundle.integer_table import Cells, read_integers
from snapreport.bundle.tables import Columns, Tables
from snapreport.model.history import START
from snapreport.model.snapshot import NO_ID, NO_TIME
from snapreport.model.stacks import NO_STACK

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEVER = int(np.iinfo(np.int64).min)
"""The step of what does not happen, whatever the device; it stands for NULL."""

_PLAIN = ("device", "addr", "version", "size")
_OF_KINDS = (
    "device",
    "size",
    "slack",
    "block_range",
    "stream",
    "pool",
    "stack",
    "free_stack",
    "category",
    "compile_context",
    "metadata",
)
_OF_SPANS = ("step", "time_us")
_OF_ROWS = (
    "kind",
    "addr",
    "version",
    "alloc_after",
    "requested_after",
    "free_after",
    "alloc_after_us",
    "requested_after_us",
    "free_after_us",
)
"""The columns of the tables, in order, without the id."""

_NEVER_NULL = {*_PLAIN, "slack", "block_range", "stream", "kind", *_OF_SPANS}
_IDS = dict.fromkeys(("pool", "category", "compile_context", "metadata"), NO_ID) | dict.fromkeys(
    ("stack", "free_stack"), NO_STACK
)
"""Columns of ids, and what NULL is in them."""

_ADDED = {
    "size",
    "slack",
    "block_range",
    *_OF_SPANS,
    *(f"{what}_after{unit}" for what in ("alloc", "requested", "free") for unit in ("", "_us")),
}
_MOST_ADDED = 2**60
"""What the columns that are added up may have: sums of four do not pass 64 bits."""


def read_allocations(tables: Tables, data: bytes) -> Columns:
    """Return the allocations of all devices, as the view ``allocations`` has them.

    Args:
        tables: the database's.
        data: its bytes.

    Returns:
        int64 of the same shape by the columns' names, without the id, which is the row's number.
        NULL is START, NO_TIME, NO_ID or NO_STACK, and NEVER in the steps of frees.

    Raises:
        apsw.Error, TypeError, ValueError, OverflowError: the table is damaged.
    """
    return _restored(_joined(tables, data))


def _joined(tables: Tables, data: bytes) -> dict[str, Cells]:
    """Put the three tables together, as the view does."""
    rows = _read(tables, data, "allocation_rows", _OF_ROWS)
    kinds = _read(tables, data, "allocation_kinds", _OF_KINDS)
    spans = _read(tables, data, "allocation_spans", _OF_SPANS)
    kind, _ = rows.pop("kind")
    count, n_kinds = len(kind), len(kinds["device"][0])
    if count and not 0 <= int(kind.min()) <= int(kind.max()) < n_kinds:
        raise IndexError("an allocation is of no kind")
    if len(spans["step"][0]) != -(-count // SPAN):
        raise ValueError("the table allocation_spans has another length")
    span = np.arange(count) // SPAN
    joined = {name: (values[kind], missing[kind]) for name, (values, missing) in kinds.items()}
    births = {"alloc_step": ("step", "alloc_after"), "alloc_time_us": ("time_us", "alloc_after_us")}
    for name, (base, after) in births.items():
        values, missing = rows.pop(after)
        joined[name] = values + spans[base][0][span], missing
    return joined | rows


def _read(tables: Tables, data: bytes, table: str, names: Sequence[str]) -> dict[str, Cells]:
    cells = read_integers(tables, data, table, names, _NEVER_NULL)
    for name in _ADDED.intersection(names):
        values, _ = cells[name]
        if len(values) and _range(values) > _MOST_ADDED:
            raise OverflowError("a number in the table of allocations is out of range")
    return cells


def _range(values: NDArray[np.int64]) -> int:
    return max(-int(values.min()), int(values.max())) + 1


def _restored(cells: dict[str, Cells]) -> Columns:
    """Add up the differences."""
    values = {name: column for name, (column, _) in cells.items()}
    missing = {name: null for name, (_, null) in cells.items()}

    def known(name: str, none: int) -> NDArray[np.int64]:
        return np.where(missing[name], none, values[name])

    def after(begin: NDArray[np.int64], name: str, none: int) -> NDArray[np.int64]:
        return add_up(begin, values[name], missing[name], none)

    alloc_step, alloc_time = known("alloc_step", START), known("alloc_time_us", NO_TIME)
    requested_step = after(alloc_step, "requested_after", NEVER)
    requested_time = after(alloc_time, "requested_after_us", NO_TIME)
    block_size = values["size"] + values["slack"]
    return {
        **{name: values[name] for name in (*_PLAIN, "stream")},
        **{name: known(name, none) for name, none in _IDS.items()},
        "block_size": block_size,
        "block_size_max": block_size + values["block_range"],
        "alloc_step": alloc_step,
        "free_requested_step": requested_step,
        "free_step": after(requested_step, "free_after", NEVER),
        "alloc_time_us": alloc_time,
        "free_requested_time_us": requested_time,
        "free_time_us": after(requested_time, "free_after_us", NO_TIME),
    }
