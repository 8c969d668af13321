"""Fields of records whose values are worked out only if someone asks for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Generic, TypeVar, cast

_Found = TypeVar("_Found")


class Later(Generic[_Found]):
    """A field of a dataclass whose value may be given as ``later(work)``."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, record: object | None, owner: type | None = None) -> _Found:
        if record is None:
            raise AttributeError(self._name)  # so that the field has no default
        given: Any = vars(record)[self._name]
        found: _Found = given.found if isinstance(given, _Work) else given
        return found

    def __set__(self, record: object, given: _Found) -> None:
        vars(record)[self._name] = given


class _Work:
    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work

    @cached_property
    def found(self) -> Any:
        return self._work()


def later(work: Callable[[], _Found]) -> _Found:
    """Put off work until a record's field of type ``Later`` is asked for: then it is done once."""
    return cast("_Found", _Work(work))
