"""Cache results that depend on tables that do not change."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

_Table = TypeVar("_Table")
_Other = TypeVar("_Other")
_Found = TypeVar("_Found")
_Number = TypeVar("_Number", bound=np.generic)


def once_for_each(work: Callable[[_Table], _Found]) -> Callable[[_Table], _Found]:
    """Cache a function's result for an object as long as that object is in use."""
    known: WeakKeyDictionary[_Table, _Found] = WeakKeyDictionary()

    @functools.wraps(work)
    def ask(table: _Table) -> _Found:
        found = known.get(table)
        if found is None:
            found = known[table] = work(table)
        return found

    return ask


def once_for_both(
    work: Callable[[_Table, _Other], _Found],
) -> Callable[[_Table, _Other], _Found]:
    """Cache a function's result for two objects, keeping only the last second one per first."""
    known: WeakKeyDictionary[_Table, tuple[_Other, _Found]] = WeakKeyDictionary()

    @functools.wraps(work)
    def ask(table: _Table, other: _Other) -> _Found:
        before = known.get(table)
        if before is None or before[0] is not other:
            before = known[table] = other, work(table, other)
        return before[1]

    return ask


def shared(values: NDArray[_Number]) -> NDArray[_Number]:
    """Make an array read-only, since several callers get the same one."""
    values.flags.writeable = False
    return values
