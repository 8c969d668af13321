"""Cache results that depend on tables that do not change."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary, ref

import numpy as np
from numpy.typing import NDArray

_Table = TypeVar("_Table")
_Other = TypeVar("_Other")
_Found = TypeVar("_Found")
_Rest = ParamSpec("_Rest")
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
    work: Callable[Concatenate[_Table, _Other, _Rest], _Found],
) -> Callable[Concatenate[_Table, _Other, _Rest], _Found]:
    """Cache a function's result for two objects, keeping only the last second one per first.

    Neither is kept in use by that, even if the second one has the first in it. Further arguments
    are kept, and compared.
    """
    known: WeakKeyDictionary[_Table, tuple[Callable[[], _Other | None], Any, _Found]]
    known = WeakKeyDictionary()

    @functools.wraps(work)
    def ask(table: _Table, other: _Other, /, *rest: _Rest.args, **named: _Rest.kwargs) -> _Found:
        before = known.get(table)
        if before is None or before[0]() is not other or before[1] != (rest, named):
            found = work(table, other, *rest, **named)
            before = known[table] = _weakly(other), (rest, named), found
        return before[2]

    return ask


def _weakly(other: _Other) -> Callable[[], _Other | None]:
    """Return what returns an object as long as it is in use; a tuple is simply kept."""
    return (lambda: other) if isinstance(other, tuple) else ref(other)


def shared(values: NDArray[_Number]) -> NDArray[_Number]:
    """Make an array read-only, since several callers get the same one."""
    values.flags.writeable = False
    return values
