"""Work that waits until someone asks for its result."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from weakref import ref

import snapreport
from snapreport.ground.later import Later, changed, later


@dataclass(frozen=True, eq=False, kw_only=True)
class _Record:
    late: Later[int] = Later()
    plain: str


@dataclass(frozen=True, eq=False, kw_only=True)
class _Longer(_Record):
    more: Later[str] = Later()


def _count(done: list[int]) -> int:
    done.append(1)
    return len(done)


def test_work_is_done_when_it_is_asked_for_and_only_once() -> None:
    done: list[int] = []
    record = _Record(late=later(lambda: _count(done)), plain="")
    assert done == []
    assert (record.late, record.late) == (1, 1)
    assert done == [1]


def test_what_only_the_work_needs_leaves_memory_with_it() -> None:
    needed = {3}
    left = ref(needed)
    record = _Record(late=later(partial(max, needed)), plain="")
    del needed
    assert left() is not None
    assert record.late == 3
    assert left() is None


def test_a_longer_record_shares_the_work_of_the_shorter_one() -> None:
    done: list[int] = []
    record = _Record(late=later(lambda: _count(done)), plain="")
    longer = _Longer(**vars(record), more=later(lambda: f"{record.late} and more"))
    assert done == []
    assert (longer.more, longer.late) == ("1 and more", 1)
    assert done == [1]


def test_a_value_may_be_given_as_it_is_and_replaced() -> None:
    record = replace(_Record(late=later(lambda: 1), plain=""), late=2)
    assert record.late == 2
    assert repr(record) == "_Record(late=2, plain='')"


@dataclass(frozen=True)
class _Usual:
    late: Later[int] = Later(7)


def test_a_field_may_have_a_default() -> None:
    assert _Usual().late == 7
    assert _Usual(later(lambda: 8)) == _Usual(8)


def test_a_changed_record_has_done_no_work_for_its_other_fields() -> None:
    done: list[int] = []
    record = changed(_Record(late=later(lambda: _count(done)), plain=""), plain="new")
    assert done == []
    assert (record.plain, record.late) == ("new", 1)


def test_a_record_is_pickled_with_what_was_found() -> None:
    record = pickle.loads(pickle.dumps(_Record(late=later(lambda: 3), plain="x")))
    assert (record.late, record.plain) == (3, "x")
    assert vars(record)["late"] == 3


def test_what_is_loaded_and_found_can_be_pickled(samples: Path) -> None:
    snapshot = snapreport.load(samples / "three_devices.pickle")
    device = snapshot.device(0)
    for each in (snapshot, device, device.figures, device.trust):
        pickle.loads(pickle.dumps(each))
    again = pickle.loads(pickle.dumps(device.figures))
    assert again.peaks == device.figures.peaks
