"""Integers read from the pages of a table are those that SQLite reads."""

from __future__ import annotations

import random
from collections.abc import Sequence

import apsw
import numpy as np
import pytest

from snapreport.bundle import database_reader
from snapreport.bundle.database_reader import Rows, read_rows
from tests.reference.leaves import UnusualError, read_leaves
from tests.thorough import some

WIDTH = 4
TRIES = len(some(range(3000), 750))
"""Damaged tables of each kind."""
EDGES = [0, 1, -1, *(sign * (1 << bits) + by for bits in (7, 8, 15, 23, 31, 47) for sign in (1, -1)
         for by in (-1, 0, 1)), 2**63 - 1, -(2**63)]  # fmt: skip


def table(rows: Sequence[Sequence[object]], *, page_size: int = 4096, after: str = "") -> bytes:
    """Return a database with a table of WIDTH columns, the first of which is the id."""
    connection = apsw.Connection(":memory:")
    connection.execute(f"PRAGMA page_size = {page_size}")
    connection.execute("CREATE TABLE other (x); CREATE TABLE t (id INTEGER PRIMARY KEY, a, b, c)")
    with connection:
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
    connection.execute(after)
    return connection.serialize("main")


def read(data: bytes) -> Rows | None:
    connection = apsw.Connection(":memory:")
    connection.deserialize("main", data)
    root = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 't'").fetchone()
    assert root is not None
    return read_rows(data, int(root[0]), WIDTH)


def assert_as_sqlite_says(data: bytes) -> None:
    rows = read(data)
    assert rows is not None
    connection = apsw.Connection(":memory:")
    connection.deserialize("main", data)
    said = connection.execute("SELECT * FROM t ORDER BY id").fetchall()
    assert rows.ids.tolist() == [row[0] for row in said]
    for column in range(1, WIDTH):
        cells = [row[column] for row in said]
        assert rows.missing[column].tolist() == [cell is None for cell in cells]
        assert rows.values[column].tolist() == [cell or 0 for cell in cells]


@pytest.mark.parametrize("page_size", [512, 4096, 65536])
@pytest.mark.parametrize("count", [0, 1, 3, 100, 30_000])
def test_numbers_of_every_width_are_read_from_any_tree(page_size: int, count: int) -> None:
    rng = random.Random(count)
    rows = [(i, *(rng.choice([None, *EDGES]) for _ in range(3))) for i in range(count)]
    assert_as_sqlite_says(table(rows, page_size=page_size))


def test_ids_may_have_gaps_and_be_large_or_negative() -> None:
    ids = [-5, 0, 127, 128, 2**14, 2**21, 2**28, 2**42, 2**55]
    data = table([(i, 1, 2, 3) for i in ids[1:]])
    assert_as_sqlite_says(data)
    # Nine bytes, as a negative id has, are left to SQLite.
    assert read(table([(i, 1, 2, 3) for i in ids])) is None


def test_a_table_that_others_have_changed_is_read_too() -> None:
    rows = [(i, i, -i, None) for i in range(20_000)]
    assert_as_sqlite_says(
        table(rows, after="DELETE FROM t WHERE id % 3 = 0; INSERT INTO t(a) VALUES (7)")
    )
    assert_as_sqlite_says(table(rows, after="DELETE FROM t WHERE id < 15000; VACUUM"))


@pytest.mark.parametrize("odd", [0.5, "text", "", b"blob", "long" * 9999])
def test_what_is_no_integer_is_left_to_sqlite(odd: object) -> None:
    assert read(table([(i, odd if i == 700 else 3, 0, 1) for i in range(900)])) is None


def test_fewer_columns_than_asked_for_are_left_to_sqlite() -> None:
    assert read(table([(1, 2, 3, 4)], after="ALTER TABLE t ADD COLUMN d")) is not None
    data = table([(1, 2, 3, 4)])
    assert read_rows(data, 3, WIDTH + 1) is None
    assert read_rows(data, 3, WIDTH - 1) is None


@pytest.mark.parametrize("root", [-1, 0, 1, 2**31])
def test_a_root_that_is_no_page_of_a_table_is_left_to_sqlite(root: int) -> None:
    assert read_rows(table([(1, 2, 3, 4)]), root, WIDTH) is None


def test_damage_anywhere_is_never_more_than_other_numbers() -> None:
    data = bytearray(table([(i, i * i, i << 40, None) for i in range(400)], page_size=512))
    rng = random.Random(1)
    root = 3
    refused = 0
    for _ in range(TRIES):
        damaged = bytearray(data)
        for place in rng.sample(range(len(data)), 3):
            damaged[place] = rng.randrange(256)
        rows = read_rows(bytes(damaged), root, WIDTH)
        refused += rows is None
        if rows is not None:
            assert rows.values.shape == (WIDTH, len(rows.ids))
            assert (np.diff(rows.ids) > 0).all()
    assert 0 < refused < TRIES


def test_a_tree_that_bites_its_tail_is_left_to_sqlite() -> None:
    size = 512
    data = bytearray(table([(i, i, i, i) for i in range(400)], page_size=size))
    page = 2 * size  # the root
    assert data[page] == 5
    data[page + 8 : page + 12] = (3).to_bytes(4, "big")
    assert read_rows(bytes(data), 3, WIDTH) is None


def test_pages_that_are_named_twice_or_hold_too_much_are_left_to_sqlite() -> None:
    size = 512
    data = bytearray(table([(i, i, i, i) for i in range(400)], page_size=size))
    root = 2 * size
    twice = bytearray(data)
    first = root + int.from_bytes(data[root + 12 : root + 14], "big")
    twice[root + 8 : root + 12] = data[first : first + 4]  # the first leaf is the last one, too
    assert read_rows(bytes(twice), 3, WIDTH) is None
    leaf = (int.from_bytes(data[first : first + 4], "big") - 1) * size
    assert data[leaf] == 13
    cells = int.from_bytes(data[leaf + 3 : leaf + 5], "big")
    for page, count in ((leaf, 0xFFFF), (leaf, (size - 8) // 9 + 1), (root, 0xFFFF), (root, 72)):
        many = bytearray(data)
        many[page + 3 : page + 5] = count.to_bytes(2, "big")
        assert read_rows(bytes(many), 3, WIDTH) is None
    for place in (0, 8, 8 + 2 * cells - 1, size, 0xFFFF):
        elsewhere = bytearray(data)
        elsewhere[leaf + 8 : leaf + 10] = place.to_bytes(2, "big")
        assert read_rows(bytes(elsewhere), 3, WIDTH) is None


def plainly(data: bytes, root: int) -> list[tuple[int, list[int | bytes | None]]] | None:
    """Read a table as ``read_rows`` does, cell by cell."""
    try:
        file = database_reader._File(data)
        leaves = file.leaves(root).tolist()
        return read_leaves(data, file.page_size, leaves, WIDTH, None)
    except (database_reader._Unusual, UnusualError, IndexError):
        return None


@pytest.mark.parametrize("page_size", [512, 4096])
def test_damaged_tables_are_taken_or_left_as_cell_by_cell(page_size: int) -> None:
    rng = random.Random(page_size)
    rows = [(i, *(rng.choice([None, *EDGES]) for _ in range(3))) for i in range(300)]
    data = table(rows, page_size=page_size)
    places = range(2 * page_size, len(data))
    bent = [data]
    for _ in range(TRIES):
        damaged = bytearray(data)
        for place in rng.sample(places, rng.randint(1, 3)):
            damaged[place] = rng.choice([rng.randrange(256), 0, 1, 7, 9, 10, 0x7F, 0x80, 0xFF])
        bent.append(bytes(damaged))
    taken = 0
    for each in bent:
        found, plain = read_rows(each, 3, WIDTH), plainly(each, 3)
        assert (found is None) == (plain is None)
        if found is not None and plain is not None:
            taken += 1
            assert found.ids.tolist() == [number for number, _ in plain]
            for column in range(WIDTH):
                cells = [row[column] for _, row in plain]
                assert found.values[column].tolist() == [cell or 0 for cell in cells]
                assert found.missing[column].tolist() == [cell is None for cell in cells]
    assert TRIES // 10 < taken < len(bent)


def test_a_leaf_that_says_it_has_more_rows_than_have_room_is_left_to_sqlite() -> None:
    size = 512
    data = bytearray(table([(i, i, i, i) for i in range(400)], page_size=size))
    for page in range(0, len(data), size):
        if data[page] == 13:
            data[page + 3 : page + 5] = b"\xff\xff"
    assert read_rows(bytes(data), 3, WIDTH) is None
