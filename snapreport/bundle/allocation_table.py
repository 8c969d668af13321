"""Read the allocations of ``elements.db``: the one table that grows with the recording.

They are taken from the pages of ``allocation_rows`` where that goes, and else asked for in SQL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import apsw
import numpy as np

from snapreport.bundle.cells import from_cells, transposed
from snapreport.bundle.differences import add_up
from snapreport.bundle.pages import Rows, read_rows
from snapreport.model.history import START, Allocations
from snapreport.model.snapshot import NO_ID, NO_TIME

if TYPE_CHECKING:
    from numpy.typing import NDArray

_STORED = (
    "id",
    "device",
    "addr",
    "version",
    "size",
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

_OLDER = (
    "id",
    "addr",
    "version",
    "size",
    "block_size",
    "block_size_max",
    "alloc_step",
    "free_requested_step",
    "free_step",
    "alloc_time_us",
    "free_requested_time_us",
    "free_time_us",
    "stream",
    "pool",
    "stack",
    "free_stack",
    "category",
    "compile_context",
    "metadata",
)
"""Columns of the table ``allocations`` in older bundles; now it is a view, for other readers."""

_NEVER_NULL = ("device", "addr", "version", "size", "slack", "block_range", "stream")
_IDS = ("version", "pool", "stack", "free_stack", "category", "compile_context", "metadata")
_LIMITS = np.iinfo(np.int32)


class AllocationTable:
    """The allocations of all devices of a bundle."""

    def __init__(self, connection: apsw.Connection, data: bytes) -> None:
        """Take them.

        Args:
            connection: the database, opened.
            data: its bytes.

        Raises:
            apsw.Error, TypeError, ValueError, OverflowError: the table is damaged.
        """
        self._connection = connection
        self._rows = _stored_rows(connection, data)

    def of_device(
        self, index: int, events: int, requested_before: NDArray[np.int64]
    ) -> tuple[Allocations, int]:
        """Return the allocations of a device, and the id of the first.

        Args:
            index: the device.
            events: how many it has.
            requested_before: ids of those that awaited their free before step 0.

        Raises:
            apsw.Error, TypeError, ValueError, OverflowError, IndexError: the table is damaged.
        """
        if self._rows is None:
            ids, columns = self._of_older_table(index, events)
        else:
            ids, columns = _restored(self._rows, index, events)
        first = int(ids[0]) if len(ids) else 0
        columns["free_requested_step"][requested_before - first] = START
        return Allocations(**columns), first

    def _of_older_table(self, index: int, events: int) -> _Found:
        query = f"SELECT {', '.join(_OLDER)} FROM allocations WHERE device = ? ORDER BY id"  # noqa: S608  (our own names)
        cells = transposed(self._connection.execute(query, (index,)), len(_OLDER))
        never = {"free_requested_step": events, "free_step": events}
        columns = {
            name: from_cells(column, np.int32 if name in _IDS else np.int64, never.get(name, -1))
            for name, column in zip(_OLDER, cells, strict=True)
        }
        return columns.pop("id"), columns


_Found = tuple["NDArray[np.int64]", "dict[str, NDArray[Any]]"]
"""Ids, and the columns of ``Allocations`` by name."""


def _restored(rows: Rows, index: int, events: int) -> _Found:
    """Add up the differences of one device's rows."""
    of_device = rows.values[_STORED.index("device")] == index
    here = slice(None) if of_device.all() else of_device  # a slice copies nothing
    values = dict(zip(_STORED, rows.values[:, here], strict=True))
    missing = dict(zip(_STORED, rows.missing[:, here], strict=True))

    def column(name: str, none: int = -1) -> NDArray[np.int64]:
        return np.where(missing[name], none, values[name])

    def after(begin: NDArray[np.int64], name: str, none: int) -> NDArray[np.int64]:
        return add_up(begin, values[name], missing[name], none)

    alloc_step = column("alloc_step", START)
    alloc_time = column("alloc_time_us", NO_TIME)
    requested_step = after(alloc_step, "requested_after", events)
    requested_time = after(alloc_time, "requested_after_us", NO_TIME)
    asked = np.where(missing["requested_after"], START, requested_step)
    block_size = values["size"] + values["slack"]
    columns: dict[str, NDArray[Any]] = {
        "addr": values["addr"],
        "size": values["size"],
        "block_size": block_size,
        "block_size_max": block_size + values["block_range"],
        "alloc_step": alloc_step,
        "free_requested_step": requested_step,
        "free_step": after(asked, "free_after", events),
        "alloc_time_us": alloc_time,
        "free_requested_time_us": requested_time,
        "free_time_us": after(requested_time, "free_after_us", NO_TIME),
        "stream": values["stream"],
    }
    columns |= {name: column(name, NO_ID).astype(np.int32) for name in _IDS}
    return rows.ids[here], columns


def _stored_rows(connection: apsw.Connection, data: bytes) -> Rows | None:
    """Return ``allocation_rows``; None where there is no such table, in older bundles."""
    table = "SELECT rootpage FROM sqlite_schema WHERE type = 'table' AND name = 'allocation_rows'"
    root = connection.execute(table).fetchone()
    if root is None:
        return None
    names = connection.execute("SELECT name FROM pragma_table_info('allocation_rows')")
    usual = tuple(name for (name,) in names) == _STORED
    rows = read_rows(data, int(root[0]), len(_STORED)) if usual else None
    if rows is None:
        rows = _rows_by_sql(connection)
    if (rows.ids != np.arange(len(rows.ids))).any():
        raise IndexError("an id of an allocation is not the number of its row")
    at = {name: place for place, name in enumerate(_STORED)}
    if rows.missing[[at[name] for name in _NEVER_NULL]].any():
        raise ValueError("a cell is NULL")
    ids = rows.values[[at[name] for name in _IDS]]
    if ids.size and (int(ids.min()) < _LIMITS.min or int(ids.max()) > _LIMITS.max):
        raise OverflowError("an id is out of range")
    return rows


def _rows_by_sql(connection: apsw.Connection) -> Rows:
    query = f"SELECT {', '.join(_STORED)} FROM allocation_rows ORDER BY id"  # noqa: S608  (our own names)
    cells = transposed(connection.execute(query), len(_STORED))
    missing = np.array([[cell is None for cell in column] for column in cells], np.bool_)
    values = np.array([from_cells(column, np.int64, 0) for column in cells])
    return Rows(values[0], values, missing)
