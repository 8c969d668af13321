"""An answer before it is split into pages: its head, and parts with all their items."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

from snapreport.ground.units import format_bytes, format_share
from snapreport.model.diagnoses import Table

Column = tuple[str, str]
"""A title and a unit: one of ``model.diagnoses.Unit``, or ``any``."""
Field = tuple[str, str, str | Callable[[Any], Any]]
"""A column's title and unit, and its value: an item's attribute, or a function of the item."""
Take = Callable[[int, int], Sequence[Any]]
"""Returns the items from one place up to another."""


@dataclass(frozen=True)
class Part:
    """One table with its rows, or one list with its objects."""

    name: str
    """A table's title, or a list's key in the answer."""
    count: int
    """The number of items."""
    take: Take
    columns: tuple[Column, ...] | None = None
    """A table's columns; None for a list."""
    note: str = ""

    def headings(self) -> list[str]:
        """Return a table's column names; a column in bytes gets a second one for its text."""
        names: list[str] = []
        for title, unit in self.columns or ():
            names += [f"{title} (bytes)", title] if unit == "bytes" else [title]
        return names

    def cells(self, row: Sequence[Any]) -> list[Any]:
        """Return a table's row as plain cells; a size gets two, a number and a text."""
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
    """The file and device; on every page."""
    head: Mapping[str, Any] = field(default_factory=dict)
    """Only on the first page, the most important first."""
    parts: tuple[Part, ...] = ()


def listed(name: str, items: Sequence[Any]) -> Part:
    """Return a list as a part."""
    return Part(name, len(items), lambda first, last: items[first:last])


def table(name: str, columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> Part:
    """Return finished rows as a table."""
    return Part(name, len(rows), lambda first, last: rows[first:last], tuple(columns))


def table_of(name: str, items: Sequence[Any], fields: Sequence[Field], note: str = "") -> Part:
    """Return a table with a row for each item; rows are computed when a page needs them."""
    cells = [attrgetter(get) if isinstance(get, str) else get for *_, get in fields]

    def take(first: int, last: int) -> list[tuple[Any, ...]]:
        return [tuple(cell(item) for cell in cells) for item in items[first:last]]

    return Part(name, len(items), take, tuple((title, unit) for title, unit, _ in fields), note)


def held_table(
    name: str, what: Field, items: Sequence[Any], whole: int, *more: Field, note: str = ""
) -> Part:
    """Return a table of what holds memory.

    Args:
        name: the table's title.
        what: the first column.
        items: objects with ``bytes`` and ``count``.
        whole: the bytes that shares are of.
        more: further columns.
        note: shown with the table.
    """
    fields: tuple[Field, ...] = (
        what,
        ("held", "bytes", "bytes"),
        ("share", "text", lambda each: format_share(each.bytes, whole)),
        ("allocations", "count", "count"),
        *more,
    )
    return table_of(name, items, fields, note)


def finding_table(found: Table) -> Part:
    """Return a finding's table as a part."""
    columns = [(column.title, column.unit) for column in found.columns]
    note = f"{found.left_out} more rows were left out of the finding" if found.left_out else ""
    return replace(table(found.title, columns, found.rows), note=note)


def size(count: int | None, **more: Any) -> dict[str, Any] | None:
    """Return a number of bytes with its text and other values; None for None."""
    return None if count is None else {"bytes": int(count), "text": format_bytes(count), **more}
