"""An answer: its head and parts, their values as safe JSON, and pages that fit a token limit."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from hashlib import blake2b
from operator import attrgetter
from typing import Any

import orjson

from snapreport.ground.errors import SnapreportError
from snapreport.ground.records import dataclass
from snapreport.ground.safe_text import replaced
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


# Tokens

_PIECES = re.compile(
    r"([A-Za-z]+)|([0-9]+)|([^\sA-Za-z0-9\u0080-\U0010ffff]+)|([^\x00-\x7f]+)|(\s+)"
)


def count_tokens(text: str) -> int:
    """Return an estimate of a text's tokens for a language model, too many rather than too few.

    Every model has its own vocabulary, and we depend on none. With these factors no answer has more
    tokens in the two vocabularies that ``docs/mcp.md`` names than the estimate.
    """
    found = 0
    for word, digits, signs, others, gap in _PIECES.findall(text):
        if word:
            found += 1 + (len(word) - 1) // 5
        elif digits:
            found += (len(digits) + 1) // 2
        elif signs:
            found += (len(signs) + 1) // 2
        elif others:
            found += 2 * len(others)
        else:
            found += len(gap) // 4
    return found


# Values

LONGEST = 1500
"""The most characters of one text in an answer."""
_LARGEST = 2**53
"""Larger numbers, such as addresses, are written as texts: many JSON readers would round them."""

# Invisible characters, such as variation selectors: no name needs them, and they can hide text.
_HIDING = re.compile("[\ufe00-\ufe0f\U000e0000-\U000e01ef\u115f\u1160\u3164\uffa0\u2800\u034f]")


def clean_text(text: str, longest: int = LONGEST) -> str:
    """Return a text without control or hidden characters, cut to ``longest``."""
    short = text if len(text) <= longest else f"{text[: longest - 1]}…"
    if short.isascii() and short.isprintable():
        return short
    return _HIDING.sub("\ufffd", replaced(short, "\n\t"))


def clean(value: Any, longest: int = LONGEST) -> Any:
    """Return a value as plain JSON, with every text in it cleaned."""
    if isinstance(value, str):
        return clean_text(value, longest)
    if isinstance(value, Mapping):
        return {
            clean_text(str(key), longest): clean(each, longest)
            for key, each in value.items()
            if each is not None
        }
    if isinstance(value, list | tuple):
        return [clean(each, longest) for each in value]
    if isinstance(value, bytes):
        return f"0x{value[: longest // 2].hex()}"
    if isinstance(value, int) and abs(value) > _LARGEST:
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int | float | None):
        return value
    return clean(value.item() if hasattr(value, "item") else str(value), longest)


# Pages

USUAL, LEAST, MOST = 2000, 300, 20_000
"""Token limits of an answer: the default, and the range that can be asked for."""

_AT_LEAST = 40
"""Tokens below which no text is cut."""
_KEPT = 120
"""Tokens reserved for the end of a page: how much is left, and the cursor."""
_FOR_PARTS = 3
"""One third of the tokens is reserved for parts, if any, so that each page makes progress."""
_LETTERS = 3
"""The fewest characters per token that are assumed when a text is cut."""
_LONGEST_CURSOR = 200


class CursorError(SnapreportError):
    """A cursor is invalid, or belongs to another question."""


@dataclass(frozen=True)
class Place:
    """Where a page begins."""

    question: str
    """A digest of the question."""
    item: int = 0
    """The number of items before the page, over all parts."""

    def cursor(self) -> str:
        """Return the cursor that a client gets for this place."""
        plain = f"{self.question}.{self.item}".encode()
        return base64.urlsafe_b64encode(plain).decode().rstrip("=")


def digest_of(*parts: Any) -> str:
    """Return a digest that identifies a question."""
    plain = orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)
    return blake2b(plain, digest_size=6).hexdigest()


def read_cursor(text: str | None, question: str) -> Place:
    """Return where the next page begins; the beginning without a cursor.

    Raises:
        CursorError: it is invalid, or was given for another question.
    """
    if not text:
        return Place(question)
    try:
        padded = text[:_LONGEST_CURSOR] + "=" * (-len(text) % 4)
        digest, _, item = base64.urlsafe_b64decode(padded).decode("ascii").partition(".")
        place = Place(digest, int(item))
    except (ValueError, binascii.Error):
        raise CursorError("That cursor is not from this server; ask without one.") from None
    if digest != question or place.item < 0:
        raise CursorError(
            "That cursor belongs to another question, or the file has changed; repeat the question"
            " it came with, or ask without a cursor."
        )
    return place


def fit_page(reply: Reply, place: Place, limit: int = USUAL) -> dict[str, Any]:
    """Return a page of an answer as plain JSON.

    Args:
        reply: the entire answer.
        place: where the page begins.
        limit: the most tokens of the page.
    """
    total = sum(part.count for part in reply.parts)
    page = _Page(limit)
    kept = limit // _FOR_PARTS if total else 0
    page.room -= kept
    for key, value in reply.about.items():
        page.put(key, value)
    if place.item == 0:
        for key, value in reply.head.items():
            page.put(key, value)
    page.room += kept
    reached = before = 0
    for part in reply.parts:
        skipped = max(0, place.item - before)
        before += part.count
        if skipped >= part.count:
            reached = before
            continue
        reached = before - part.count + skipped
        reached += page.put_part(part, skipped, forced=reached == place.item)
        if reached < before:
            break
    left = total - max(reached, min(place.item, total))
    if left > 0:
        page.whole["left"] = left
        page.whole["cursor"] = Place(place.question, reached).cursor()
    if page.left_out:
        page.whole["left_out"] = page.left_out
    return page.whole


class _Page:
    """A page that is being filled."""

    def __init__(self, limit: int) -> None:
        self.whole: dict[str, Any] = {}
        self.room = limit - _KEPT
        self.left_out: list[str] = []

    def put(self, key: str, value: Any) -> None:
        """Add a value to the head, cut to the remaining room."""
        if value is None or value in ("", [], {}):
            return
        plain = self._cut(clean(value), self.room - count_tokens(key) - 2)
        if plain is None:
            self.left_out.append(key)
            return
        self.room -= _cost({key: plain})
        self.whole[key] = plain

    def put_part(self, part: Part, first: int, forced: bool) -> int:
        """Add a part's items from ``first`` on, as many as fit, and return how many.

        If ``forced``, the first item is added even if it has to be cut.
        """
        frame = self._frame(part)
        room = self.room - _cost({**frame, "title": part.name})
        done, step = 0, 64
        items: list[Any] = []
        while first + done < part.count and room > 0:
            taken = part.take(first + done, min(first + done + step, part.count))
            if not taken:
                break
            for item in taken:
                plain = clean(item if part.columns is None else part.cells(item))
                cost = _cost(plain) + 1
                if cost > room:
                    if items or not forced:
                        room = 0
                        break
                    plain = self._cut(plain, room) or clean(plain, _AT_LEAST)
                    cost = room
                items.append(plain)
                room -= cost
                done += 1
        if items:
            if part.columns is None:
                self.whole.setdefault(part.name, []).extend(items)
            else:
                self.whole.setdefault("tables", []).append({**frame, "rows": items})
            self.room = room
        return done

    def _frame(self, part: Part) -> dict[str, Any]:
        if part.columns is None:
            return {}
        frame: dict[str, Any] = {"title": clean(part.name), "columns": clean(part.headings())}
        if part.note:
            frame["note"] = clean(part.note)
        return {**frame, "count": part.count}

    def _cut(self, plain: Any, room: int) -> Any:
        """Return the value with its texts cut until it fits; None if it cannot fit."""
        if _cost(plain) <= room:
            return plain
        longest = _LETTERS * max(room, 0)
        while longest >= _AT_LEAST:
            cut = clean(plain, longest)
            if _cost(cut) <= room:
                return cut
            longest = longest * 2 // 3
        return None


def _cost(plain: Any) -> int:
    return count_tokens(as_text(plain))


def as_text(plain: Any) -> str:
    """Return an answer as the text that a model gets."""
    return orjson.dumps(plain, option=orjson.OPT_NON_STR_KEYS).decode()
