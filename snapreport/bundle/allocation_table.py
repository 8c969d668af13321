"""Read the allocations of ``elements.db``: the one table that grows with the recording.

They are taken from the pages of the tables where that goes, and else asked for in SQL, and put
together as the view ``allocations`` of ``schema.sql`` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from snapreport.bundle.differences import NOT_THERE, SPAN, add_up
from snapreport.bundle.pages import Rows, read_rows
from snapreport.bundle.tables import Columns, Numbers, Tables
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
_OF_LONG_ROWS = (
    *_PLAIN,
    "slack",
    "block_range",
    "alloc_step",
    "requested_after",
    "free_after",
    "alloc_time_us",
    "requested_after_us",
    "free_after_us",
    "stream",
    "pool",
    "stack",
    "free_stack",
    "category",
    "compile_context",
    "metadata",
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
    "alloc_step",
    "alloc_time_us",
}
_MOST_ADDED = 2**60
"""What the columns that are added up may have: sums of four do not pass 64 bits."""

_Cells = tuple["NDArray[np.int64]", "NDArray[np.bool_]"]
"""A column, and where it is NULL."""


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
    if "allocation_rows" not in tables.pages:
        return _of_older_table(tables)
    if "allocation_kinds" not in tables.pages:
        return _restored(_read(tables, data, "allocation_rows", _OF_LONG_ROWS))
    return _restored(_joined(tables, data))


def _joined(tables: Tables, data: bytes) -> dict[str, _Cells]:
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


def _read(tables: Tables, data: bytes, table: str, names: Sequence[str]) -> dict[str, _Cells]:
    """Read a table of integers; 0 stands where a cell is NULL."""
    rows = read_rows(data, tables.pages[table], 1 + len(names))
    if rows is None:
        rows = _rows_by_sql(tables, table, names)
    else:
        tables.count_row(len(rows.ids))
    if not np.array_equal(rows.ids, np.arange(len(rows.ids))):
        raise ValueError(f"the rows of {table} are not numbered from 0")
    cells = dict(zip(names, zip(rows.values[1:], rows.missing[1:], strict=True), strict=True))
    for name, (values, missing) in cells.items():
        if name in _NEVER_NULL and missing.any():
            raise TypeError("a cell is not an integer")
        outside = name in _ADDED and len(values) and _range(values) > _MOST_ADDED
        if outside:
            raise OverflowError("a number in the table of allocations is out of range")
    return cells


def _range(values: NDArray[np.int64]) -> int:
    return max(-int(values.min()), int(values.max())) + 1


def _restored(cells: dict[str, _Cells]) -> Columns:
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


def _rows_by_sql(tables: Tables, table: str, names: Sequence[str]) -> Rows:
    """Read a table whose pages are not as usual."""
    taken = [Numbers(name, None if name in _NEVER_NULL else NOT_THERE) for name in names]
    columns = tables.numbers(table, taken, "id")
    ids = np.arange(len(columns[names[0]]))
    values = np.array([ids, *(columns[name] for name in names)])
    missing = values == NOT_THERE
    values[missing] = 0
    return Rows(ids, values, missing)


def _of_older_table(tables: Tables) -> Columns:
    """Read the table ``allocations``, which newer bundles have as a view for other readers."""
    times = ("alloc_time_us", "free_requested_time_us", "free_time_us")
    nulls = _IDS | dict.fromkeys(times, NO_TIME) | {"alloc_step": START}
    nulls |= {"free_requested_step": NEVER, "free_step": NEVER}
    taken = [Numbers(name) for name in (*_PLAIN, "block_size", "block_size_max", "stream")]
    taken += [Numbers(name, null) for name, null in nulls.items()]
    return tables.numbers("allocations", taken, "id")
