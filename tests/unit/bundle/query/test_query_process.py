"""A database that is asked in a process of its own: one for all questions that are answered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from multiprocessing import active_children
from threading import Event, Thread

import pytest

from snapreport.bundle import write_database
from snapreport.bundle.query.query_process import QueryProcess
from tests.builders import MIB, trace


@pytest.fixture(params=["alone", "beside a thread"])
def _threads(request: pytest.FixtureRequest) -> Iterator[None]:
    """A process that can be forked, and one that cannot."""
    ended = Event()
    beside = Thread(target=ended.wait)
    if request.param == "beside a thread":
        beside.start()
    yield
    ended.set()
    if beside.is_alive():
        beside.join()


@pytest.mark.usefixtures("_threads")
def test_one_process_answers_all_questions() -> None:
    before = set(active_children())
    data = write_database(trace().alloc("a", MIB).file())
    with closing(QueryProcess(data, "snap.zip")) as database:
        (first,) = set(active_children()) - before
        assert "allocations" in database.tables
        for _ in range(2):
            (answer,) = database.run("SELECT 7 AS seven")
            assert (answer.columns, list(answer.rows)) == (("seven",), [(7,)])
            assert "CREATE TABLE" in database.schema()
            assert set(active_children()) - before == {first}
    assert set(active_children()) == before
