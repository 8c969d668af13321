"""Writes tables from columns or rows, and long tables of integers in parts."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import orjson
from numpy.typing import NDArray

from snapreport.bundle.differences import NOT_THERE
from snapreport.bundle.schemas import definitions
from snapreport.bundle.sqlite_cells import Cells, to_cells

_ALONE = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_NOMUTEX
"""No other thread uses the database, so it needs no locks."""

AT_ONCE = 64
"""Rows for one statement: this takes two thirds of the time of one statement per row."""

_STATEMENTS = 64
"""How many statements' values are turned into Python numbers at a time."""


def filled_database(schema: Path, fill: Callable[[TableWriter], None]) -> bytes:
    """Return the bytes of an SQLite file with tables of a schema that ``fill`` has filled."""
    connection = apsw.Connection(":memory:", flags=_ALONE)
    connection.execute(schema.read_text("utf-8"))
    with connection:
        fill(TableWriter(connection, schema))
    database = connection.serialize("main")
    connection.close()
    return database


class TableWriter:
    """Adds rows to tables, and numbers the rows of those with ids."""

    def __init__(self, connection: apsw.Connection, schema: Path) -> None:
        """Take a database that has the tables of a schema, all of them empty."""
        self.connection = connection
        self._columns = {name: made.columns for name, made in definitions(schema).items()}
        self.count: Counter[str] = Counter()
        """How many rows each table has, by its name."""

    def add(self, table: str, *columns: Iterable[Any]) -> range:
        """Add rows, given all their columns but the id, and return their ids.

        Arrays hold integers; in a column that may be NULL, -1 stands for NULL.
        """
        own = self._columns[table][-len(columns) :]
        cells = (
            (to_cells(values, -1) if column.null else values.tolist())
            if isinstance(values, np.ndarray)
            else values
            for column, values in zip(own, columns, strict=True)
        )
        return self.add_rows(table, zip(*cells, strict=True))

    def fields(self, table: str, record: object, **given: Any) -> list[Any]:
        """Return a table's columns but the id: those given, and the record's of the same names."""
        names = [column.name for column in self._columns[table] if column.name != "id"]
        return [given[name] if name in given else getattr(record, name) for name in names]

    def add_rows(self, table: str, rows: Iterable[tuple[Any, ...]]) -> range:
        """Add rows, without their ids, and return those."""
        first = self.count[table]
        columns = self._columns[table]
        if columns[0].name == "id":
            rows = ((place, *row) for place, row in enumerate(rows, first))
        size = len(columns) * AT_ONCE
        cells = itertools.chain.from_iterable(rows)
        left: list[Any] = []

        def full() -> Iterator[tuple[Any, ...]]:
            while len(taken := tuple(itertools.islice(cells, size))) == size:
                self.count[table] += AT_ONCE
                yield taken
            left.extend(taken)

        insert = f"INSERT INTO {table} VALUES "  # noqa: S608  (our own names)
        one = f"({', '.join('?' * len(columns))})"
        self.connection.executemany(insert + ", ".join([one] * AT_ONCE), full())
        rest = [left[at : at + len(columns)] for at in range(0, len(left), len(columns))]
        self.connection.executemany(insert + one, rest)
        self.count[table] += len(rest)
        return range(first, self.count[table])

    def add_meta(self, meta: Mapping[str, object]) -> None:
        """Add values by key; mappings in them keep their order, such as a file's settings."""
        keys = sorted(meta)
        self.add("meta", keys, [orjson.dumps(meta[key]).decode() for key in keys])


def insert_integers(
    connection: apsw.Connection,
    table: str,
    first_id: int,
    columns: Mapping[str, NDArray[np.int64]],
) -> None:
    """Insert rows with consecutive ids, a few at a time.

    All rows at once would take four times the memory of the columns, and longer to make.

    Args:
        connection: to a database that has the table.
        table: its name.
        first_id: of the first row, in the column ``id``; above all ids in the table.
        columns: the others by their names, each of shape (n,), NOT_THERE for NULL; at least one
            is not NULL in every row.
    """
    n = len(next(iter(columns.values())))
    if not n:
        return
    given = {name: cells for name, cells in columns.items() if (cells != NOT_THERE).any()}
    names = ", ".join(("id", *given))  # what is not named is NULL
    insert = f"INSERT INTO {table} ({names}) VALUES "  # noqa: S608  (our own names)
    rest = ", ?" * len(given)
    whole = 1 + (n - 1) // AT_ONCE * AT_ONCE
    # SQLite numbers the rows after the first, which saves checking whether an id is taken.
    parts = ((0, 1, 1, first_id), (1, whole, AT_ONCE, "NULL"), (whole, n, 1, "NULL"))
    for begin, end, rows, number in parts:
        part = [column[begin:end] for column in given.values()]
        sql = insert + ", ".join([f"({number}{rest})"] * rows)
        connection.executemany(sql, _bindings(part, rows))


def _bindings(columns: list[NDArray[np.int64]], rows: int) -> Iterator[Cells]:
    """Yield the cells of each block of rows in turn; the columns hold whole blocks only."""
    step = rows * _STATEMENTS
    for low in range(0, len(columns[0]), step):
        cells = np.stack([column[low : low + step] for column in columns], axis=1)
        cells = cells.reshape(-1, rows * len(columns))
        found: list[Any] = cells.tolist()
        for statement, place in np.argwhere(cells == NOT_THERE).tolist():
            found[statement][place] = None
        yield from found
