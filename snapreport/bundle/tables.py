"""Reads columns of a stranger's tables, if the tables are ours and fit into their file.

A file can refer to the same bytes again and again, so that a few pages make an endless table. In
our files every row and character is stored once, so more than the file can hold are refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

from snapreport.bundle.opening import LONGEST_VALUE, explaining, open_in_memory
from snapreport.bundle.schemas import ELEMENTS, Definition, definitions, plain
from snapreport.bundle.sqlite_cells import from_cells

Columns = dict[str, "NDArray[np.int64]"]

LEAST_ROW = 4
"""Bytes of the file for each row read: the shortest row has 7, and some are read twice."""

_ROWS = 1024
"""Rows that are read at a time: at most 64 MiB if each cell is as long as a page."""

_LONGEST_NUMBERS = 4096
"""Bytes of a row of numbers: more than any of ours has."""

_LIMITS = {
    apsw.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    apsw.SQLITE_LIMIT_COLUMN: 100,
    apsw.SQLITE_LIMIT_EXPR_DEPTH: 50,
    apsw.SQLITE_LIMIT_COMPOUND_SELECT: 10,
    apsw.SQLITE_LIMIT_VDBE_OP: 25_000,
    apsw.SQLITE_LIMIT_FUNCTION_ARG: 20,
}
"""Our own statements and tables need far less."""

_FOR_OTHERS = "allocs"
"""The view for other programs, which may be missing."""

_ROOTS = "SELECT name, rootpage FROM sqlite_schema WHERE type = 'table'"
_SCHEMA = ("sqlite_schema", "sqlite_master")
_KINDS = {"TEXT": (str, "text"), "BLOB": (bytes, "bytes")}


@contextmanager
def open_tables(
    data: bytes, schema: Path = ELEMENTS, name: str = "elements.db"
) -> Iterator[Tables]:
    """Open an SQLite file that was in a zip under this name.

    Raises:
        BundleError: it is damaged or not ours, also if that shows only while it is read.
    """
    with explaining(name), closing(open_in_memory(data, _LIMITS, name)) as connection:
        yield Tables(connection, data, schema)


class Tables:
    """Reads whole tables of format 1, and no others."""

    def __init__(self, connection: apsw.Connection, data: bytes, schema: Path = ELEMENTS) -> None:
        """Check that the tables are defined as ours are.

        Args:
            connection: from ``open_in_memory``; it can run no other statements from now on.
            data: the file.
            schema: the definitions of our tables.

        Raises:
            ValueError: a table is missing, or defined differently.
            apsw.Error: the file is damaged.
        """
        self._connection = connection
        self.data = data
        self._rows_left = len(data) // LEAST_ROW
        self._characters_left = len(data)
        connection.set_authorizer(self._authorize)
        known = definitions(schema)
        self._ours = {name: made for name, made in known.items() if name != _FOR_OTHERS}
        self.columns = {name: made.columns for name, made in known.items()}
        """The columns of each table, by its name."""
        self.strange_views: set[str] = set()
        """The lower-case names of views that are not ours; reading one runs its SQL."""
        self._check_schema(known)
        self.pages = {str(name): int(page) for name, page in self._run(_ROOTS)}
        """The first page of each table, by its name."""

    def _authorize(
        self, action: int, what: str | None, _column: str | None, _db: str | None, _by: str | None
    ) -> int:
        """Allow only reads of our tables; SQLite calls this for every statement."""
        if action == apsw.SQLITE_SELECT or (
            action == apsw.SQLITE_READ and (what in self._ours or what in _SCHEMA)
        ):
            return apsw.SQLITE_OK
        return apsw.SQLITE_DENY

    def _check_schema(self, known: dict[str, Definition]) -> None:
        found: dict[str, tuple[str, str]] = {}
        rows = self._run("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY rowid")
        for kind, name, table, sql in rows:
            self.count_row()
            if not all(isinstance(text, str) for text in (kind, name, table)):
                raise ValueError("a definition has no name")
            if kind == "view" and (name not in known or known[name].sql != plain(str(sql))):
                self.strange_views.add(name.lower())
            ours = self._ours.get(table.lower())
            if ours is not None and (kind != ours.kind or table != name):
                raise ValueError(f"the {ours.kind} {table.lower()} has an extra {_short(kind)}")
            if ours is not None and name in self._ours:
                found[name] = kind, plain(str(sql))
        for name, definition in self._ours.items():
            if name not in found:
                raise ValueError(f"there is no {definition.kind} {name}")
            if found[name] != (definition.kind, definition.sql):
                raise ValueError(f"the {definition.kind} {name} is not defined as in format 1")

    def numbers(self, table: str, *names: str, none: int = -1) -> Columns:
        """Return columns of integers in the order of the rows.

        Args:
            table: its name. Its ids, if it has any, must number the rows from 0.
            names: of the columns; all that hold integers by default.
            none: stands for NULL in columns that may be NULL.

        Returns:
            arrays of int64 and the same shape, by the columns' names.

        Raises:
            TypeError, OverflowError: a cell is not an integer of 64 bits.
            ValueError: there are more rows than fit into the file, or they are not numbered.
            apsw.Error: the file is damaged.
        """
        self._connection.limit(apsw.SQLITE_LIMIT_LENGTH, _LONGEST_NUMBERS)
        taken = [
            each
            for each in self.columns[table]
            if each.kind == "INTEGER" and (not names or each.name in (*names, "id"))
        ]
        rows = self._run(_select(table, [column.name for column in taken]))
        parts: list[list[NDArray[np.int64]]] = [[] for _ in taken]
        while some := list(itertools.islice(rows, _ROWS)):
            self.count_row(len(some))
            for part, cells, column in zip(parts, zip(*some, strict=True), taken, strict=True):
                part.append(from_cells(cells, none if column.null else None))
        arrays = [np.concatenate(part) if part else np.zeros(0, np.int64) for part in parts]
        found = dict(zip((column.name for column in taken), arrays, strict=True))
        if "id" in found:
            check_numbered(table, found["id"])
        return found

    def rows(self, table: str, *names: str) -> Iterator[list[Any]]:
        """Yield rows of texts and bytes in the order of the table, None for NULL where allowed.

        Raises:
            TypeError: a cell is of another kind.
            ValueError: there is more than fits into the file.
            apsw.Error: the file is damaged.
        """
        self._connection.limit(apsw.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
        chosen = {each.name: each for each in self.columns[table] if each.name in names}
        wanted = [(*_KINDS[chosen[name].kind], chosen[name].null) for name in names]
        for row in self._run(_select(table, names)):
            self.count_row()
            for cell, (kind, what, null) in zip(row, wanted, strict=True):
                if isinstance(cell, kind):
                    self._characters_left -= len(cell)
                elif cell is not None or not null:
                    raise TypeError(f"a cell of {table} is not {what}")
            # Checked before the next row is read: all could be the same long one.
            if self._characters_left < 0:
                raise ValueError(f"the texts of {table} are longer than the file")
            yield list(row)

    def texts(self, table: str, column: str) -> list[Any]:
        """Return one column of texts in the order of the table, as ``rows()`` does of several."""
        return [cell for (cell,) in self.rows(table, column)]

    def _run(self, sql: str) -> Iterator[tuple[Any, ...]]:
        return iter(self._connection.execute(sql))

    def count_row(self, rows: int = 1) -> None:
        """Count rows that were read.

        Raises:
            ValueError: there are more than fit into the file.
        """
        self._rows_left -= rows
        if self._rows_left < 0:
            raise ValueError("the tables have more rows than the file can hold")


def check_numbered(table: str, ids: NDArray[np.int64]) -> None:
    """Check that the ids of a table count its rows from 0.

    Raises:
        ValueError: they do not.
    """
    if not np.array_equal(ids, np.arange(len(ids))):
        raise ValueError(f"the rows of {table} are not numbered from 0")


def device_rows(device: NDArray[np.int64], devices: int) -> list[slice]:
    """Return where each device's rows are in a table; they must be together.

    Args:
        device: int64, shape (n,), the device of each row.
        devices: how many there are.

    Raises:
        ValueError: a row belongs to no device, or they are mixed.
    """
    found = [slice(0, 0)] * devices
    if not len(device):
        return found
    cuts = [0, *(np.flatnonzero(np.diff(device)) + 1).tolist(), len(device)]
    if len(cuts) > devices + 1:
        raise ValueError("rows of several devices are mixed")
    for low, high in itertools.pairwise(cuts):
        index = int(device[low])
        if not 0 <= index < devices:
            raise ValueError("rows belong to no device")
        if found[index].stop:
            raise ValueError("rows of several devices are mixed")
        found[index] = slice(low, high)
    return found


def _select(table: str, columns: Sequence[str]) -> str:
    key = "key" if table == "meta" else "rowid"
    return f"SELECT {', '.join(columns)} FROM {table} ORDER BY {key}"  # noqa: S608  (our own names)


def _short(text: str) -> str:
    return text[:20] if text.isprintable() else "something"
