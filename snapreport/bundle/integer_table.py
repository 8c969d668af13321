"""Read a whole table of integers, one column of texts among them at most.

It is taken from its pages where that goes, and else asked for in SQL.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from snapreport.bundle.differences import NOT_THERE
from snapreport.bundle.pages import Rows, read_rows
from snapreport.bundle.tables import Tables, check_numbered

Cells = tuple["NDArray[np.int64]", "NDArray[np.bool_]"]
"""A column, and where it is NULL: 0 stands there."""


def read_cells(tables: Tables, table: str) -> tuple[dict[str, Cells], list[str]]:
    """Return all columns of integers in the order of the rows, and the texts, where there are any.

    Raises:
        apsw.Error, TypeError, ValueError, OverflowError: the table is damaged.
    """
    columns = tables.columns[table]
    texts = [place for place, column in enumerate(columns) if column.kind == "TEXT"]
    rows = read_rows(tables.data, tables.pages[table], len(columns), *texts)
    if rows is None:
        rows = _rows_by_sql(tables, table)
    else:
        tables.count_row(len(rows.ids))
    cells = {}
    for column, values, missing in zip(columns, rows.values, rows.missing, strict=True):
        if column.name == "id":
            check_numbered(table, rows.ids)
        elif not column.null and missing.any():
            raise TypeError("a cell is not an integer")
        else:
            cells[column.name] = values, missing
    told = [cells.pop(columns[place].name)[0].tolist() for place in texts]
    return cells, [rows.texts[number] for numbers in told for number in numbers]


def _rows_by_sql(tables: Tables, table: str) -> Rows:
    """Read a table whose pages are not as usual."""
    numbers, texts = tables.numbers(table, none=NOT_THERE), [""]
    n = len(next(iter(numbers.values())))
    for column in tables.columns[table]:
        if column.kind == "TEXT":
            told = tables.texts(table, column.name)
            if len(told) != n:
                raise ValueError(f"the table {table} has two lengths")
            texts = list(dict.fromkeys(told))
            place = {text: number for number, text in enumerate(texts)}
            numbers[column.name] = np.array([place[text] for text in told], np.int64)
    values = np.array([numbers[column.name] for column in tables.columns[table]])
    missing = values == NOT_THERE
    values[missing] = 0
    return Rows(np.arange(n), values, missing, tuple(texts))
