"""The rows that a query returns, as an aligned table, JSON or CSV."""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Iterator

import orjson

from snapreport.ground.safe_text import csv_cell, plain_json
from snapreport.ground.units import format_count
from snapreport.model.answer_tables import Cell, QueryAnswer
from snapreport.reporters.json.json_parts import with_format
from snapreport.reporters.terminal.text_tables import Page
from snapreport.reporters.words.plain_text import cut, one_line

_AT_ONCE = 1000


def table(answer: QueryAnswer, width: int, most: int | None) -> bytes:
    """Return an answer as an aligned table.

    Args:
        answer: what the query returned; its rows are consumed.
        width: of the terminal, in columns.
        most: the most rows to show; None for all.
    """
    found = list(itertools.islice(answer.rows, None if most is None else most + 1))
    shown = found[:most]
    texts = [[_text(cell) for cell in row] for row in shown]
    left = [
        i
        for i in range(len(answer.columns))
        if not any(isinstance(row[i], (int, float)) for row in shown)
        or not all(row[i] is None or isinstance(row[i], (int, float)) for row in shown)
    ]
    page = Page(width)
    page.table(answer.columns, texts, left, cut=cut)
    if not shown:
        page.say("(no rows)")
    if len(found) > len(shown):
        page.say(f"and more than these {format_count(len(shown))} rows; --full shows all")
    return page.render()


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bytes):
        return f"x'{cell.hex()}'"
    # A call stack has a line for each frame; here they share one line, outermost last.
    return one_line(" < ".join(cell.split("\n"))) if isinstance(cell, str) else str(cell)


def json_lines(answer: QueryAnswer) -> Iterator[bytes]:
    """Yield an answer as JSON with an object for each row, in chunks of rows."""
    head = orjson.dumps(with_format("query", {"columns": answer.columns}))
    yield plain_json(head)[:-1] + b',"rows":['
    first = True
    for chunk in _chunks(answer):
        rows = [
            plain_json(orjson.dumps(dict(zip(answer.columns, map(_plain, row), strict=True))))
            for row in chunk
        ]
        yield (b"\n" if first else b",\n") + b",\n".join(rows)
        first = False
    yield b"\n]}\n"


def _plain(cell: Cell) -> Cell:
    if isinstance(cell, bytes):
        return cell.hex()
    if isinstance(cell, float) and not math.isfinite(cell):
        return str(cell)
    return cell


def csv_lines(answer: QueryAnswer) -> Iterator[bytes]:
    """Yield an answer as CSV with a heading, in chunks of rows; NULL is an empty field."""
    heading = io.StringIO()
    csv.writer(heading, lineterminator="\n").writerow(map(csv_cell, answer.columns))
    yield heading.getvalue().encode()
    for chunk in _chunks(answer):
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([_csv(cell) for cell in row] for row in chunk)
        yield text.getvalue().encode()


def _csv(cell: Cell) -> Cell:
    if isinstance(cell, str):
        return csv_cell(cell)
    return cell.hex() if isinstance(cell, bytes) else cell


def _chunks(answer: QueryAnswer) -> Iterator[list[tuple[Cell, ...]]]:
    while chunk := list(itertools.islice(answer.rows, _AT_ONCE)):
        yield chunk
