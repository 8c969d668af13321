"""Strangers' text made harmless: for a terminal, a spreadsheet, JSON, and what shows it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

_UNSAFE_CATEGORIES = frozenset(["Cc", "Cf", "Cs", "Zl", "Zp"])
"""What could end a line, drive a terminal, turn the reading order round or hide letters."""

_ODD = re.compile(r"[^ -~]+")
_NUMBER = re.compile(r"[+-]?[0-9][0-9.,]*(e[+-]?[0-9]+)?", re.IGNORECASE)

# Also as wide as the letters beside them in Chinese and Japanese: spreadsheets there take both.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


LONGEST_SHOWN = 10_000
"""Letters of a text on a page: longer than any name of C++, and what a browser lays out at once."""


def shown(text: str) -> str:
    """Return text for a page: lines stay, what turns them round is U+FFFD, and it has an end."""
    if len(text) > LONGEST_SHOWN:
        text = f"{text[:LONGEST_SHOWN]}… ({len(text):,} letters)"
    return replaced(text, "\n\t")


LONGEST_MATCHED = 2000
"""Letters of a text that a pattern of others meets, which may take the square of them."""


def matched(text: str) -> str:
    """Return what a pattern that we did not write is tried on: of a long text both ends."""
    if len(text) <= LONGEST_MATCHED:
        return text
    return f"{text[: LONGEST_MATCHED // 2]}…{text[-LONGEST_MATCHED // 2 :]}"


def replaced(text: str, keep: str = "") -> str:
    """Return text whose control and direction characters are U+FFFD, but for those to ``keep``."""
    if text.isprintable():
        return text
    return "".join(
        "\ufffd" if unicodedata.category(char) in _UNSAFE_CATEGORIES and char not in keep else char
        for char in text
    )


def visible(text: str, keep: str = "") -> str:
    """Return text in which what cannot be printed is told, as ``\\x1b``, but for what to ``keep``.

    Nothing in it drives a terminal, and what was there can still be read.
    """
    if text.isprintable():
        return text
    return _escaped(text, keep, lambda char: char.encode("unicode_escape").decode("ascii"))


def _escaped(text: str, keep: str, escape: Callable[[str], str]) -> str:
    def escaped_run(found: re.Match[str]) -> str:
        run = found[0]
        if run.isprintable():
            return run
        return "".join(char if char.isprintable() or char in keep else escape(char) for char in run)

    return _ODD.sub(escaped_run, text)


def printable(output: bytes) -> bytes:
    """Return lines of UTF-8 in which no character drives a terminal, as ``visible`` has it."""
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


def csv_cell(text: str) -> str:
    """Return text for a cell that a spreadsheet shows, and does not calculate.

    A text that would be a formula gets an apostrophe in front, unless it is a number; lines stay.
    """
    if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text):
        text = f"'{text}"
    return visible(text, "\n")
