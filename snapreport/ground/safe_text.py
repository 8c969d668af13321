"""Makes strangers' text harmless in a terminal, a spreadsheet, JSON and a page."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from snapreport.ground.later import expression

if TYPE_CHECKING:
    import pandas


_UNSAFE_CATEGORIES = frozenset(["Cc", "Cf", "Cs", "Zl", "Zp"])
"""What could end a line, control a terminal, reverse the reading order or hide letters."""


LONGEST_SHOWN = 10_000
"""Most letters of a text on a page: longer than any C++ name, and still laid out quickly."""


def shown(text: str) -> str:
    """Return text for a page: it keeps its lines, is cut at a limit, and cannot be reversed."""
    if len(text) > LONGEST_SHOWN:
        text = f"{text[:LONGEST_SHOWN]}… ({len(text):,} letters)"
    return replaced(text, "\n\t")


LONGEST_MATCHED = 2000
"""Most letters that a stranger's pattern is tried on: the time may grow with their square."""


def matched(text: str) -> str:
    """Return what a pattern that we did not write is tried on: both ends of a long text."""
    if len(text) <= LONGEST_MATCHED:
        return text
    return f"{text[: LONGEST_MATCHED // 2]}…{text[-LONGEST_MATCHED // 2 :]}"


def replaced(text: str, keep: str = "") -> str:
    """Return text with U+FFFD for control and direction characters, except those to ``keep``."""
    if text.isprintable():
        return text
    return "".join(
        "\ufffd" if unicodedata.category(char) in _UNSAFE_CATEGORIES and char not in keep else char
        for char in text
    )


def visible(text: str, keep: str = "") -> str:
    """Return text with all that cannot be printed escaped, as ``\\x1b``, except what to ``keep``.

    It cannot control a terminal, and what was there can still be read.
    """
    if text.isprintable():
        return text
    return _escaped(text, keep, lambda char: char.encode("unicode_escape").decode("ascii"))


_ODD = expression(r"[^ -~]+")


def _escaped(text: str, keep: str, escape: Callable[[str], str]) -> str:
    def escaped_run(found: re.Match[str]) -> str:
        run = found[0]
        if run.isprintable():
            return run
        return "".join(char if char.isprintable() or char in keep else escape(char) for char in run)

    return _ODD.sub(escaped_run, text)


def printable(output: bytes) -> bytes:
    """Return lines of UTF-8 that cannot control a terminal, escaped as by ``visible()``."""
    if output.isascii() and not re.search(rb"[^ -~\n\t]", output):
        return output
    return visible(output.decode("utf-8", "surrogateescape"), "\n\t").encode()


def plain_json(data: bytes) -> bytes:
    """Return the same JSON with every character that cannot be printed written as ``\\u202e``.

    JSON writers leave them as they are from U+007F on, and a terminal obeys some of those.
    """
    if data.isascii() and b"\x7f" not in data:
        return data
    return _escaped(data.decode(), "\n\t", _utf16).encode()


def _utf16(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


_NUMBER = expression(r"[+-]?[0-9][0-9.,]*(e[+-]?[0-9]+)?", re.IGNORECASE)
# The last four are the wide forms of Chinese and Japanese text, which spreadsheets accept too.
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_CONTROLS = ("\t", "\r", "\n")


def csv_cell(text: str) -> str:
    """Return text for a cell that a spreadsheet shows and does not calculate.

    Text that would be a formula, also behind blanks, gets an apostrophe in front, unless it is a
    number; it keeps its lines.
    """
    formula = text.lstrip().startswith(_FORMULA) or text.startswith(_CONTROLS)
    if formula and not _NUMBER.fullmatch(text.strip()):
        text = f"'{text}"
    return visible(text, "\n")


class CleanTexts:
    """Texts of one file, safe for every encoder: lone surrogates become replacement characters.

    A pickle can use one text a million times: however often it is asked for, it is copied once.
    """

    def __init__(self) -> None:
        """Begin without texts."""
        self._known: dict[tuple[str, int], str] = {}

    def cut(self, text: str, longest: int = sys.maxsize) -> str:
        """Return a text, or as many of its characters; the same object each time it is asked for.

        Args:
            text: as it is in the file.
            longest: how many characters of it are wanted at most.
        """
        text = str.__str__(text)  # it may be of a class of the recorded program
        if text.isascii() and len(text) <= longest:
            return text
        known = self._known.get((text, longest))
        if known is None:
            known = text[:longest].encode("utf-8", "surrogatepass").decode("utf-8", "replace")
            known = text if known == text else known[:longest]
            self._known[text, longest] = known
        return known

    def clean(self, value: object) -> str:
        """Return a value of any kind as a text that every encoder takes."""
        return self.cut(value) if isinstance(value, str) else _named(value)


def shortened(value: object, longest: int = 60) -> str:
    """Return the beginning of a text for a message, or a text for a value of any other kind."""
    return CleanTexts().cut(value if isinstance(value, str) else _named(value), longest)


def _named(value: object) -> str:
    # Not str() of a list: shared parts could make it larger than any memory.
    if value is None or isinstance(value, (int, float)):
        return str(value)
    return f"<{type(value).__name__}>"


# How results show themselves in Python: on one line, as a table in a notebook, as a DataFrame.

_LONGEST, _TEXT, _CELL, _ROWS = 200, 48, 300, 20
_SCALARS = (str, int, float, bool, type(None))


def escape(text: str) -> str:
    """Return text for HTML."""
    from html import escape  # only pages and notebooks need it

    return escape(text)


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
