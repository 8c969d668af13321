"""Patterns for names and paths as users type them: a part of it, a glob, or a ``/regex/``."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence

from snapreport.errors import PatternError

Match = Callable[[str], bool]


def compile_pattern(pattern: str) -> Match:
    """Return what tells whether a text matches.

    Args:
        pattern: ``/.../`` is a regular expression to be found anywhere; with ``*``, ``?`` or
            ``[`` it is a glob for the whole text or all behind a path separator; else a part.

    Raises:
        PatternError: the regular expression is none.
    """
    if len(pattern) > 1 and pattern.startswith("/") and pattern.endswith("/"):
        try:
            expression = re.compile(pattern[1:-1])
        except re.error as error:
            raise PatternError(f"{pattern} is no regular expression: {error}.") from error
        return lambda text: expression.search(text) is not None
    if any(character in pattern for character in "*?["):
        glob = re.compile(rf"(?:.*[/\\])?{fnmatch.translate(pattern)}", re.DOTALL)
        return lambda text: glob.match(text) is not None
    return lambda text: pattern in text


def compile_filter(include: Sequence[str], exclude: Sequence[str]) -> Match:
    """Return what tells whether a text matches one of ``include`` (if any) and none of ``exclude``.

    Raises:
        PatternError: as ``compile_pattern``.
    """
    wanted = [compile_pattern(pattern) for pattern in include]
    unwanted = [compile_pattern(pattern) for pattern in exclude]

    def matches(text: str) -> bool:
        if wanted and not any(match(text) for match in wanted):
            return False
        return not any(match(text) for match in unwanted)

    return matches
