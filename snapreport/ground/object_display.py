"""How results show themselves in Python: on one line, as a table in a notebook, as a DataFrame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from snapreport.ground.safe_text import visible

if TYPE_CHECKING:
    import pandas

_LONGEST, _TEXT, _CELL, _ROWS = 200, 48, 300, 20
_SCALARS = (str, int, float, bool, type(None))


class Shown:
    """A dataclass that is short in a shell and a table in a notebook, however much is in it."""

    def __init_subclass__(cls) -> None:
        """Keep ``dataclass`` from writing out every field."""
        cls.__repr__ = Shown.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        parts = [f"{name}={_short(value)}" for name, value in _fields(self)]
        text = f"<{type(self).__name__} {' '.join(parts)}"
        return f"{text if len(text) < _LONGEST else f'{text[: _LONGEST - 2]}…'}>"

    def _repr_html_(self) -> str:
        named = [(name, value) for name, value in _fields(self) if isinstance(value, _SCALARS)]
        tables = [
            f"<p>{escape(name)}</p>{html_table(*rows_of(value))}"
            for name, value in _fields(self)
            if _are_records(value)
        ]
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td>{_cell(value)}</td></tr>" for name, value in named
        )
        columns = _columns(self)
        if columns:
            count = _length(columns)
            first = zip(*(column[:_ROWS].tolist() for column in columns.values()), strict=True)
            tables.append(html_table(list(columns), list(first), count))
        return (
            f"<div><strong>{escape(type(self).__name__)}</strong>"
            f"<table><tbody>{rows}</tbody></table>{''.join(tables)}</div>"
        )

    def to_pandas(self) -> pandas.DataFrame:
        """Return its columns, or else the records in it, as a DataFrame: a row for each.

        Raises:
            ImportError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_pandas() needs pandas: pip install pandas") from error
        columns = _columns(self)
        if columns:
            return pandas.DataFrame(columns)
        records = next((value for _, value in _fields(self) if _are_records(value)), None)
        headings, rows = rows_of((self,) if records is None else records)
        return pandas.DataFrame(rows, columns=headings)


def rows_of(records: Sequence[Any]) -> tuple[list[str], list[list[Any]]]:
    """Return the headings and cells of dataclasses of one kind: what is a number or a text."""
    headings = [
        each.name
        for each in fields(records[0])
        if all(isinstance(getattr(record, each.name), _SCALARS) for record in records)
    ]
    return headings, [[getattr(record, name) for name in headings] for record in records]


def titled_table(shown: object, records: Sequence[Any] = ()) -> str:
    """Return the line that something is in a shell, and below it a table of its records."""
    table = html_table(*rows_of(records)) if records else ""
    return f"<div><strong>{escape(repr(shown)[1:-1])}</strong>{table}</div>"


def html_table(
    headings: Sequence[str], rows: Sequence[Sequence[Any]], count: int | None = None
) -> str:
    """Return a table of the first rows, in the colours around it; all texts are texts.

    Args:
        headings: one for each column.
        rows: all of them, or as many as are shown.
        count: how many there are.
    """
    count = len(rows) if count is None else count
    head = "".join(f"<th>{escape(name)}</th>" for name in headings)
    body = "".join(
        f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row)}</tr>" for row in rows[:_ROWS]
    )
    more = f"<p>and {count - _ROWS:,} more</p>" if count > _ROWS else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _fields(record: Any) -> Iterator[tuple[str, Any]]:
    for each in fields(record):
        value = getattr(record, each.name)
        if not callable(value):
            yield each.name, value


def _columns(record: Any) -> dict[str, Any]:
    """Return the arrays of a record that have as many entries as the first of them."""
    arrays = {name: value for name, value in _fields(record) if getattr(value, "ndim", 0) == 1}
    return {name: value for name, value in arrays.items() if len(value) == _length(arrays)}


def _length(columns: dict[str, Any]) -> int:
    return len(next(iter(columns.values())))


def _are_records(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and is_dataclass(value[0])


def _short(value: Any) -> str:
    if isinstance(value, _SCALARS):
        text = repr(value[:_TEXT] + "…") if isinstance(value, str) and len(value) > _TEXT else None
        return visible(text or repr(value))
    if hasattr(value, "__len__"):
        return f"[{len(value):,}]"
    return type(value).__name__


def _cell(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = visible("-" if value is None else str(value))
    return escape(text if len(text) <= _CELL else f"{text[:_CELL]}…")
