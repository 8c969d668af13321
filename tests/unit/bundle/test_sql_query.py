"""SQL over a bundle's tables: what it answers, and all that it refuses to do."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import apsw
import pytest

from snapreport.bundle import write_database
from snapreport.bundle.query import Database, statements
from snapreport.ground.errors import BundleError, QueryError
from snapreport.model.answers import Cell
from tests.builders import KIB, frame, trace

ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"


@pytest.fixture(scope="module")
def data() -> bytes:
    history = trace().alloc("a", 4 * KIB, frames=[frame("f", "a.py", 3)]).alloc("b", KIB).free("a")
    return write_database(history.file())


@pytest.fixture
def database(data: bytes) -> Database:
    return Database(data)


def ask(database: Database, sql: str) -> list[tuple[Cell, ...]]:
    (answer,) = database.run(sql)
    return list(answer.rows)


def test_a_query_gives_what_sqlite_gives(database: Database, data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "elements.db"
    path.write_bytes(data)
    sql = (
        "SELECT size, callstack, alloc_event FROM allocations LEFT JOIN stacks ON stack = stacks.id"
        " ORDER BY size DESC"
    )
    plain = sqlite3.connect(path)
    assert (
        ask(database, sql)
        == plain.execute(sql).fetchall()
        == [
            (4 * KIB, "a.py:3:f", 0),
            (KIB, None, 1),
        ]
    )
    plain.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM allocs",
        "WITH c AS (SELECT id FROM allocations) SELECT count(*) FROM c",
        "SELECT sum(value) FROM json_each('[1, 1]')",
        "SELECT count(*) FROM pragma_table_info('strings')",
        "SELECT max(rank) FROM (SELECT rank() OVER (ORDER BY size) AS rank FROM allocations)",
    ],
)
def test_all_kinds_of_reading_are_allowed(database: Database, sql: str) -> None:
    assert ask(database, sql) == [(2,)]


@pytest.mark.parametrize(
    ("sql", "deed"),
    [
        ("DELETE FROM allocations", "change allocations"),
        ("DELETE FROM allocation_rows", "delete from allocation_rows"),
        ("UPDATE meta SET value = 1", "update meta"),
        ("INSERT INTO strings VALUES (1, '')", "insert into strings"),
        ("INSERT INTO strings SELECT id, text FROM strings", "insert into strings"),
        ("CREATE TABLE x (y)", "change the tables"),
        ("CREATE TEMP TABLE x (y)", ""),
        ("CREATE VIRTUAL TABLE x USING fts5(y)", ""),
        ("DROP VIEW allocs", "change the tables"),
        ("ALTER TABLE meta RENAME TO other", ""),
        ("ATTACH 'x.db' AS x", "attach x.db"),
        ("VACUUM", "attach"),
        ("VACUUM INTO 'x.db'", "attach"),
        ("REINDEX", ""),
        ("ANALYZE", ""),
        ("BEGIN IMMEDIATE", "begin"),
        ("SAVEPOINT x", "savepoint"),
        ("PRAGMA query_only = 0", "use the pragma query_only"),
        ("PRAGMA journal_mode = wal", "pragma"),
        ("PRAGMA writable_schema = 1", "pragma"),
        ("PRAGMA temp_store_directory = '/'", "pragma"),
        ("SELECT * FROM pragma_database_list", ""),
        ("SELECT load_extension('x.so')", "call load_extension"),
        ("SELECT fts3_tokenizer('simple')", "call fts3_tokenizer"),
        ("SELECT zeroblob(1000000000)", "call zeroblob"),
        ("SELECT * FROM dbstat", "read dbstat"),
    ],
)
def test_all_that_is_no_reading_is_refused(
    database: Database,
    data: bytes,
    sql: str,
    deed: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(QueryError, match="can only read") as caught:
        ask(database, sql)
    assert deed in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    assert ask(database, "SELECT count(*) FROM allocations") == [(2,)]


@pytest.mark.parametrize("function", ["writefile", "readfile", "edit", "fileio_read", "shell"])
def test_functions_of_the_sqlite_shell_do_not_exist(database: Database, function: str) -> None:
    with pytest.raises(QueryError, match=f"no such function: {function}"):
        ask(database, f"SELECT {function}('x', 'y')")


def test_a_view_in_a_strangers_bundle_may_do_no_more(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "elements.db"
    path.write_bytes(data)
    bent = sqlite3.connect(path)
    bent.execute("DROP VIEW allocs")
    bent.execute("CREATE VIEW allocs AS SELECT load_extension('x.so')")
    bent.commit()
    bent.close()
    with pytest.raises(QueryError, match="load_extension"):
        ask(Database(path.read_bytes()), "SELECT * FROM allocs")


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("SELEC 1", 'near "SELEC": syntax error'),
        ("SELECT * FROM absent", "no such table: absent"),
        ("SELECT absent FROM meta", "no such column: absent"),
        ("SELECT ?", "placeholder"),
        ("SELECT '\0'", "NUL"),
        ("SELECT replace(printf('%.*c', 99999, 'x'), 'x', printf('%.*c', 999, 'y'))", "more than"),
        ("SELECT abs(-9223372036854775808)", "integer overflow"),
    ],
)
def test_wrong_sql_is_told_with_what_sqlite_says(database: Database, sql: str, word: str) -> None:
    with pytest.raises(QueryError, match=word) as caught:
        ask(database, sql)
    assert "\n" not in str(caught.value)


def test_a_query_that_takes_too_long_is_ended(data: bytes) -> None:
    with pytest.raises(QueryError, match=r"more than 0.05 seconds"):
        ask(Database(data, seconds=0.05), ENDLESS)


def test_only_sqlites_own_time_counts(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(data, seconds=1)
    (answer,) = database.run(f"{ENDLESS.split(' SELECT count')[0]} SELECT x FROM c LIMIT 90000")
    assert next(answer.rows) == (1,)
    import time

    late = time.monotonic() + 100  # as if the reader had thought for long
    real = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: late + real() % 1 / 1000)
    assert sum(1 for _ in answer.rows) == 89_999


def test_ctrl_c_ends_a_query(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(data, seconds=60)
    calls: list[int] = []

    def pressed() -> float:
        calls.append(1)
        if len(calls) > 5:
            raise KeyboardInterrupt
        return 0.0

    monkeypatch.setattr("time.monotonic", pressed)
    with pytest.raises(KeyboardInterrupt):
        ask(database, ENDLESS)


def test_a_query_may_not_use_more_memory_than_given(data: bytes) -> None:
    before = apsw.hard_heap_limit(-1)
    try:
        database = Database(data, memory=apsw.memory_used() + 2**24)
        with pytest.raises(QueryError, match="more memory"):
            ask(database, ENDLESS.replace("SELECT count(*) FROM c", "SELECT x FROM c ORDER BY -x"))
    finally:
        apsw.hard_heap_limit(before)


def test_statements_end_at_semicolons_outside_of_quotes() -> None:
    text = "SELECT ';' ; -- a; b\nSELECT 2;\n  SELECT 3 "
    assert [part.strip() for part in statements(text)] == [
        "SELECT ';' ;",
        "-- a; b\nSELECT 2;",
        "SELECT 3",
    ]


def test_each_statement_answers_and_comments_do_not(database: Database) -> None:
    answers = database.run("SELECT 1 AS a, 2 AS a, 3 AS b; -- no more\n; SELECT 4 WHERE 0")
    found = [(answer.columns, list(answer.rows)) for answer in answers]
    assert found == [(("a", "a_2", "b"), [(1, 2, 3)]), (("4",), [])]


def test_the_schema_explains_the_columns(database: Database) -> None:
    assert "-- NULL: before recording" in database.schema("allocations")
    assert database.schema().count("CREATE ") == len(database.tables)
    with pytest.raises(QueryError, match="there are meta, strings"):
        database.schema("nothing")


@pytest.mark.parametrize("data", [b"", b"no database" * 99, b"SQLite format 3\0" + b"\0" * 600])
def test_what_is_no_database_is_a_bundle_error(data: bytes) -> None:
    with pytest.raises(BundleError, match=r"damaged elements\.db"):
        ask(Database(data), "SELECT * FROM sqlite_schema")
