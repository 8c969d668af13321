"""Runs SQL on ``elements.db``, in a database in memory that statements can only read."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from itertools import islice
from typing import Any

import apsw

from snapreport.bundle.tables import Tables, damaged, explaining, open_in_memory
from snapreport.ground.errors import BundleError, QueryError, reason_of
from snapreport.ground.processes import ChildProcess, ProcessLostError, Tell
from snapreport.ground.units import format_bytes
from snapreport.model.answers import Cell, QueryAnswer

_CHECK_EVERY = 20_000
"""Steps of SQLite's virtual machine between two checks of the clock and for Ctrl-C: about 1 ms."""

LONGEST = 2**20
"""Bytes of a value in a query: searching one such value in another takes seconds, not days."""

_PRAGMA_NAMES = """
    table_info table_xinfo table_list index_list index_info index_xinfo foreign_key_list
"""
_PRAGMAS = frozenset(_PRAGMA_NAMES.split())
_VIRTUAL = frozenset(["json_each", "json_tree", *(f"pragma_{name}" for name in _PRAGMAS)])
_SCHEMA = frozenset(["sqlite_schema", "sqlite_master"])

# What SQLite itself calls core, date, aggregate, window, math and JSON functions, except those
# that load code or make large values from nothing.
_FUNCTION_NAMES = """
    -> ->> abs acos acosh asin asinh atan atan2 atanh avg ceil ceiling char coalesce concat
    concat_ws cos cosh count cume_dist current_date current_time current_timestamp date datetime
    degrees dense_rank exp first_value floor format glob group_concat hex if ifnull iif instr json
    json_array json_array_length json_extract json_group_array json_group_object json_object
    json_pretty json_quote json_type json_valid julianday lag last_value lead length like
    likelihood likely ln log log10 log2 lower ltrim max median min mod nth_value ntile nullif
    octet_length percent_rank percentile percentile_cont percentile_disc pi pow power printf quote
    radians random rank replace round row_number rtrim sign sin sinh sqlite_version sqrt strftime
    string_agg substr substring sum tan tanh time timediff total trim trunc typeof unhex unicode
    unixepoch unlikely upper
"""
_FUNCTIONS = frozenset(_FUNCTION_NAMES.split())

_NAMED = 50
"""The most tables that a message names."""

_VIEW_CHANGE = re.compile(r"^cannot modify (.*) because it is a view$")

_ACTIONS = {
    apsw.SQLITE_INSERT: "insert into",
    apsw.SQLITE_UPDATE: "update",
    apsw.SQLITE_DELETE: "delete from",
    apsw.SQLITE_ATTACH: "attach",
    apsw.SQLITE_DETACH: "detach",
    apsw.SQLITE_PRAGMA: "use the pragma",
    apsw.SQLITE_FUNCTION: "call",
    apsw.SQLITE_READ: "read",
    apsw.SQLITE_TRANSACTION: "control a transaction:",
    apsw.SQLITE_SAVEPOINT: "control a savepoint:",
}


class Database:
    """An ``elements.db`` held in memory.

    Nothing in it can be written, attached or loaded, whatever the SQL: an authorizer allows
    only reads of its tables and harmless functions, and it is a copy anyway.
    """

    def __init__(
        self,
        data: bytes,
        *,
        seconds: float | None = None,
        memory: int | None = None,
        longest: int = LONGEST,
    ) -> None:
        """Open the bytes of an SQLite file.

        Args:
            data: the file.
            seconds: the most that SQLite may work on one statement; None for no limit.
            memory: the most bytes that SQLite may use, in the whole process; None for no limit.
            longest: the most bytes of a value or row.

        Raises:
            BundleError: it is not an SQLite database, or a damaged one, or its tables are not ours.
        """
        self._seconds = seconds
        self._entered = self._spent = 0.0
        self._refused = ""
        self._longest = longest
        with explaining():
            self._connection = open_in_memory(data)
            modules = self._connection.execute("SELECT name FROM pragma_module_list")
            self._modules = {str(name).lower() for (name,) in modules} - _VIRTUAL
            self._strange = Tables(self._connection, data).strange_views
        self._connection.limit(apsw.SQLITE_LIMIT_LENGTH, longest)
        self._connection.limit(apsw.SQLITE_LIMIT_SQL_LENGTH, LONGEST)
        if memory is not None:
            apsw.hard_heap_limit(memory)
        self._connection.set_authorizer(self._authorize)
        self._connection.set_progress_handler(self._too_long, _CHECK_EVERY)

    def run(self, sql: str) -> Iterator[QueryAnswer]:
        """Run the statements of a text one by one; read the rows of each before the next.

        Raises:
            QueryError: it is not SQL, would write, or takes too long; the message says why.
            BundleError: the database is damaged.
        """
        for statement in statements(sql):
            answer = self._run_one(statement)
            if answer is not None:
                yield answer

    def _run_one(self, statement: str) -> QueryAnswer | None:
        cursor = self._connection.cursor()
        columns: list[str] = []

        def describe(running: apsw.Cursor, _sql: str, _bindings: object) -> bool:
            columns.extend(str(name) for name, _ in running.get_description())
            return True

        cursor.exec_trace = describe  # called before the first row, even if there is none
        self._refused, self._spent = "", 0.0
        rows = self._rows(cursor, statement)
        first = next(rows, None)
        if not columns:
            return None  # nothing but a comment
        return QueryAnswer(_distinct(columns), _chain(first, rows))

    def _rows(self, cursor: apsw.Cursor, statement: str) -> Iterator[tuple[Cell, ...]]:
        """Step through a statement, counting only the time that SQLite itself takes."""
        try:
            self._entered = time.monotonic()
            running = iter(cursor.execute(statement))
            while True:
                row = next(running, None)
                self._spent += time.monotonic() - self._entered
                if row is None:
                    return
                yield row
                self._entered = time.monotonic()
        except apsw.Error as error:
            raise self._explain(error) from error
        except UnicodeDecodeError as error:
            raise QueryError(
                "The query returns a text that is not UTF-8; CAST(... AS BLOB) shows its bytes."
            ) from error
        finally:
            cursor.close(True)

    def _too_long(self) -> bool:
        if self._seconds is None:
            return False
        return self._spent + time.monotonic() - self._entered > self._seconds

    def _authorize(
        self, action: int, what: str | None, more: str | None, _db: str | None, by: str | None
    ) -> int:
        """Allow only reads; SQLite calls this for every statement, views included."""
        if by is not None and by.lower() in self._strange:
            action, what = apsw.SQLITE_READ, by
        if action in (apsw.SQLITE_SELECT, apsw.SQLITE_RECURSIVE):
            return apsw.SQLITE_OK
        name = (what or "").lower()
        if action == apsw.SQLITE_READ:
            # All other names are tables, our views, or those of WITH.
            allowed = name not in self._modules and name not in self._strange
        elif action == apsw.SQLITE_FUNCTION:
            name = (more or "").lower()
            allowed = name in _FUNCTIONS
        else:
            allowed = action == apsw.SQLITE_PRAGMA and name in _PRAGMAS
        if allowed:
            return apsw.SQLITE_OK
        self._refused = self._refused or _described(action, name)
        return apsw.SQLITE_DENY

    def _explain(self, error: apsw.Error) -> Exception:
        text = reason_of(error).removeprefix("SQLError: ")
        if self._refused:
            return QueryError(f"A query can only read, but this one would {self._refused}.")
        if found := _VIEW_CHANGE.search(text):  # SQLite checks this before it asks us
            return QueryError(f"A query can only read, but this one would change {found[1]}.")
        if isinstance(error, apsw.InterruptError):
            return took_too_long(self._seconds)
        if isinstance(error, apsw.TooBigError):
            return QueryError(
                f"The query reads a value of more than {format_bytes(self._longest)}; leave it out."
            )
        if isinstance(error, (apsw.CorruptError, apsw.NotADBError)):
            return damaged(error)
        if isinstance(error, apsw.BindingsError):
            return QueryError("The query has a placeholder; write the value in its place.")
        if isinstance(error, apsw.NoMemError):
            return QueryError("The query needs more memory than it may use; ask for less.")
        if isinstance(error, apsw.ReadOnlyError):
            return QueryError("A query can only read.")
        return QueryError(f"SQLite cannot run the query: {text}.")

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """The names of tables and views, in the order of the schema."""
        rows = self._own_rows(
            "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') ORDER BY rowid"
        )
        return tuple(str(name) for (name,) in rows)

    def interrupt(self) -> None:
        """End the statement that runs in another thread, after its current step."""
        self._connection.interrupt()

    def schema(self, name: str | None = None) -> str:
        """Return the statements that made the tables and views, or one of them, with comments.

        Raises:
            QueryError: there is no such table.
        """
        found = [
            f"{sql!s};"
            for table, sql in self._own_rows(
                "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid"
            )
            if name is None or str(table).lower() == name.lower()
        ]
        if not found and name is not None:
            known = ", ".join(self.tables[:_NAMED])
            raise QueryError(f"There is no table {name!r}; there are {known}.")
        return "\n".join(found)

    def _own_rows(self, sql: str) -> Iterator[tuple[Cell, ...]]:
        self._refused, self._spent = "", 0.0
        return self._rows(self._connection.cursor(), sql)


def ask_once(database: Database, sql: str) -> list[dict[str, Cell]]:
    """Return the rows of one statement as dicts, by column name.

    SQLite runs in a thread of its own, so that Ctrl-C need not wait for the end of a step, which
    can be a search of one long text in another.

    Raises:
        QueryError: there are several statements, or one of them is wrong.
        BundleError: the database is damaged.
    """
    found: list[dict[str, Cell]] = []
    errors: list[BaseException] = []

    def ask() -> None:
        try:
            answers = database.run(sql)
            for answer in islice(answers, 1):
                found.extend(dict(zip(answer.columns, row, strict=True)) for row in answer.rows)
            if next(answers, None) is not None:
                raise QueryError("A query must be one statement; this one has several.")
        except BaseException as error:
            errors.append(error)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    try:
        asking.join()
    except BaseException:  # Ctrl-C, and what other signals raise
        database.interrupt()
        raise
    for error in errors:
        raise error
    return found


def took_too_long(seconds: float | None) -> QueryError:
    """Return the error for a query over its time limit."""
    return QueryError(f"The query took more than {seconds:g} seconds; ask for less, or allow more.")


def statements(sql: str) -> Iterator[str]:
    """Split a text at the semicolons that end a statement, not at those in quotes and comments.

    Raises:
        QueryError: it has a NUL character, at which SQLite would silently stop.
    """
    if "\0" in sql:
        raise QueryError("The query contains a NUL character.")
    start, place = 0, sql.find(";")
    while place >= 0:
        if apsw.complete(sql[start : place + 1]):
            yield sql[start : place + 1]
            start = place + 1
        place = sql.find(";", place + 1)
    if sql[start:].strip():
        yield sql[start:]


def _chain(
    first: tuple[Cell, ...] | None, rest: Iterator[tuple[Cell, ...]]
) -> Iterator[tuple[Cell, ...]]:
    if first is not None:
        yield first
        yield from rest


def _distinct(columns: list[str]) -> tuple[str, ...]:
    """Number columns of equal names, so that none hides another in JSON."""
    taken: set[str] = set()
    names = []
    for column in columns:
        name, number = column, 1
        while name in taken:
            number += 1
            name = f"{column}_{number}"
        taken.add(name)
        names.append(name)
    return tuple(names)


def _described(action: int, name: str) -> str:
    """Say in words what a statement would do."""
    if name in _SCHEMA:
        return "change the tables"
    known = _ACTIONS.get(action)
    if known is None:
        text = str(apsw.mapping_authorizer_function.get(action, action))
        known = text.removeprefix("SQLITE_").lower().replace("_", " ")
    return f"{known} {name or 'a database'}"


_GRACE = 1.0
"""Seconds that a process may go on after it should have ended its statement."""


class QueryProcess:
    """A ``Database`` in a process of its own; close it when done.

    SQLite can be interrupted only between the steps of its virtual machine, and one step can be a
    search of one long text in another, which takes forever: a process can be killed in any step.
    """

    def __init__(
        self,
        data: bytes,
        name: str,
        *,
        seconds: float | None = None,
        memory: int | None = None,
    ) -> None:
        """Open the bytes of an SQLite file, as ``Database`` does.

        Args:
            data: the file.
            name: of the bundle that it is in, for messages.
            seconds, memory: as for ``Database``.

        Raises:
            BundleError: it is not an SQLite database, or a damaged one.
        """
        self._data, self._name, self._seconds, self._memory = data, name, seconds, memory
        self._process: ChildProcess | None = None
        self.tables: tuple[str, ...] = self._ask("tables")[1]

    def run(self, sql: str) -> Iterator[QueryAnswer]:
        """Run the statements of a text one by one; read the rows of each before the next.

        Raises:
            QueryError, BundleError: as for ``Database.run()``.
        """
        for statement in statements(sql):
            done, columns = self._ask("run", statement)
            if not done:
                yield QueryAnswer(columns, self._rows())

    def schema(self, name: str | None = None) -> str:
        """Return the statements that made the tables and views, or one of them, with comments.

        Raises:
            QueryError: there is no such table.
        """
        text: str = self._ask("schema", name)[1]
        return text

    def end_statement(self) -> None:
        """End the statement that another thread waits for, which gets a QueryError."""
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """End the process, whatever it is doing."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def _rows(self) -> Iterator[tuple[Cell, ...]]:
        while True:
            done, part = self._hear()
            if done:
                return
            yield from part

    def _ask(self, *question: Any) -> tuple[bool, Any]:
        # The caller dropped the rows of the last query, or it was ended as it was answered.
        if self._process is not None and not self._process.ready:
            self.close()
        if self._process is None:  # a fork shares the database with us
            arguments = (self._data, self._seconds, self._memory)
            self._process = ChildProcess("fork", _open, *arguments)
        self._process.ask(*question)
        return self._hear()

    def _hear(self) -> tuple[bool, Any]:
        """Return the next part of an answer, as ``ChildProcess.hear()`` does.

        Raises:
            SnapreportError: what the process raised, or that it took too long or has died.
        """
        process = self._process
        assert process is not None, "the process has not been started"
        try:
            return process.hear(None if self._seconds is None else self._seconds + _GRACE)
        except BundleError as error:
            raise BundleError(f"{self._name} {error}") from None
        except TimeoutError:
            self.close()
            raise took_too_long(self._seconds) from None
        except ProcessLostError as error:
            if process.stopped:
                raise QueryError("The query was ended.") from None
            raise QueryError(f"The query's process is gone: {error}; ask for less.") from None
        except BaseException as error:
            if not isinstance(error, Exception):  # Ctrl-C, or a signal that ends us
                self.close()
            raise


def _open(data: bytes, seconds: float | None, memory: int | None) -> Callable[..., Any]:
    """Open a database in the process, and return what answers its questions."""
    return partial(_answer, Database(data, seconds=seconds, memory=memory))


def _answer(database: Database, tell: Tell, question: str, *arguments: Any) -> Any:
    if question == "schema":
        return database.schema(*arguments)
    if question == "tables":
        return database.tables
    for answer in database.run(*arguments):
        tell(answer.columns)
        for part in _parts(answer.rows):
            tell(part)
    return None


_ROWS, _LETTERS, _SECONDS = 1000, 2**20, 0.05
"""The most that is sent at once, so that rows arrive as they are found."""


def _parts(rows: Iterator[tuple[Cell, ...]]) -> Iterator[list[tuple[Cell, ...]]]:
    """Yield rows in parts that are limited in number, size and delay."""
    part: list[tuple[Cell, ...]] = []
    letters, begun = 0, time.monotonic()
    for row in rows:
        part.append(row)
        letters += sum(len(cell) for cell in row if isinstance(cell, (str, bytes)))
        if len(part) >= _ROWS or letters >= _LETTERS or time.monotonic() - begun > _SECONDS:
            yield part
            part, letters, begun = [], 0, time.monotonic()
    if part:
        yield part
