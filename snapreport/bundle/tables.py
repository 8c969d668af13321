"""Take columns out of a stranger's tables, as long as they are ours and fit into their file.

A file can name the same bytes again and again, so that a few pages are a table without end. Every
row and every character of ours lies in the file once: more than it can hold are refused.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import numpy as np

from snapreport.bundle.opening import LONGEST_VALUE
from snapreport.bundle.sqlite_cells import from_cells

if TYPE_CHECKING:
    from numpy.typing import NDArray

ELEMENTS = Path(__file__).with_name("schema.sql")
"""The definitions of the tables of ``elements.db``."""

LEAST_ROW = 4
"""Bytes of the file for each row read: the shortest row has 7, and some are read twice."""

_ROWS = 1024
"""Rows that are taken at a time: of cells as long as a page no more than 64 MiB."""

_LONGEST_NUMBERS = 4096
"""Bytes of a row of numbers, and more than enough."""

LIMITS = {
    apsw.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    apsw.SQLITE_LIMIT_COLUMN: 100,
    apsw.SQLITE_LIMIT_EXPR_DEPTH: 50,
    apsw.SQLITE_LIMIT_COMPOUND_SELECT: 10,
    apsw.SQLITE_LIMIT_VDBE_OP: 25_000,
    apsw.SQLITE_LIMIT_FUNCTION_ARG: 20,
}
"""What our own statements and tables need of SQLite is far less."""

_Definition = tuple[str, str]
"""``table`` or ``view``, and the statement that makes it, in plain form."""

_FOR_OTHERS = "allocs"
"""The view that is there for other programs, and need not be."""

_ROOTS = "SELECT name, rootpage FROM sqlite_schema WHERE type = 'table'"
_SCHEMA = ("sqlite_schema", "sqlite_master")


@dataclass(frozen=True)
class Numbers:
    """A column of integers, and what NULL becomes; None where there is no NULL."""

    name: str
    null: int | None = None


class Tables:
    """Reads tables of format 1 whole, each in one go; any other table stays unread."""

    def __init__(self, connection: apsw.Connection, size: int, schema: Path = ELEMENTS) -> None:
        """Check that the tables are defined as ours are.

        Args:
            connection: from ``open_in_memory``; no other statement can be run on it from now on.
            size: bytes of the file.
            schema: the definitions of ours.

        Raises:
            ValueError: a table is missing, or defined in another way.
            apsw.Error: the file is damaged.
        """
        self._connection = connection
        self._rows_left = size // LEAST_ROW
        self._characters_left = size
        connection.set_authorizer(self._authorize)
        known = _definitions(schema)
        self._ours = {name: made for name, made in known.items() if name != _FOR_OTHERS}
        self.strange_views: set[str] = set()
        """The names, in small letters, of views that are not ours; whoever reads one runs it."""
        self._check_schema(known)
        self.pages = {str(name): int(page) for name, page in self._run(_ROOTS)}
        """The first page of each table, by its name."""

    def _authorize(
        self, deed: int, what: str | None, _column: str | None, _db: str | None, _by: str | None
    ) -> int:
        """Let nothing but our tables be read; SQLite asks this of every statement."""
        if deed == apsw.SQLITE_SELECT or (
            deed == apsw.SQLITE_READ and (what in self._ours or what in _SCHEMA)
        ):
            return apsw.SQLITE_OK
        return apsw.SQLITE_DENY

    def _check_schema(self, known: dict[str, _Definition]) -> None:
        found: dict[str, _Definition] = {}
        rows = self._run("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY rowid")
        for kind, name, table, sql in rows:
            self.count_row()
            if not all(isinstance(text, str) for text in (kind, name, table)):
                raise ValueError("a definition has no name")
            if kind == "view" and known.get(name, kind)[1] != _plain(str(sql)):
                self.strange_views.add(name.lower())
            ours = self._ours.get(table.lower())
            if ours is not None and (kind != ours[0] or table != name):
                raise ValueError(
                    f"{_short(kind)} for the {ours[0]} {table.lower()}, which has none"
                )
            if ours is not None and name in self._ours:
                found[name] = kind, _plain(str(sql))
        for name, definition in self._ours.items():
            if name not in found:
                raise ValueError(f"there is no {definition[0]} {name}")
            if found[name] != definition:
                raise ValueError(f"the {definition[0]} {name} is not defined as format 1 has it")

    def numbers(self, table: str, columns: Sequence[Numbers], key: str | None) -> Columns:
        """Return columns of integers in the order of the rows.

        Args:
            table: its name.
            columns: what to take.
            key: the column that numbers the rows from 0; None for a table without one.

        Returns:
            arrays of int64 and the same shape, by the columns' names.

        Raises:
            TypeError, OverflowError: a cell is no such integer.
            ValueError: there are more rows than fit into the file, or they are not numbered.
            apsw.Error: the file is damaged.
        """
        self._connection.limit(apsw.SQLITE_LIMIT_LENGTH, _LONGEST_NUMBERS)
        taken = ([Numbers(key)] if key else []) + list(columns)
        rows = self._run(_select(table, [column.name for column in taken]))
        parts: list[list[NDArray[np.int64]]] = [[] for _ in taken]
        while some := list(itertools.islice(rows, _ROWS)):
            self.count_row(len(some))
            for part, cells, column in zip(parts, zip(*some, strict=True), taken, strict=True):
                part.append(from_cells(cells, np.int64, column.null))
        arrays = [np.concatenate(part) if part else np.zeros(0, np.int64) for part in parts]
        if key and not np.array_equal(arrays[0], np.arange(len(arrays[0]))):
            raise ValueError(f"the rows of {table} are not numbered from 0")
        return dict(zip((column.name for column in taken), arrays, strict=True))

    def texts(self, table: str, columns: Sequence[str], null: bool = False) -> Iterator[list[Any]]:
        """Yield rows of texts in the order of the table, None for NULL where ``null`` is on.

        Raises:
            TypeError: a cell is no text.
            ValueError: there is more than fits into the file.
            apsw.Error: the file is damaged.
        """
        self._connection.limit(apsw.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
        for row in self._run(_select(table, columns)):
            self.count_row()
            for cell in row:
                if isinstance(cell, str):
                    self._characters_left -= len(cell)
                elif cell is not None or not null:
                    raise TypeError(f"a cell of {table} is no text")
            if self._characters_left < 0:
                raise ValueError(f"the texts of {table} are longer than the file")
            yield list(row)

    def text_column(self, table: str, column: str) -> list[str]:
        """Return one column of texts in the order of the table, as ``texts()`` does of several."""
        self._connection.limit(apsw.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
        found: list[str] = []
        left = self._characters_left
        # Each cell is looked at before the next is fetched: all could be the same long one.
        for (cell,) in self._run(_select(table, [column])):
            if type(cell) is not str:
                raise TypeError(f"a cell of {table} is no text")
            left -= len(cell)
            if left < 0 or len(found) >= self._rows_left:
                raise ValueError(f"the texts of {table} are longer than the file")
            found.append(cell)
        self._characters_left = left
        self.count_row(len(found))
        return found

    def blobs(self, table: str, columns: Sequence[str]) -> Iterator[list[bytes | None]]:
        """Yield rows of bytes in the order of the table, None for NULL.

        Raises:
            TypeError: a cell is neither.
            ValueError: there is more than fits into the file.
            apsw.Error: the file is damaged.
        """
        self._connection.limit(apsw.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
        for row in self._run(_select(table, columns)):
            self.count_row()
            for cell in row:
                if isinstance(cell, bytes):
                    self._characters_left -= len(cell)
                elif cell is not None:
                    raise TypeError(f"a cell of {table} is no bytes")
            if self._characters_left < 0:
                raise ValueError(f"the bytes of {table} are longer than the file")
            yield list(row)

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


Columns = dict[str, "NDArray[np.int64]"]


def device_rows(device: NDArray[np.int64], devices: int) -> list[slice]:
    """Return where each device's rows lie in a table; they lie together.

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


def _definitions(schema: Path) -> dict[str, _Definition]:
    """Return the definitions of our tables and views by name."""
    script = _plain(schema.read_text("utf-8"))
    made = re.findall(r"(CREATE (TABLE|VIEW) (\w+) [^;]*)", script)
    return {name: (kind.lower(), sql) for sql, kind, name in made}


def _plain(sql: str) -> str:
    """Return a definition without comments, and with one space wherever there is any.

    As ours have neither quotes nor the other kind of comment, what becomes equal to one of them
    means the same to SQLite.
    """
    return re.sub(r"[ \t\n\f\r]+", " ", re.sub(r"--[^\n]*", "", sql)).strip(" ")


def _short(text: str) -> str:
    return text[:20] if text.isprintable() else "something"
