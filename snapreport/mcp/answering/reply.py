"""An answer before it is cut into pages: its head, and parts of as many items as there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

from snapreport.ground.units import format_bytes, format_share
from snapreport.model.diagnoses import Table

Column = tuple[str, str]
"""A title, and what is in the cells: one of ``model.diagnoses.Unit``, or ``any``."""
Field = tuple[str, str, str | Callable[[Any], Any]]
"""A column, and what an item has in it: the name of an attribute, or a function of the item."""
Take = Callable[[int, int], Sequence[Any]]
"""Gives the items from one place up to another."""


@dataclass(frozen=True)
class Part:
    """Items of one kind: rows of a table, or objects of a list."""

    name: str
    """The key of the list in the answer; of a table its title."""
    count: int
    take: Take
    columns: tuple[Column, ...] | None = None
    """Of a table; None for a list."""
    note: str = ""

    def headings(self) -> list[str]:
        """Return a table's columns as an answer has them, a unit in each name that needs one."""
        names: list[str] = []
        for title, unit in self.columns or ():
            names += [f"{title} (bytes)", title] if unit == "bytes" else [title]
        return names

    def cells(self, row: Sequence[Any]) -> list[Any]:
        """Return a table's row as an answer has it: sizes as a number and as a text."""
        cells: list[Any] = []
        for value, (_, unit) in zip(row, self.columns or (), strict=True):
            if unit == "bytes":
                cells += [value, None if value is None else format_bytes(value)]
            elif unit == "share":
                cells.append(None if value is None else format_share(value))
            else:
                cells.append(value)
        return cells


@dataclass(frozen=True)
class Reply:
    """An answer to one question."""

    about: Mapping[str, Any]
    """Which file and device: on every page."""
    head: Mapping[str, Any] = field(default_factory=dict)
    """On the first page alone, the most important first."""
    parts: tuple[Part, ...] = ()


def listed(name: str, items: Sequence[Any]) -> Part:
    """Return a list that is there as a whole."""
    return Part(name, len(items), lambda first, last: items[first:last])


def table(name: str, columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> Part:
    """Return a table that is there as a whole."""
    return Part(name, len(rows), lambda first, last: rows[first:last], tuple(columns))


def table_of(name: str, items: Sequence[Any], fields: Sequence[Field], note: str = "") -> Part:
    """Return a table with a row for each item, made when it is asked for."""
    cells = [attrgetter(get) if isinstance(get, str) else get for *_, get in fields]

    def take(first: int, last: int) -> list[tuple[Any, ...]]:
        return [tuple(cell(item) for cell in cells) for item in items[first:last]]

    return Part(name, len(items), take, tuple((title, unit) for title, unit, _ in fields), note)


def held_table(
    name: str, what: Field, items: Sequence[Any], whole: int, *more: Field, note: str = ""
) -> Part:
    """Return a table of who holds memory, with each one's share of the whole."""
    fields: tuple[Field, ...] = (
        what,
        ("held", "bytes", "bytes"),
        ("share", "text", lambda each: format_share(each.bytes, whole)),
        ("allocations", "count", "count"),
        *more,
    )
    return table_of(name, items, fields, note)


def finding_table(found: Table) -> Part:
    """Return the table of a finding."""
    columns = [(column.title, column.unit) for column in found.columns]
    note = f"{found.left_out} more rows were left out of the finding" if found.left_out else ""
    return replace(table(found.title, columns, found.rows), note=note)


def size(count: int | None, **more: Any) -> dict[str, Any] | None:
    """Return a number of bytes with its text, and what else belongs to it."""
    return None if count is None else {"bytes": int(count), "text": format_bytes(count), **more}
