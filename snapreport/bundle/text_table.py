"""Read a table of integers with one column of texts, of which few are distinct."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from snapreport.bundle.pages import read_rows
from snapreport.bundle.tables import Columns, Numbers, Tables


def read_with_text(
    tables: Tables, data: bytes, table: str, columns: Mapping[str, int | None], text: str
) -> tuple[Columns, list[str]]:
    """Return the columns of a table without an id, in the order of its rows.

    They are taken from its pages where that goes, and else asked for in SQL.

    Args:
        tables: the database's.
        data: its bytes.
        table: its name.
        columns: all its columns in order, and what NULL becomes in each; None where there is none.
        text: the one of them that holds texts.

    Returns:
        int64 of the same shape, by the names of the other columns; and the texts.

    Raises:
        apsw.Error, TypeError, ValueError, OverflowError: the table is damaged.
    """
    names = list(columns)
    rows = read_rows(data, tables.pages[table], len(names), names.index(text))
    if rows is None:
        taken = [Numbers(name, null) for name, null in columns.items() if name != text]
        numbers, texts = tables.numbers(table, taken, None), tables.text_column(table, text)
        if len(texts) != len(rows_of(numbers)):
            raise ValueError(f"the table {table} has two lengths")
        return numbers, shared(texts)
    tables.count_row(len(rows.ids))
    found: Columns = {}
    for place, (name, null) in enumerate(columns.items()):
        missing = rows.missing[place]
        if null is None and missing.any():
            raise TypeError("a cell is not an integer")
        if name != text:
            values = rows.values[place]
            found[name] = values if null is None else np.where(missing, null, values)
    which = rows.values[names.index(text)].tolist()
    return found, [rows.texts[i] for i in which]


def shared(texts: Sequence[str]) -> list[str]:
    """Return texts of which each distinct one is kept once."""
    known: dict[str, str] = {}
    return [known.setdefault(text, text) for text in texts]


def rows_of(columns: Columns) -> Sequence[int]:
    """Return the numbers of a table's rows."""
    return range(len(next(iter(columns.values()), ())))
