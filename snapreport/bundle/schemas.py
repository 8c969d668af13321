"""Reads the definitions of our tables, which decide what is written and what may be read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ELEMENTS = Path(__file__).with_name("schema.sql")
"""The definitions of the tables of ``elements.db``."""

_COLUMN = re.compile(r"\b(\w+) (INTEGER|TEXT|REAL|BLOB)( NOT NULL| PRIMARY KEY)?")


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    kind: str
    """``INTEGER``, ``TEXT``, ``REAL`` or ``BLOB``."""
    null: bool
    """Whether it may be NULL."""


@dataclass(frozen=True)
class Definition:
    """One of our tables or views."""

    kind: str
    """``table`` or ``view``."""
    sql: str
    """The statement that creates it, as ``plain()`` returns it."""
    columns: tuple[Column, ...]
    """Of a table, in order."""


def definitions(schema: Path) -> dict[str, Definition]:
    """Return the definitions of our tables and views by name."""
    made = re.findall(r"(CREATE (TABLE|VIEW) (\w+) [^;]*)", plain(schema.read_text("utf-8")))
    return {name: Definition(kind.lower(), sql, _columns(kind, sql)) for sql, kind, name in made}


def _columns(kind: str, sql: str) -> tuple[Column, ...]:
    found = _COLUMN.findall(sql) if kind == "TABLE" else ()
    return tuple(Column(name, of, not rule) for name, of, rule in found)


def plain(sql: str) -> str:
    """Return a definition without comments, with single spaces for all white space.

    Ours have neither quotes nor comments of the other kind, so a definition that becomes equal to
    one of ours means the same to SQLite.
    """
    return re.sub(r"[ \t\n\f\r]+", " ", re.sub(r"--[^\n]*", "", sql)).strip(" ")
