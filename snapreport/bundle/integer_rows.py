"""Write a long table of integers from columns, a part of it at a time.

Those would take four times the memory of the columns, and to gather rows from them takes longer
than to make them of a few rows after the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from snapreport.bundle.differences import NOT_THERE
from snapreport.bundle.sqlite_cells import Cells

if TYPE_CHECKING:
    import apsw
    from numpy.typing import NDArray

AT_ONCE = 64
"""Rows for one statement: it takes two thirds of the time of one for each."""

_STATEMENTS = 64
"""For how many of them numbers are made together."""


def insert_integers(
    connection: apsw.Connection,
    table: str,
    first_id: int,
    columns: Mapping[str, NDArray[np.int64]],
) -> None:
    """Insert rows with ids that follow one another.

    Args:
        connection: to a database that has the table.
        table: its name.
        first_id: of the first row, in the column ``id``; above all that are there.
        columns: the others by their names, each of shape (n,), NOT_THERE for NULL; not all are
            NULL in every row.
    """
    n = len(next(iter(columns.values())))
    if not n:
        return
    given = {name: cells for name, cells in columns.items() if (cells != NOT_THERE).any()}
    names = ", ".join(("id", *given))  # what is not named is NULL
    insert = f"INSERT INTO {table} ({names}) VALUES "  # noqa: S608  (our own names)
    rest = ", ?" * len(given)
    whole = 1 + (n - 1) // AT_ONCE * AT_ONCE
    # SQLite numbers the rows after the first one: then it need not look whether an id is taken.
    parts = ((0, 1, 1, first_id), (1, whole, AT_ONCE, "NULL"), (whole, n, 1, "NULL"))
    for begin, end, rows, number in parts:
        part = [column[begin:end] for column in given.values()]
        sql = insert + ", ".join([f"({number}{rest})"] * rows)
        connection.executemany(sql, _bindings(part, rows))


def _bindings(columns: list[NDArray[np.int64]], rows: int) -> Iterator[Cells]:
    """Yield the cells of a block of rows after another; the columns hold whole blocks."""
    step = rows * _STATEMENTS
    for low in range(0, len(columns[0]), step):
        cells = np.stack([column[low : low + step] for column in columns], axis=1)
        cells = cells.reshape(-1, rows * len(columns))
        found: list[Any] = cells.tolist()
        for statement, place in np.argwhere(cells == NOT_THERE).tolist():
            found[statement][place] = None
        yield from found
