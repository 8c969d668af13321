"""Queries a database in a process of its own, which can be killed in the middle of any step.

SQLite can be interrupted only between the steps of its virtual machine, and one step can be a
search of one long text in another, which takes forever.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from snapreport.bundle.query.sql_query import Database, statements, took_too_long
from snapreport.ground.errors import BundleError, QueryError, SnapreportError
from snapreport.ground.processes.child_process import ChildProcess
from snapreport.model.answer_tables import Cell, QueryAnswer

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_GRACE = 1.0
"""Seconds that a process may go on after it should have ended its statement."""

_ROWS, _LETTERS, _SECONDS = 1000, 2**20, 0.05
"""The most that is sent at once, so that rows arrive as they are found."""


class QueryProcess:
    """A ``Database`` in another process; close it when done."""

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
        self._ended: ChildProcess | None = None
        """The last process that ``end_statement()`` ended."""
        self._busy = False
        self.tables: tuple[str, ...] = self._ask("tables")
        self._busy = False

    def run(self, sql: str) -> Iterator[QueryAnswer]:
        """Run the statements of a text one by one; read the rows of each before the next.

        Raises:
            QueryError, BundleError: as for ``Database.run()``.
        """
        for statement in statements(sql):
            columns = self._ask("run", statement)
            if columns is not None:
                yield QueryAnswer(columns, self._rows())

    def schema(self, name: str | None = None) -> str:
        """Return the statements that made the tables and views, or one of them, with comments.

        Raises:
            QueryError: there is no such table.
        """
        text: str = self._ask("schema", name)
        return text

    def end_statement(self) -> None:
        """End the statement that another thread waits for, which gets a QueryError."""
        process = self._process
        if process is not None:
            self._ended = process
            process.kill()

    def close(self) -> None:
        """End the process, whatever it is doing."""
        if self._process is not None:
            self._process.connection.close()
            self._process.end()
            self._process = None

    def _rows(self) -> Iterator[tuple[Cell, ...]]:
        while (part := self._receive()) is not None:
            yield from part

    def _ask(self, *question: Any) -> Any:
        # The caller dropped the rows of the last query, or it was ended as it was answered.
        if self._busy or self._ended is self._process:
            self.close()
        if self._process is None:  # a fork shares the database with us
            arguments = (self._data, self._seconds, self._memory)
            self._process = ChildProcess("fork", _serve, *arguments)
        self._busy = True
        with suppress(OSError):  # a dead process is noticed on reading
            self._process.connection.send(question)
        return self._receive()

    def _receive(self) -> Any:
        """Return the next message of the process; None is the end of an answer.

        Raises:
            SnapreportError: what the process raised, or that it took too long or has died.
        """
        assert self._process is not None, "the process has not been started"
        connection = self._process.connection
        try:
            if not connection.poll(None if self._seconds is None else self._seconds + _GRACE):
                raise took_too_long(self._seconds)
            message = connection.recv()
        except (EOFError, ConnectionError):
            how = self._process.how_it_ended()
            ended = self._ended is self._process
            self.close()
            if ended:
                raise QueryError("The query was ended.") from None
            raise QueryError(f"The query's process is gone: {how}; ask for less.") from None
        except BaseException:  # Ctrl-C and SIGTERM too
            self.close()
            raise
        if message is None or isinstance(message, (str, Exception)):
            self._busy = False
        if isinstance(message, BundleError):
            raise BundleError(f"{self._name} {message}")
        if isinstance(message, Exception):
            raise message
        return message


def _serve(connection: Connection, data: bytes, seconds: float | None, memory: int | None) -> None:
    """Answer questions until the connection closes; runs in the process."""
    try:
        database = Database(data, seconds=seconds, memory=memory)
    except SnapreportError as error:
        connection.send(error)
        return
    while True:
        question, *arguments = connection.recv()
        try:
            for message in _answer(database, question, *arguments):
                connection.send(message)
        except SnapreportError as error:
            connection.send(error)


def _answer(database: Database, question: str, *arguments: Any) -> Iterator[Any]:
    if question == "schema":
        yield database.schema(*arguments)
    elif question == "tables":
        yield database.tables
    else:
        for answer in database.run(*arguments):
            yield answer.columns
            yield from _parts(answer.rows)
        yield None


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
