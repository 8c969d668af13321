"""Read the allocations of ``elements.db``: the one table that grows with the recording.

They are taken from the pages of ``allocation_rows`` where that goes, and else asked for in SQL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from snapreport.bundle.differences import NOT_THERE, add_up
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
_STORED = (
    "id",
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
"""The columns of ``allocation_rows``, in order."""

_NEVER_NULL = (*_PLAIN, "slack", "block_range", "stream")
_IDS = dict.fromkeys(("pool", "category", "compile_context", "metadata"), NO_ID) | dict.fromkeys(
    ("stack", "free_stack"), NO_STACK
)
"""Columns of ids, and what NULL is in them."""

_ADDED = ("size", *_STORED[_STORED.index("slack") : _STORED.index("stream")])
_MOST_ADDED = 2**60
"""What the columns that are added up may have: sums of three do not pass 64 bits."""


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
    if tables.allocation_rows is None:
        return _of_older_table(tables)
    rows = read_rows(data, tables.allocation_rows, len(_STORED))
    if rows is None:
        rows = _rows_by_sql(tables)
    else:
        tables.count_row(len(rows.ids))
    if not np.array_equal(rows.ids, np.arange(len(rows.ids))):
        raise ValueError("the rows of allocation_rows are not numbered from 0")
    return _restored(rows)


def _restored(rows: Rows) -> Columns:
    """Add up the differences."""
    values = dict(zip(_STORED, rows.values, strict=True))
    missing = dict(zip(_STORED, rows.missing, strict=True))
    if any(missing[name].any() for name in _NEVER_NULL):
        raise TypeError("a cell is not an integer")
    for name in _ADDED:
        column = values[name]
        if len(column) and not -_MOST_ADDED < int(column.min()) <= int(column.max()) < _MOST_ADDED:
            raise OverflowError("a number in the table of allocations is out of range")

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


def _rows_by_sql(tables: Tables) -> Rows:
    """Read the table where its pages are not as usual."""
    taken = [Numbers(name, None if name in _NEVER_NULL else NOT_THERE) for name in _STORED[1:]]
    columns = tables.numbers("allocation_rows", taken, "id")
    ids = np.arange(len(columns["device"]))
    values = np.array([ids, *(columns[column.name] for column in taken)])
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
