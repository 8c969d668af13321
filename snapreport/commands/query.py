"""``snapreport query``: SQL over the tables of a bundle."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from snapreport.commands.options.name_options import keep_paths_option, paths_kept
from snapreport.commands.options.shared_options import full_option, quiet_option, source_argument
from snapreport.commands.output.console import print_bytes, progress_bar
from snapreport.commands.output.query_shell import Shell, terminal_lines
from snapreport.ground.errors import QueryError
from snapreport.model.answer_tables import QUERY_MEMORY, QUERY_SECONDS

if TYPE_CHECKING:
    from snapreport.api.loading import QueryProcess

ROWS = 100
"""Rows shown of a result without --full."""


@click.command()
@source_argument("BUNDLE|SNAPSHOT")
@click.argument("sql", required=False)
@click.option("--json", "form", flag_value="json", help="Print an array with one object per row.")
@click.option("--csv", "form", flag_value="csv", help="Print comma-separated rows with a heading.")
@click.option("--schema", is_flag=True, help="Print the tables and what their columns mean.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=QUERY_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="The longest that one statement may take; 0 for no limit.",
)
@full_option
@keep_paths_option
@quiet_option
def query(
    source: Path,
    sql: str | None,
    form: str | None,
    schema: bool,
    timeout: float,
    full: bool,
    quiet: bool,
) -> None:
    """Query the elements.db of a BUNDLE, or the one that a SNAPSHOT would give, in SQL.

    The SQL comes from the command line or a pipe. Without either a shell opens: its statements end
    in a semicolon, and .help says more. Nothing can be written, attached or loaded.

    \b
    Example:
      snapreport query snap.zip "SELECT count(*), sum(size) FROM allocations"
    """  # fmt: skip
    from snapreport.api.loading import open_database, read_tables

    with progress_bar(quiet) as progress:
        data = read_tables(source, keep_paths=paths_kept(), progress=progress)
    # Only now: beside the bar's thread the process could not be forked, and would start slowly.
    found = open_database(source, data, seconds=timeout or None, memory=QUERY_MEMORY)
    with closing(found) as database:
        if schema:
            print_bytes(database.schema().encode() + b"\n")
        elif sql is not None:
            answer(database, sql, form, full)
        elif sys.stdin.isatty():
            Shell(
                lambda text: answer(database, text, form, full), database.schema, database.tables
            ).run(terminal_lines())
        else:
            answer(database, _piped(), form, full)


def _piped() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise QueryError(f"The query on stdin is not UTF-8 text (byte {error.start}).") from error


def answer(database: QueryProcess, sql: str, form: str | None, full: bool) -> None:
    """Run statements and print their results.

    Raises:
        QueryError: one fails, or JSON or CSV was asked for more than one.
    """
    from snapreport.reporters.terminal.query_text import csv_lines, json_lines, table
    from snapreport.reporters.terminal.text_tables import terminal_width

    for number, found in enumerate(database.run(sql)):
        if form is not None and number:
            raise QueryError(f"--{form} takes one statement, and there are several.")
        if form == "json":
            for part in json_lines(found):
                print_bytes(part)
        elif form == "csv":
            for part in csv_lines(found):
                print_bytes(part)
        else:
            if number:
                print_bytes(b"\n")
            print_bytes(table(found, terminal_width(full), None if full else ROWS))
