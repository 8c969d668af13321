"""Pages of an answer: as much as fits into a token limit, and a cursor for the next page."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import orjson

from snapreport.ground.errors import SnapreportError
from snapreport.mcp.answering.clean_values import clean
from snapreport.mcp.answering.reply import Part, Reply
from snapreport.mcp.answering.token_estimate import count_tokens

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
