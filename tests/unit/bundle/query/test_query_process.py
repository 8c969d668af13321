"""A database that is asked in a process of its own: one for all questions that are answered."""

from __future__ import annotations

from contextlib import closing
from multiprocessing import active_children

from snapreport.bundle import write_database
from snapreport.bundle.query.query_process import QueryProcess
from tests.builders import MIB, trace


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
