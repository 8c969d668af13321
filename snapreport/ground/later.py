"""What is worked out only if someone asks for it: fields of records, and regular expressions."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, AnyStr, Generic, TypeVar, cast

_Found = TypeVar("_Found")
_Record = TypeVar("_Record")


class Later(Generic[_Found]):
    """A field of a dataclass whose value may be given as ``later(work)``."""

    def __init__(self, default: Any = MISSING) -> None:
        """Set the field's default; without one, the field must be given."""
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, record: object | None, owner: type | None = None) -> _Found:
        if record is None:
            if self._default is MISSING:
                raise AttributeError(self._name)  # so that the field has no default
            return self._default  # type: ignore[no-any-return]
        given: Any = vars(record)[self._name]
        found: _Found = given.found if isinstance(given, _Work) else given
        return found

    def __set__(self, record: object, given: _Found) -> None:
        vars(record)[self._name] = given


class _Work:
    def __init__(self, work: Callable[[], Any]) -> None:
        self._work: Callable[[], Any] | None = work

    @property
    def found(self) -> Any:
        # Not cached_property, which until Python 3.12 has one lock for the work of all records.
        work = self._work
        if work is not None:
            self._found = work()
            self._work = None  # with all that only it needs
        return self._found

    def __reduce__(self) -> tuple[Any, ...]:
        """Be pickled as what was found: others have no use for the work."""
        return _itself, (self.found,)


def _itself(found: Any) -> Any:
    return found


def later(work: Callable[[], _Found]) -> _Found:
    """Put off work until a record's field of type ``Later`` is asked for: then it is done once."""
    return cast("_Found", _Work(work))


def worked_out(record: _Record) -> _Record:
    """Return a record once all that was put off in it is done."""
    for each in fields(cast("Any", record)):
        getattr(record, each.name)
    return record


def changed(record: _Record, **changes: Any) -> _Record:
    """Return a record with other values in some fields; what is put off in the others stays so."""
    given: Any = vars(record)
    kept = {each.name: given[each.name] for each in fields(cast("Any", record))}
    return type(record)(**kept | changes)


class Expression:
    """A regular expression that is compiled when it is first used.

    To compile the two hundred of all modules takes longer than to read a small snapshot.
    """

    def __init__(self, pattern: str | bytes, flags: int = 0) -> None:
        """Take what ``re.compile()`` takes."""
        self._given = pattern, flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        pattern: re.Pattern[Any] = re.compile(*self._given)
        vars(self).update({each: getattr(pattern, each) for each in (*_METHODS, name)})
        return vars(self)[name]

    def __reduce__(self) -> tuple[Any, ...]:
        """Be pickled as the compiled expression."""
        return re.compile, self._given


_METHODS = ("match", "search", "fullmatch", "sub", "finditer", "findall")


def expression(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a regular expression as of ``re.compile()``, which does that when it is first used."""
    return cast("re.Pattern[AnyStr]", Expression(pattern, flags))
