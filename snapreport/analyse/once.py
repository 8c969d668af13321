"""Work out once what follows from a table that does not change."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar
from weakref import WeakKeyDictionary

_Table = TypeVar("_Table")
_Found = TypeVar("_Found")


def once_for_each(work: Callable[[_Table], _Found]) -> Callable[[_Table], _Found]:
    """Keep what a function returned for an object as long as that object is in use."""
    known: WeakKeyDictionary[_Table, _Found] = WeakKeyDictionary()

    @functools.wraps(work)
    def ask(table: _Table) -> _Found:
        found = known.get(table)
        if found is None:
            found = known[table] = work(table)
        return found

    return ask
