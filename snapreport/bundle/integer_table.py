"""Reads a whole table of integers, which may have one column of texts.

It is read from its pages where possible, and otherwise with SQL.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from snapreport.bundle.differences import NOT_THERE
from snapreport.bundle.pages import Rows, read_rows
from snapreport.bundle.tables import Tables, check_numbered

Cells = tuple["NDArray[np.int64]", "NDArray[np.bool_]"]
"""A column with 0 for NULL, and where it is NULL."""


def read_cells(tables: Tables, table: str) -> tuple[dict[str, Cells], list[str]]:
    """Return all integer columns in the order of the rows, and the texts, if there are any.

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
    numbers = [cells.pop(columns[place].name)[0].tolist() for place in texts]
    return cells, [rows.texts[number] for column in numbers for number in column]


def _rows_by_sql(tables: Tables, table: str) -> Rows:
    """Read a table whose pages have an unusual form."""
    numbers, texts = tables.numbers(table, none=NOT_THERE), [""]
    n = len(next(iter(numbers.values())))
    for column in tables.columns[table]:
        if column.kind == "TEXT":
            found = tables.texts(table, column.name)
            if len(found) != n:
                raise ValueError(f"the columns of the table {table} differ in length")
            texts = list(dict.fromkeys(found))
            place = {text: number for number, text in enumerate(texts)}
            numbers[column.name] = np.array([place[text] for text in found], np.int64)
    values = np.array([numbers[column.name] for column in tables.columns[table]])
    missing = values == NOT_THERE
    values[missing] = 0
    return Rows(np.arange(n), values, missing, tuple(texts))
