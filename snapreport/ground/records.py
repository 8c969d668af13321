"""``dataclass`` as in the standard library, but a frozen class is made when it is first used.

A command defines some two hundred classes and uses a quarter of them, and making them all took a
third of its start: the standard library compiles six functions for each. Here only ``__init__`` is
compiled, the first time that somebody makes a record or asks for the fields. Until then a class
attribute may be a ``field()`` in place of the default, and a default that is refused is not yet.
Every field has to be set by ``__init__``, and a subclass needs a decorator of its own, ours.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from dataclasses import Field, FrozenInstanceError, fields
from functools import cache
from threading import RLock
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """Make a class a dataclass; takes what the standard one takes."""
        if cls is None:
            return lambda cls: dataclass(cls, **options)
        if options not in ({"frozen": True}, {"frozen": True, "eq": False}):
            return dataclasses.dataclass(cls, **options)
        return _freeze(cls, options.get("eq", True))


__all__ = ["dataclass"]

_MADE = (
    *("__init__", "__match_args__", "__replace__", "__dataclass_params__", "__dataclass_fields__"),
    "__signature__",  # which no class has then: who asks takes that of __init__
)
_lock = RLock()


def _renew_lock() -> None:
    global _lock
    _lock = RLock()


if hasattr(os, "register_at_fork"):  # another thread may have it when a process is forked
    os.register_at_fork(after_in_child=_renew_lock)


class _Unmade:
    """Stands in a class for what it has once it is made, and makes it when it is asked for."""

    def __init__(self, cls: type, name: str) -> None:
        self._cls, self._name = cls, name

    def __get__(self, record: object | None, owner: type) -> Any:
        _make(self._cls)
        if self._name not in vars(self._cls):
            raise AttributeError(self._name)
        made = vars(self._cls)[self._name]
        return made.__get__(record, owner) if hasattr(made, "__get__") else made


def _make(cls: type) -> None:
    """Make a class as the standard library does, and put what it adds into the class."""
    with _lock:
        given = {name: value for name, value in vars(cls).items() if type(value) is not _Unmade}
        if len(given) == len(vars(cls)):
            return  # in another thread
        plain = {k: v for k, v in given.items() if k not in ("__dict__", "__weakref__")}
        # Not of the class itself: another thread would find it half made.
        made: type = dataclasses.dataclass(
            type(cls)(cls.__name__, cls.__bases__, plain), eq=False, repr=False
        )
        stood = [name for name, value in given.items() if isinstance(value, Field)]  # for defaults
        for name in [*(name for name in _MADE if name not in given), *stood]:
            if name in vars(made):
                setattr(cls, name, vars(made)[name])
            else:
                delattr(cls, name)


def _freeze(cls: type, eq: bool) -> type:
    """Add what a frozen dataclass has, unless the class has its own."""
    own: dict[str, Any] = {"__setattr__": _set_once, "__delattr__": _refuse, "__repr__": _repr}
    own |= {name: _Unmade(cls, name) for name in _MADE}
    if eq:
        own["__eq__"], own["__hash__"] = _comparison(cls)
        if cls.__dict__.get("__hash__") is None and "__hash__" in cls.__dict__:
            type.__delattr__(cls, "__hash__")  # Python set it to None because of an own __eq__
    for name, function in own.items():
        if name not in cls.__dict__:
            setattr(cls, name, function)
    return cls


def _comparison(cls: Any) -> tuple[Callable[[Any, object], bool], Callable[[Any], int]]:
    """Return the functions that compare and hash a class's records."""

    @cache
    def names() -> tuple[str, ...]:
        return tuple(each.name for each in fields(cls) if each.compare)

    def values(record: object) -> tuple[Any, ...]:
        return tuple([getattr(record, name) for name in names()])

    def equal(self: Any, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented  # type: ignore[no-any-return]
        return self is other or values(self) == values(other)

    return equal, lambda self: hash(values(self))


def _set_once(self: object, name: str, value: object) -> None:
    """Let ``__init__`` set the fields, each once."""
    if name in self.__dict__ or name not in type(self).__dataclass_fields__:  # type: ignore[attr-defined]
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _refuse(self: object, name: str) -> NoReturn:  # noqa: ARG001
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _repr(self: Any) -> str:
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"
