"""One regular expression for many names, as fast for thousands as for a few."""

from __future__ import annotations

import itertools
import os.path
import re
from collections.abc import Collection

_DEEPEST = 40
"""The most nested groups: Python's regex compiler calls itself for each."""


def any_of(names: Collection[str]) -> str:
    """Return a pattern that finds the longest of some names.

    Common prefixes are tried once for all names that share them; a plain alternation would try
    name by name at every place of a text.
    """
    return _tree(sorted(set(names)), 0)


def _tree(names: list[str], depth: int) -> str:
    """Return the pattern of sorted, distinct names."""
    shared = os.path.commonprefix([names[0], names[-1]])  # noqa: RUF071  (letters, not folders)
    rest = [name[len(shared) :] for name in names]
    if len(rest) == 1:
        return re.escape(shared)
    if depth == _DEEPEST:
        longest_first = sorted(rest, key=len, reverse=True)
        return f"{re.escape(shared)}(?:{'|'.join(map(re.escape, longest_first))})"
    grouped = itertools.groupby((each for each in rest if each), key=lambda each: each[0])
    branches = "|".join(_tree(list(each), depth + 1) for _, each in grouped)
    return f"{re.escape(shared)}(?:{branches}){'' if rest[0] else '?'}"
