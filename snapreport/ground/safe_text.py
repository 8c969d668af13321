"""Makes strangers' text harmless in a terminal, a spreadsheet, JSON and a page."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

_UNSAFE_CATEGORIES = frozenset(["Cc", "Cf", "Cs", "Zl", "Zp"])
"""What could end a line, control a terminal, reverse the reading order or hide letters."""

_ODD = re.compile(r"[^ -~]+")
_NUMBER = re.compile(r"[+-]?[0-9][0-9.,]*(e[+-]?[0-9]+)?", re.IGNORECASE)

# The last four are the wide forms of Chinese and Japanese text, which spreadsheets accept too.
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_CONTROLS = ("\t", "\r", "\n")


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


def csv_cell(text: str) -> str:
    """Return text for a cell that a spreadsheet shows and does not calculate.

    Text that would be a formula, also behind blanks, gets an apostrophe in front, unless it is a
    number; it keeps its lines.
    """
    formula = text.lstrip().startswith(_FORMULA) or text.startswith(_CONTROLS)
    if formula and not _NUMBER.fullmatch(text.strip()):
        text = f"'{text}"
    return visible(text, "\n")
