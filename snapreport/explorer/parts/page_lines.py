"""Converts what the reporters write for a terminal into lines of a screen."""

from __future__ import annotations

import re
from collections.abc import Callable

from snapreport.explorer.parts.inking import Line, ink
from snapreport.reporters.terminal.text_tables import NARROWEST, STYLES, Page

_COLOUR = re.compile(r"\x1b\[([0-9;]*)m")
_CODES = {"bold": "1", "red": "31", "green": "32", "yellow": "33", "blue": "34"}
_ROLES = {
    ";".join(_CODES[word] for word in style.split()): name for name, style in STYLES.items() if name
}
_ROLES |= {"31": "heat4", "33": "heat3"}


def page_lines(width: int, write: Callable[[Page], None]) -> list[Line]:
    """Return what ``write`` writes on a page of ``width`` columns."""
    page = Page(max(width, NARROWEST), colour=True)
    write(page)
    return [_line(text) for text in page.render().decode().removesuffix("\n").split("\n")]


def _line(text: str) -> Line:
    """Return a line; only our own colours become roles, other escape sequences are shown."""
    parts = _COLOUR.split(text)
    roles = ["", *(_ROLES.get(code, "") for code in parts[1::2])]
    return ink(*zip(parts[::2], roles, strict=True))
