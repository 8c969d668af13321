"""A database that is asked in a process of its own: one for all questions that are answered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from multiprocessing import active_children
from threading import Event, Thread

import pytest

from snapreport.bundle import write_database
from snapreport.bundle.query import QueryProcess
from snapreport.ground.errors import QueryError
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


def test_a_statement_that_is_ended_is_told_so_and_the_next_one_is_answered() -> None:
    data = write_database(trace().alloc("a", MIB).file())
    forever = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    with closing(QueryProcess(data, "snap.zip")) as database:
        said: list[str] = []

        def ask() -> None:
            with pytest.raises(QueryError) as refused:
                for answer in database.run(forever):
                    list(answer.rows)
            said.append(str(refused.value))

        asking = Thread(target=ask)
        asking.start()
        while not said:
            database.end_statement()
            asking.join(0.01)
        asking.join()
        assert said == ["The query was ended."]
        (answer,) = database.run("SELECT 7")
        assert list(answer.rows) == [(7,)]


def test_a_statement_that_was_answered_before_it_was_ended_takes_no_other_with_it() -> None:
    data = write_database(trace().alloc("a", MIB).file())
    with closing(QueryProcess(data, "snap.zip")) as database:
        for number in (1, 2):
            (answer,) = database.run(f"SELECT {number}")
            assert list(answer.rows) == [(number,)]
            database.end_statement()
