"""``query``: read-only SQL over the tables of a recording."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from snapreport.bundle.query.sql_query import statements
from snapreport.ground.errors import QueryError
from snapreport.mcp.answering.reply import Reply, table
from snapreport.mcp.opened.kept_recording import KeptRecording

MOST_ROWS = 10_000
"""The most rows of an answer; a question that needs more should aggregate."""
_MOST_LETTERS = 2**24
_LONGEST_CELL = 2000


def query_reply(recording: KeptRecording, arguments: Mapping[str, Any]) -> Reply:
    """Run one statement and return its rows.

    Raises:
        QueryError: it is not one statement, would write, or takes too long.
    """
    if len(list(statements(arguments["sql"]))) > 1:
        raise QueryError("That is more than one statement; send them one at a time.")
    answer = next(recording.database.run(arguments["sql"]), None)
    if answer is None:
        raise QueryError("That has no statement; send one that reads, such as a SELECT.")
    rows: list[tuple[Any, ...]] = []
    letters = 0
    for row in islice(answer.rows, MOST_ROWS):
        cells = tuple(_cell(value) for value in row)
        letters += sum(len(cell) for cell in cells if isinstance(cell, str))
        if letters > _MOST_LETTERS:
            break
        rows.append(cells)
    more = len(rows) >= MOST_ROWS or letters > _MOST_LETTERS
    head = {
        "answer": f"{'at least ' if more else ''}{len(rows):,} row{'s' if len(rows) != 1 else ''}"
    }
    columns = tuple((name, "any") for name in answer.columns)
    return Reply(
        {"file": recording.file.shown},
        head,
        (table("rows", columns, rows),),
    )


def _cell(value: Any) -> Any:
    if isinstance(value, bytes):
        value = f"x'{value[: _LONGEST_CELL // 2].hex()}'"
    if isinstance(value, str) and len(value) > _LONGEST_CELL:
        return f"{value[:_LONGEST_CELL]}…"
    return value
