"""List every string in a bundle: in its members, its tables, and anything else in the zip."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from snapreport.bundle import read_elements
from snapreport.bundle.archive import checked_members
from snapreport.bundle.manifest import MANIFEST
from snapreport.bundle.members import MOST_MANIFEST, Members
from snapreport.bundle.opening import LONGEST_VALUE
from snapreport.bundle.query.sql_query import Database
from snapreport.bundle.schemas import ELEMENTS
from snapreport.ground.errors import BundleError, QueryError, naming
from snapreport.names.tally import Tally

_KINDS = {
    ("frames", "name"): "function",
    ("frames", "filename"): "file",
    ("strings", "text"): "metadata",
    ("annotations", "name"): "stage",
    ("events", "action"): "action",
    ("roles", "role"): "role",
    ("roles", "evidence"): "evidence",
}
_OURS = re.compile(r"manifest\.json|elements\.db|allocations(\.\d+)?\.json")
_STRIP_KEYS = {b'"elem"', b'"size"', b'"timesteps"', b'"offsets"', b'"color"'}
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"')
_CHUNK = 1 << 24


def bundle_strings(path: Path, tally: Tally) -> None:
    """Count every string of a bundle.

    Raises:
        InputError: the file cannot be read.
        BundleError: it is damaged, not a bundle, or of a newer format.
    """
    data = read_elements(path)
    with naming(path):
        elements_strings(data, tally)
    with checked_members(path) as members:
        for comment in members.comments:
            tally.add("zip comment", comment)
        for name in members.names:
            if not _OURS.fullmatch(name):
                tally.add("member", name)
            if name == MANIFEST:
                tally.walk(orjson.loads(members.unpack(name, MOST_MANIFEST)))
            elif name != "elements.db":
                _json_texts(members, name, tally)


def _json_texts(members: Members, name: str, tally: Tally) -> None:
    """Count the texts in quotes; strips have only numbers and our own keys."""
    found: set[bytes] = set()
    before = b""
    for chunk in members.parts(name, length=_CHUNK):
        part = before + chunk
        found.update(_TEXT.findall(part))
        before = part[part.rfind(b"{") :][-4096:]
    for text in found - _STRIP_KEYS:
        tally.add(name, text[1:-1].decode("utf-8", "replace"))


def elements_strings(data: bytes, tally: Tally) -> None:
    """Count every string of an ``elements.db``.

    Raises:
        BundleError: it is damaged.
    """
    database = Database(data, longest=LONGEST_VALUE)
    try:
        frames: set[str] = set()
        ours = " ".join(ELEMENTS.read_text("utf-8").split())
        for name, kind, sql in _rows(database, "SELECT name, type, sql FROM sqlite_schema"):
            if sql is not None and " ".join(str(sql).split()) not in ours:
                tally.add("schema", str(sql))
            if kind == "table":
                _table(database, str(name), tally, frames)
        lines: set[str] = set()
        for (stack,) in _rows(database, "SELECT DISTINCT callstack FROM stacks"):
            lines.update(str(stack or "").split("\n"))
        for line in lines - frames:
            tally.add("stack", line)
    except QueryError as error:
        raise BundleError(f"has a damaged elements.db ({error})") from error


def _table(database: Database, table: str, tally: Tally, frames: set[str]) -> None:
    (answer,) = database.run(f"SELECT * FROM {_quoted(table)} LIMIT 0")  # noqa: S608
    for column in answer.columns:
        if (table, column) in (("stacks", "callstack"), ("meta", "value")):
            continue  # frames have their own table; values are walked with their keys below
        name = _quoted(column)
        texts = _rows(
            database,
            f"SELECT {name}, count(*) FROM {_quoted(table)}"  # noqa: S608
            f" WHERE typeof({name}) IN ('text', 'blob') GROUP BY 1",
        )
        for text, count in texts:
            if isinstance(text, bytes):
                text = text.decode("utf-8", "replace")
            if (table, column) == ("frames", "extra"):
                tally.walk(_json(str(text)), "frame field")
            else:
                tally.add(_KINDS.get((table, column), f"{table}.{column}"), str(text), int(count))
    if table == "frames":
        rows = "SELECT filename, coalesce(line, '?'), name FROM frames"
        frames.update(f"{file}:{line}:{name}" for file, line, name in _rows(database, rows))
    if (table, "value") == ("meta", answer.columns[-1]):
        for key, value in _rows(database, "SELECT key, value FROM meta"):
            tally.walk({str(key): _json(str(value))}, "meta")


def _json(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _rows(database: Database, sql: str) -> Iterator[tuple[Any, ...]]:
    for answer in database.run(sql):
        yield from answer.rows


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
