"""Records behave like the frozen dataclasses of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field, fields, replace
from typing import Any

import pytest

from snapreport.ground import records


@records.dataclass(frozen=True)
class Site:
    """A record at the top of a module, as pickles need it."""

    name: str
    sizes: tuple[int, ...] = ()
    note: str = field(default="", compare=False, repr=False)


def _pair(**options: Any) -> tuple[type, type]:
    """Return the same class made by us and by the standard library."""

    def made(dataclass: Callable[..., Any]) -> type:
        @dataclass(**options)
        class Site:
            """A place."""

            name: str
            sizes: tuple[int, ...] = ()
            note: str = field(default="", compare=False, repr=False)

            @property
            def total(self) -> int:
                return sum(self.sizes)

        result: type = Site
        return result

    return made(records.dataclass), made(dataclasses.dataclass)


VALUES = [("a",), ("a", (1, 2)), ("a", (1, 2), "x"), ("b", (), "y"), ("", (0,), "")]


@pytest.mark.parametrize("options", [{"frozen": True}, {"frozen": True, "eq": False}])
def test_they_compare_hash_and_print_alike(options: dict[str, bool]) -> None:
    ours, standard = _pair(**options)
    for one in VALUES:
        assert repr(ours(*one)) == repr(standard(*one))
        assert ours(*one).total == standard(*one).total
        for other in VALUES:
            assert (ours(*one) == ours(*other)) == (standard(*one) == standard(*other))
            assert ours(*one) != standard(*other)
        same = ours(*one)
        assert same == same
        assert {same: 1}[same] == 1
        if options == {"frozen": True}:
            assert hash(ours(*one)) == hash(standard(*one))
        assert dataclasses.asdict(ours(*one)) == dataclasses.asdict(standard(*one))
        assert replace(ours(*one), name="z") != ours(*one)
    assert [each.name for each in fields(ours)] == [each.name for each in fields(standard)]
    assert vars(ours)["__match_args__"] == vars(standard)["__match_args__"]


def test_nothing_can_be_changed() -> None:
    site: Any = Site("a", (1,))
    for change in ("name", "sizes", "note", "other"):
        with pytest.raises(FrozenInstanceError, match=change):
            setattr(site, change, "b")
    for change in ("name", "other"):
        with pytest.raises(FrozenInstanceError, match=change):
            delattr(site, change)
    assert site == Site("a", (1,))


def test_copies_and_pickles_are_equal() -> None:
    site = Site("a", (1, 2), "x")
    assert copy.copy(site) == copy.deepcopy(site) == pickle.loads(pickle.dumps(site)) == site


def test_what_a_class_has_itself_stays() -> None:
    @records.dataclass(frozen=True)
    class Upper:
        """Equal whatever the case."""

        name: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Upper) and self.name.upper() == other.name.upper()

        def __repr__(self) -> str:
            return self.name

    assert Upper("a") == Upper("A")
    assert repr(Upper("a")) == "a"
    assert hash(Upper("a")) == hash(Upper("a"))


def test_a_subclass_has_the_fields_of_both() -> None:
    @records.dataclass(frozen=True)
    class Line(Site):
        """With a line."""

        line: int = 0

    assert repr(Line("a", line=3)).endswith("Line(name='a', sizes=(), line=3)")
    assert Line("a", line=3) != Line("a", line=4)
    assert Line("a") != Site("a")


def test_other_kinds_are_made_by_the_standard_library() -> None:
    @records.dataclass(frozen=True, order=True)
    class Place:
        """One that can be sorted."""

        line: int

    @records.dataclass
    class Counter:
        """One that changes."""

        line: int

    assert Place(1) < Place(2)
    counter = Counter(1)
    counter.line = 2
    assert counter == Counter(2)
