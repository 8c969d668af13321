"""Records behave like the frozen dataclasses of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator
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


def _pair(**options: Any) -> tuple[Any, Any]:
    """Return the same class made by us and by the standard library."""

    def made(dataclass: Callable[..., Any]) -> Any:
        @dataclass(**options)
        class Site:
            """A place."""

            name: str
            sizes: tuple[int, ...] = ()
            note: str = field(default="", compare=False, repr=False)

            @property
            def total(self) -> int:
                return sum(self.sizes)

        result: Any = Site
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


def test_a_class_is_made_when_it_is_first_used(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    standard = dataclasses.dataclass

    def counted(cls: type, **options: bool) -> type:
        made.append(cls.__name__)
        return standard(cls, **options)

    site, _ = _pair(frozen=True)
    monkeypatch.setattr(dataclasses, "dataclass", counted)
    assert not made
    assert site("a") == site("a")
    assert [each.name for each in fields(site)] == ["name", "sizes", "note"]
    assert made == ["Site"]


@pytest.mark.parametrize("ask", [fields, inspect.signature, dataclasses.is_dataclass, vars])
def test_whatever_is_asked_first_of_a_class(ask: Callable[[type], Any]) -> None:
    ours, standard = _pair(frozen=True)
    ask(ours)
    assert inspect.signature(ours) == inspect.signature(standard)
    ours("a")
    assert ours.sizes == standard.sizes == ()
    assert ours.note == standard.note == ""
    assert "name" not in vars(ours)
    assert ours.__match_args__ == standard.__match_args__


def test_a_subclass_may_call_the_init_of_a_class_that_is_not_made_yet() -> None:
    ours, _ = _pair(frozen=True)

    class Longer(ours):  # type: ignore[misc, valid-type]
        def __init__(self, name: str) -> None:
            super().__init__(name, (1,))

    assert Longer("a").sizes == (1,)


def test_a_subclass_compares_what_its_base_does_if_that_compares() -> None:
    @records.dataclass(frozen=True, eq=False)
    class Line(Site):
        """With a line that is not compared."""

        line: int = 0

    assert Line("a", line=3) == Line("a", line=4)
    assert hash(Line("a", line=3)) == hash(Line("a", line=4))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_process_forked_while_a_class_is_made_makes_its_own() -> None:
    with records._lock:
        child = threading.Thread(target=lambda: ended.append(_forked()))
        ended: list[int] = []
        child.start()
        child.join(20)
    assert ended == [0]


def _forked() -> int:
    """Return the exit status of a child that uses a record for the first time."""
    number = os.fork()
    if not number:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(10)
        ours, _ = _pair(frozen=True)
        os._exit(0 if ours("a") == ours("a") else 1)
    return os.waitpid(number, 0)[1]


def test_a_record_that_init_never_saw_can_be_compared() -> None:
    ours, _ = _pair(frozen=True)
    one, other = object.__new__(ours), object.__new__(ours)
    for each in (one, other):
        vars(each).update(name="a", sizes=(), note="")
    assert one == other
    assert repr(one).endswith("Site(name='a', sizes=())")


@pytest.fixture
def restless() -> Iterator[None]:
    """Let threads take turns as often as can be."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("restless")
def test_threads_that_use_a_class_first_all_get_their_records() -> None:
    for _ in range(200):
        ours, _ = _pair(frozen=True)
        together = threading.Barrier(4)
        found: list[Any] = []

        def use(ours: type, together: threading.Barrier, found: list[Any]) -> None:
            together.wait()
            found.append(ours("a", (1,)))

        threads = [threading.Thread(target=use, args=(ours, together, found)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [ours("a", (1,))] * 4


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
