"""The tables of a bundle: how SQLite reads a stranger's, what ours are, how columns become cells.

A stranger's file is opened in memory: nothing in it runs, or takes forever to read. Its tables are
read if they are defined as ours are and fit into their file. A file can refer to the same bytes
again and again, so that a few pages make an endless table. In our files every row and character is
stored once, so more than the file can hold are refused.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import apsw
import numpy as np
from numpy.typing import NDArray

from snapreport.ground.errors import BundleError, reason_of
from snapreport.ground.records import dataclass
from snapreport.model.history import START

Columns: TypeAlias = dict[str, NDArray[np.int64]]

LONGEST_VALUE = 2**26
"""Bytes of one value or row: far above any call stack, far below what would do harm."""

_CHECK_EVERY = 20_000
"""Steps of SQLite's virtual machine between two checks of the limit: about a millisecond."""


_BEGIN = b"SQLite format 3\0"
_OFF = """
    TRUSTED_SCHEMA ENABLE_LOAD_EXTENSION ENABLE_TRIGGER ENABLE_FTS3_TOKENIZER WRITABLE_SCHEMA
    ENABLE_ATTACH_CREATE ENABLE_ATTACH_WRITE DQS_DDL DQS_DML
"""

_OPEN_LIMITS = {
    apsw.SQLITE_LIMIT_LENGTH: LONGEST_VALUE,
    apsw.SQLITE_LIMIT_ATTACHED: 0,
    apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1000,
    apsw.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    apsw.SQLITE_LIMIT_WORKER_THREADS: 0,
}


def open_in_memory(
    data: bytes, limits: dict[int, int] | None = None, name: str = "elements.db"
) -> apsw.Connection:
    """Open a copy of an SQLite file that cannot be changed, in defensive mode.

    Args:
        data: the file.
        limits: SQLite's limits by number, which add to ours or replace them.
        name: its name in the zip.

    Raises:
        BundleError: it does not begin like an SQLite file.
        apsw.Error: it is damaged.
    """
    if not data.startswith(_BEGIN):  # SQLite may treat a file with too few bytes as new
        raise BundleError(
            f"has a damaged {name} (it is not an SQLite file); make the bundle again."
        )
    connection = apsw.Connection(":memory:")
    try:
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        for each in _OFF.split():
            number = getattr(apsw, f"SQLITE_DBCONFIG_{each}", None)
            if number is not None:  # SQLite 3.47 lacks some
                connection.config(number, 0)
        connection.deserialize("main", data)
        for limit, most in (_OPEN_LIMITS | (limits or {})).items():
            connection.limit(limit, most)
        # The first statement also reads the tables' definitions, which may be circular.
        connection.set_progress_handler(_steps_guard(len(data)), _CHECK_EVERY)
        connection.pragma("query_only", True)
        connection.pragma("temp_store", 2)  # sorts spill into memory, not into files
        connection.pragma("cell_size_check", True)
        connection.pragma("mmap_size", 0)
    except BaseException:
        connection.close()
        raise
    return connection


_MOST_STEPS, _STEPS_FOR_A_BYTE = 2**22, 4
"""Steps of SQLite's virtual machine that any file may take, and more for each of its bytes. Real
files take at most one for a byte: a table's row has more bytes than it takes steps to read."""


def _steps_guard(size: int) -> Callable[[], bool]:
    """Return a progress handler that stops SQLite when a file of this size takes too many steps."""
    left = (_MOST_STEPS + _STEPS_FOR_A_BYTE * size) // _CHECK_EVERY

    def stop() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    return stop


def damaged(error: Exception, name: str = "elements.db") -> BundleError:
    """Return the error for a damaged database of that name."""
    endless = isinstance(error, apsw.InterruptError)
    reason = "reading it takes too many steps" if endless else reason_of(error)
    return BundleError(f"has a damaged {name} ({reason}); make the bundle again.")


@contextmanager
def explaining(name: str = "elements.db") -> Iterator[None]:
    """Turn what reading a damaged database raises into a BundleError that says why."""
    try:
        yield
    except apsw.Error as error:
        raise damaged(error, name) from error
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        raise BundleError(
            f"has an inconsistent {name} ({reason_of(error)}); make the bundle again."
        ) from error


# The definitions of our tables, which decide what is written and what may be read.

ELEMENTS = Path(__file__).with_name("schema.sql")
"""The definitions of the tables of ``elements.db``."""

_COLUMN = re.compile(r"\b(\w+) (INTEGER|TEXT|REAL|BLOB)( NOT NULL| PRIMARY KEY)?")


@dataclass(frozen=True)
class _Column:
    """A column of a table."""

    name: str
    kind: str
    """``INTEGER``, ``TEXT``, ``REAL`` or ``BLOB``."""
    null: bool
    """Whether it may be NULL."""


@dataclass(frozen=True)
class _Definition:
    """One of our tables or views."""

    kind: str
    """``table`` or ``view``."""
    sql: str
    """The statement that creates it, as ``_plain()`` returns it."""
    columns: tuple[_Column, ...]
    """Of a table, in order."""


def definitions(schema: Path) -> dict[str, _Definition]:
    """Return the definitions of our tables and views by name."""
    made = re.findall(r"(CREATE (TABLE|VIEW) (\w+) [^;]*)", _plain(schema.read_text("utf-8")))
    return {name: _Definition(kind.lower(), sql, _columns(kind, sql)) for sql, kind, name in made}


def _columns(kind: str, sql: str) -> tuple[_Column, ...]:
    found = _COLUMN.findall(sql) if kind == "TABLE" else ()
    return tuple(_Column(name, of, not rule) for name, of, rule in found)


def _plain(sql: str) -> str:
    """Return a definition without comments, with single spaces for all white space.

    Ours have neither quotes nor comments of the other kind, so a definition that becomes equal to
    one of ours means the same to SQLite.
    """
    return re.sub(r"[ \t\n\f\r]+", " ", re.sub(r"--[^\n]*", "", sql)).strip(" ")


# Columns as SQLite cells, and back; a sentinel in an array is NULL in a table.

Cells = list[int | None]


def to_cells(column: NDArray[Any], none: int) -> Cells:
    """Return a column as Python integers, with NULL for the value ``none``."""
    unknown = column == none
    if unknown.all():
        return [None] * len(column)
    values: Cells = column.tolist()
    for index in np.flatnonzero(unknown).tolist():
        values[index] = None
    return values


def from_cells(cells: Sequence[Any], none: int | None) -> NDArray[np.int64]:
    """Return cells as an array, with a sentinel for NULL; None where there may be no NULL.

    Raises:
        TypeError, ValueError, OverflowError: a cell is not an integer of 64 bits.
    """
    kinds = set(map(type, cells))
    if none is not None and type(None) in kinds:
        cells = [none if cell is None else cell for cell in cells]
        kinds.discard(type(None))
    if kinds - {int}:
        raise TypeError("a cell is not an integer")
    return np.array(cells, np.int64)


# Events and times of allocations as the differences of ``allocation_rows``, and back.

NOT_THERE = np.iinfo(np.int64).min
"""NULL, in columns that may be negative."""

SPAN = 32
"""Rows of ``allocation_rows`` that count from one row of ``allocation_spans``: few enough for small
differences, and enough for the spans to take little space."""


def span_bases(
    column: NDArray[np.int64], first_id: int, base: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the base of each span: the value of its first row, or 0 if that is unknown.

    Args:
        column: int64, shape (n,), events or times; negative where not known.
        first_id: id of the first row.
        base: of the span that the first row is in, if rows of another device began it.

    Returns:
        int64, of each span that begins here; and int64, shape (n,), of each row's span.
    """
    before = min(-first_id % SPAN, len(column))
    begun: NDArray[np.int64] = np.maximum(column[before::SPAN], 0)
    rows = np.concatenate((np.full(before, base), np.repeat(begun, SPAN)))
    return begun, rows[: len(column)]


def differences(
    begin: NDArray[np.int64], requested: NDArray[np.int64], free: NDArray[np.int64], never: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how long after each birth a free was requested, and how long after that it completed.

    Most allocations are freed soon after they are made, so the differences are small numbers, which
    SQLite stores in one or two bytes and which deflate well. ``add_up()`` and the view
    ``allocations`` of ``schema.sql`` add them up again.

    Args:
        begin, requested, free: int64, shape (n,), events or times; START or NO_TIME where unknown.
        never: the event that stands for never, or NO_TIME.

    Returns:
        int64, shape (n,); NOT_THERE where NULL.
    """
    # The reader accepts only times from 1970 to 9999, so no difference overflows.
    asked, freed = (requested != START) & (requested != never), free != never
    since, then = np.maximum(begin, 0), np.where(asked, requested, 0)
    return (
        np.where(asked, requested - since, NOT_THERE),
        np.where(freed, free - then, NOT_THERE),
    )


def add_up(
    begin: NDArray[np.int64], after: NDArray[np.int64], unknown: NDArray[np.bool_], never: int
) -> NDArray[np.int64]:
    """Return events or times that lie ``after`` others, which count as 0 where not known.

    Args:
        begin: int64, shape (n,), negative where not known.
        after: int64, shape (n,).
        unknown: bool, shape (n,): there is no difference.
        never: the result where there is no difference.
    """
    found: NDArray[np.int64] = np.maximum(begin, 0)
    found += after
    found[unknown] = never
    return found


# Whole tables.

_LEAST_ROW = 4
"""Bytes of the file for each row read: the shortest row has 7, and some are read twice."""

_ROWS = 1024
"""Rows that are read at a time: at most 64 MiB if each cell is as long as a page."""

_LONGEST_NUMBERS = 4096
"""Bytes of a row of numbers: more than any of ours has."""

_TABLE_LIMITS = {
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
    with explaining(name), closing(open_in_memory(data, _TABLE_LIMITS, name)) as connection:
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
        self._rows_left = len(data) // _LEAST_ROW
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

    def _check_schema(self, known: dict[str, _Definition]) -> None:
        found: dict[str, tuple[str, str]] = {}
        rows = self._run("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY rowid")
        for kind, name, table, sql in rows:
            self.count_row()
            if not all(isinstance(text, str) for text in (kind, name, table)):
                raise ValueError("a definition has no name")
            if kind == "view" and (name not in known or known[name].sql != _plain(str(sql))):
                self.strange_views.add(name.lower())
            ours = self._ours.get(table.lower())
            if ours is not None and (kind != ours.kind or table != name):
                raise ValueError(f"the {ours.kind} {table.lower()} has an extra {_short(kind)}")
            if ours is not None and name in self._ours:
                found[name] = kind, _plain(str(sql))
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
