"""Patterns for names and paths as users type them: a part of it, a glob, or a ``/regex/``."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence

from snapreport.ground.errors import PatternError
from snapreport.ground.safe_text import matched

Match = Callable[[str], bool]


def compile_pattern(pattern: str) -> Match:
    """Return a function that says whether a text matches, ignoring case; the page does the same.

    Args:
        pattern: ``/.../`` is a regular expression to be found anywhere; with ``*`` or ``?`` it is
            a glob for the whole text or all behind a path separator; else a part.
            Of a text of over 2,000 letters an expression and a glob meet both ends.

    Raises:
        PatternError: the regular expression is not valid.
    """
    if len(pattern) > 2 and pattern.startswith("/") and pattern.endswith("/"):
        try:
            expression = re.compile(pattern[1:-1], re.IGNORECASE)
        except re.error as error:
            raise PatternError(f"{pattern} is not a regular expression: {error}.") from error
        return lambda text: expression.search(matched(text)) is not None
    if "*" in pattern or "?" in pattern:
        return compile_glob(pattern, r"(?:.*[/\\])?")
    part = pattern.lower()
    return lambda text: part in text.lower()


def compile_glob(pattern: str, before: str = "") -> Match:
    """Return a function that matches an entire text with ``*`` and ``?``, ignoring case.

    Args:
        pattern: brackets in it are literal, as in the names of stages.
        before: an expression for what may come before.
    """
    escaped = fnmatch.translate(pattern.replace("[", "[[]"))
    glob = re.compile(before + escaped, re.DOTALL | re.IGNORECASE)
    return lambda text: glob.match(matched(text)) is not None


def compile_filter(include: Sequence[str], exclude: Sequence[str]) -> Match:
    """Return a function that matches texts of ``include`` (all if empty) but not of ``exclude``.

    Raises:
        PatternError: as ``compile_pattern``.
    """
    wanted = [compile_pattern(pattern) for pattern in include]
    unwanted = [compile_pattern(pattern) for pattern in exclude]
    return lambda text: (
        (not wanted or any(match(text) for match in wanted))
        and not any(match(text) for match in unwanted)
    )
