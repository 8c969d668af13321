"""``snapreport query``: SQL over the tables of a bundle; from an argument, a pipe or a shell."""

from __future__ import annotations

import csv
import io
import itertools
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from snapreport.commands.console import print_bytes, progress_bar, say_error
from snapreport.commands.options import source_argument
from snapreport.commands.output import Answer, answer_options
from snapreport.ground.errors import QueryError, SnapreportError
from snapreport.ground.safe_text import csv_cell, plain_json, visible
from snapreport.model.answers import QUERY_MEMORY, QUERY_SECONDS, Cell, QueryAnswer

if TYPE_CHECKING:
    from snapreport.bundle.query import QueryProcess

_ROWS = 100
"""Rows shown of a result without --full."""


@click.command()
@source_argument("BUNDLE|SNAPSHOT")
@click.argument("sql", required=False)
@click.option("--schema", is_flag=True, help="Print the tables and what their columns mean.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=QUERY_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="The longest that one statement may take; 0 for no limit.",
)
@answer_options(csv="Print comma-separated rows with a heading.")
def query(
    source: Path,
    sql: str | None,
    schema: bool,
    timeout: float,
    answer: Answer,
) -> None:
    """Query the elements.db of a BUNDLE, or the one that a SNAPSHOT would give, in SQL.

    The SQL comes from the command line or a pipe. Without either a shell opens: its statements end
    in a semicolon, and .help says more. Nothing can be written, attached or loaded.

    \b
    Example:
      snapreport query snap.zip "SELECT count(*), sum(size) FROM allocations"
    """  # fmt: skip
    from snapreport.api.loading import open_database, read_tables

    with progress_bar(answer.quiet) as progress:
        data = read_tables(source, keep_paths=answer.keep_paths, progress=progress)
    # Only now: beside the bar's thread the process could not be forked, and would start slowly.
    found = open_database(source, data, seconds=timeout or None, memory=QUERY_MEMORY)
    with closing(found) as database:
        if schema:
            print_bytes(database.schema().encode() + b"\n")
        elif sql is not None or not sys.stdin.isatty():
            _answer(database, answer, _piped() if sql is None else sql)
        else:
            run = partial(_answer, database, answer)
            Shell(run, database.schema, database.tables).run(terminal_lines())


def _piped() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise QueryError(f"The query on stdin is not UTF-8 text (byte {error.start}).") from error


def _answer(database: QueryProcess, answer: Answer, sql: str) -> None:
    """Run statements and print their results.

    Raises:
        QueryError: one fails, or JSON or CSV was asked for more than one.
    """
    from snapreport.reporters.answers import query_document

    for number, found in enumerate(database.run(sql)):
        if answer.as_json or answer.as_csv:
            if number:
                form = "--json" if answer.as_json else "--csv"
                raise QueryError(f"{form} takes one statement, and there are several.")
            for part in (json_lines if answer.as_json else csv_lines)(found):
                print_bytes(part)
        else:
            print_bytes(b"\n" * bool(number))
            answer.print(query_document(found, None if answer.full else _ROWS))


# Rows as JSON and CSV: written in chunks as they are computed, so that no result is too large.


_AT_ONCE = 1000
"""Rows in a chunk."""


def json_lines(answer: QueryAnswer) -> Iterator[bytes]:
    """Yield an answer as JSON with an object for each row, in chunks of rows."""
    from snapreport.reporters.json_report import with_format

    head = orjson.dumps(with_format("query", {"columns": answer.columns}))
    yield plain_json(head)[:-1] + b',"rows":['
    before = b"\n"
    for chunk in _chunks(answer):
        rows = (dict(zip(answer.columns, map(_json_cell, row), strict=True)) for row in chunk)
        yield before + b",\n".join(plain_json(orjson.dumps(row)) for row in rows)
        before = b",\n"
    yield b"\n]}\n"


def _json_cell(cell: Cell) -> Cell:
    if isinstance(cell, bytes):
        return cell.hex()
    return str(cell) if isinstance(cell, float) and not math.isfinite(cell) else cell


def csv_lines(answer: QueryAnswer) -> Iterator[bytes]:
    """Yield an answer as CSV with a heading, in chunks of rows; NULL is an empty field."""
    heading: list[tuple[Cell, ...]] = [tuple(answer.columns)]
    for chunk in itertools.chain([heading], _chunks(answer)):
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(map(_csv_cell, row) for row in chunk)
        yield text.getvalue().encode()


def _csv_cell(cell: Cell) -> Cell:
    if isinstance(cell, str):
        return csv_cell(cell)
    return cell.hex() if isinstance(cell, bytes) else cell


def _chunks(answer: QueryAnswer) -> Iterator[list[tuple[Cell, ...]]]:
    while chunk := list(itertools.islice(answer.rows, _AT_ONCE)):
        yield chunk


# The shell: statements over several lines, and a few dot commands.


PROMPT, MORE = "sql> ", "...> "

_HELP = """\
.tables          the names of the tables
.schema [TABLE]  what their columns mean
.quit            leave; so does Ctrl-D
Anything else is SQL, run when a line ends in a semicolon. Ctrl-C drops what was typed.
"""

ReadLine = Callable[[str], str]
"""Returns the line typed at a prompt; raises EOFError at the end, KeyboardInterrupt on Ctrl-C."""


class Shell:
    """Reads statements and dot commands until ``.quit``."""

    def __init__(
        self,
        run: Callable[[str], None],
        schema: Callable[[str | None], str],
        tables: Sequence[str],
    ) -> None:
        """``run`` answers a statement; ``schema`` describes one table, or all."""
        self._run = run
        self._schema = schema
        self._tables = tables

    def run(self, read_line: ReadLine) -> None:
        """Read and answer until .quit or the end of the input; an error does not end the shell."""
        import apsw

        text = ""
        while True:
            try:
                line = read_line(MORE if text else PROMPT)
            except EOFError:
                click.echo()
                return
            except KeyboardInterrupt:
                click.echo()
                text = ""
                continue
            if not text and line.strip().startswith("."):
                if line.split()[0] in (".quit", ".exit", ".q"):
                    return
                self._guarded(self._dot, line)
                continue
            text = f"{text}\n{line}" if text else line
            if apsw.complete(text):  # it ends in a semicolon outside quotes and comments
                self._guarded(self._run, text)
                text = ""
            elif not text.strip():
                text = ""

    def _guarded(self, answer: Callable[[str], None], typed: str) -> None:
        try:
            answer(typed)
        except SnapreportError as error:
            say_error(str(error))
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)

    def _dot(self, line: str) -> None:
        words = line.split()
        if words[0] == ".tables":
            print_bytes("".join(f"{visible(name)}\n" for name in self._tables).encode())
        elif words[0] == ".schema":
            print_bytes(self._schema(words[1] if words[1:] else None).encode() + b"\n")
        else:
            print_bytes(_HELP.encode())


def terminal_lines() -> ReadLine:
    """Return a function that reads lines from the terminal, with editing and history if possible.

    These need readline. The history is kept in ``snapreport/query_history`` under
    ``$XDG_STATE_HOME``.
    """
    try:
        import readline
    except ImportError:  # Windows
        return input
    state = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    history = Path(state) / "snapreport" / "query_history"
    try:
        history.parent.mkdir(parents=True, exist_ok=True)
        if history.exists():
            readline.read_history_file(history)
    except OSError:
        return input  # the home folder is not writable: go without a saved history

    def save() -> None:
        with suppress(OSError):
            readline.set_history_length(1000)
            readline.write_history_file(history)

    import atexit

    atexit.register(save)
    return input
