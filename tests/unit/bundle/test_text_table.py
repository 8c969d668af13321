"""Tables of numbers and one column of texts, read from their pages, are those that SQL gives."""

from __future__ import annotations

import random
from collections.abc import Sequence

import apsw
import pytest

from snapreport.bundle import text_table
from snapreport.bundle.database import write_database
from snapreport.bundle.opening import open_in_memory
from snapreport.bundle.pages import read_rows
from snapreport.bundle.tables import LIMITS, Tables
from snapreport.bundle.text_table import read_with_text
from tests.builders import trace

WIDTH, TEXT = 4, 2


def table(rows: Sequence[tuple[object, ...]], before: str = "") -> tuple[bytes, int]:
    """Return a database with a table of four columns and no id, and the table's first page."""
    connection = apsw.Connection(":memory:")
    connection.execute(before + "; CREATE TABLE t (a, b, c, d)")
    with connection:
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
    root = connection.execute("SELECT rootpage FROM sqlite_schema").fetchone()
    assert root is not None
    return connection.serialize("main"), int(root[0])


def test_numbers_and_texts_are_those_that_were_written() -> None:
    chance = random.Random(2)
    texts = ["", "segment_alloc", "ä€𝄞", "x" * 57, "x" * 56 + "y", "\0", "oom"]
    rows = [
        (chance.randrange(-(2**40), 2**40), 0, chance.choice(texts), chance.choice([None, 7]))
        for _ in range(5000)
    ]
    found = read_rows(*table(rows), WIDTH, TEXT)
    assert found is not None
    assert found.values[0].tolist() == [row[0] for row in rows]
    assert [found.texts[i] for i in found.values[TEXT].tolist()] == [row[TEXT] for row in rows]
    assert len(found.texts) == len(set(found.texts)) == len(texts)
    assert not found.missing[TEXT].any()
    assert found.missing[3].tolist() == [row[3] is None for row in rows]


@pytest.mark.parametrize(
    ("cells", "before"),
    [
        (["a", None], ""),
        (["a", 5], ""),
        (["a", b"a"], ""),
        (["a", "x" * 58], ""),
        ([f"number {i}" for i in range(65)], ""),
        (["a"], "PRAGMA encoding = 'UTF-16'"),
    ],
)
def test_any_other_text_is_left_to_sqlite(cells: list[object], before: str) -> None:
    assert read_rows(*table([(1, 2, cell, 3) for cell in cells], before), WIDTH, TEXT) is None


def test_texts_that_are_no_utf_8_are_left_to_sqlite() -> None:
    data, root = table([(1, 2, "a valid text", 3)])
    damaged = data.replace(b"a valid text", b"a valid \xff\xff\xff\xff")
    assert read_rows(damaged, root, WIDTH, TEXT) is None


def test_texts_are_not_read_as_numbers() -> None:
    data, root = table([(1, 2, "text", 3)])
    assert read_rows(data, root, WIDTH) is None


@pytest.mark.parametrize("way", ["pages", "SQL"])
def test_a_bundles_events_are_those_that_sql_gives(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = trace().event("segment_alloc", addr=4096, size=512, stream=3).alloc("a", 512)
    history = made.event("oom", addr=7, size=9, time_us=None).free("b", 5).file()
    data = write_database(history)
    if way == "SQL":
        monkeypatch.setattr(text_table, "read_rows", lambda *_: None)
    connection = open_in_memory(data, LIMITS)
    columns = dict.fromkeys(("device", "event", "action", "addr", "size"), None)
    nulls = columns | {"time_us": -1, "stream": None, "stack": -1}
    numbers, texts = read_with_text(Tables(connection, len(data)), data, "events", nulls, "action")
    other = history.devices[0].other
    assert texts == other.action
    assert len(texts) == 2
    for name in ("event", "addr", "size", "time_us", "stream", "stack"):
        assert numbers[name].tolist() == getattr(other, name).tolist()
