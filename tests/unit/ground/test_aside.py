"""Work that is done in a thread meanwhile, or else where its result is asked for."""

from __future__ import annotations

import threading

import pytest

from snapreport.ground.processes import aside


def test_work_is_done_elsewhere_and_once() -> None:
    where: list[int] = []
    result = aside(lambda: where.append(threading.get_ident()))
    result()
    result()
    assert len(where) == 1
    assert where[0] != threading.get_ident()


def test_what_fails_elsewhere_fails_where_it_is_asked_for() -> None:
    result = aside(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        result()


def test_where_no_thread_can_start_the_work_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", full)
    assert aside(threading.get_ident)() == threading.get_ident()
