"""Tables of numbers and one column of texts, read from their pages, are those that SQL gives."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import apsw
import numpy as np
import pytest

from snapreport.bundle import database_reader
from snapreport.bundle.database import write_database
from snapreport.bundle.database_reader import Rows, read_cells, read_rows
from snapreport.bundle.tables import open_tables
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

    def read(*told: Any) -> Rows | None:
        if way == "SQL":
            return None
        rows = read_rows(*told)
        assert rows is not None
        return rows

    monkeypatch.setattr(database_reader, "read_rows", read)
    with open_tables(data) as tables:
        cells, texts = read_cells(tables, "events")
    other = history.devices[0].other
    assert texts == other.action
    assert len(texts) == 2
    for name in ("event", "addr", "size", "time_us", "stream", "pool", "stack"):
        values, missing = cells[name]
        assert np.where(missing, -1, values).tolist() == getattr(other, name).tolist()
