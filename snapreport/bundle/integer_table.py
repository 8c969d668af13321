"""Read a whole table of integers: from its pages where that goes, and else by asking in SQL."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from snapreport.bundle.differences import NOT_THERE
from snapreport.bundle.pages import Rows, read_rows
from snapreport.bundle.tables import Numbers, Tables

if TYPE_CHECKING:
    from numpy.typing import NDArray

Cells = tuple["NDArray[np.int64]", "NDArray[np.bool_]"]
"""A column, and where it is NULL: 0 stands there."""


def read_integers(
    tables: Tables, data: bytes, table: str, names: Sequence[str], never_null: Collection[str]
) -> dict[str, Cells]:
    """Return all columns but the id, which numbers the rows from 0.

    Args:
        tables: the database's.
        data: its bytes.
        table: its name.
        names: its columns, in order, without the id.
        never_null: those of them that have no NULL.

    Raises:
        apsw.Error, TypeError, ValueError, OverflowError: the table is damaged.
    """
    rows = read_rows(data, tables.pages[table], 1 + len(names))
    if rows is None:
        rows = _rows_by_sql(tables, table, names, never_null)
    else:
        tables.count_row(len(rows.ids))
    if not np.array_equal(rows.ids, np.arange(len(rows.ids))):
        raise ValueError(f"the rows of {table} are not numbered from 0")
    cells = dict(zip(names, zip(rows.values[1:], rows.missing[1:], strict=True), strict=True))
    if any(cells[name][1].any() for name in names if name in never_null):
        raise TypeError("a cell is not an integer")
    return cells


def _rows_by_sql(
    tables: Tables, table: str, names: Sequence[str], never_null: Collection[str]
) -> Rows:
    """Read a table whose pages are not as usual."""
    taken = [Numbers(name, None if name in never_null else NOT_THERE) for name in names]
    columns = tables.numbers(table, taken, "id")
    ids = np.arange(len(columns[names[0]]))
    values = np.array([ids, *(columns[name] for name in names)])
    missing = values == NOT_THERE
    values[missing] = 0
    return Rows(ids, values, missing)
