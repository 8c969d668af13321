"""A table whose pages we write has the rows that SQLite would have written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import apsw
import numpy as np
import pytest
from numpy.typing import NDArray

from snapreport.bundle import database
from snapreport.bundle.database import Leaves, joined
from snapreport.bundle.database_reader import read_rows
from snapreport.bundle.tables import NOT_THERE
from snapreport.ground.native import library
from tests.property.test_deflating import inflate

SMALL = 512
"""The smallest page of SQLite: three levels need few rows."""
MAY_BE_NULL = [True] * 12
"""More columns than a table here has."""


def empty(page_size: int) -> tuple[apsw.Connection, list[int]]:
    """Return a database with empty tables between others, and the first page of each of those."""
    connection = apsw.Connection(":memory:")
    connection.execute(f"PRAGMA page_size = {page_size}")
    made = ("t (id INTEGER PRIMARY KEY, a, b, c)", "u (a, text, b)")
    for table in ("before (x)", *made, "after (x)"):
        connection.execute(f"CREATE TABLE {table}")
    with connection:
        connection.executemany("INSERT INTO after VALUES (?)", [("text" * 99,)] * 30)
    found = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name IN ('t', 'u')")
    return connection, [int(root) for (root,) in found]


def file_of(tables: Sequence[tuple[int, Leaves]], connection: apsw.Connection) -> bytes:
    parts = joined(connection.serialize("main"), tables)
    for part in parts:
        if not isinstance(part, bytes):
            assert inflate(library.deflated(part)) == part.data
    return b"".join(part if isinstance(part, bytes) else part.data for part in parts)


def written(parts: Sequence[tuple[int, Sequence[NDArray[np.int64]]]], page_size: int) -> bytes:
    connection, (root, _) = empty(page_size)
    leaves = Leaves()
    for first_id, columns in parts:
        leaves.add(first_id, columns, MAY_BE_NULL)
    return file_of([(root, leaves)] if parts else [], connection)


def plain(first_id: int, columns: Sequence[NDArray[np.int64]]) -> list[tuple[int | None, ...]]:
    cells = [
        [None if cell == NOT_THERE else cell for cell in column.tolist()] for column in columns
    ]
    return [(i, *row) for i, row in enumerate(zip(*cells, strict=True), first_id)]


def opened(data: bytes) -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.deserialize("main", data)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    return connection


def numbers(n: int, seed: int) -> list[NDArray[np.int64]]:
    """Return three columns: of all widths with NULL among them, of NULL alone, and of one."""
    random = np.random.default_rng([n, seed])
    some = random.integers(-(2**63) + 1, 2**63 - 1, n) >> random.integers(0, 64, n)
    some[random.random(n) < 0.2] = NOT_THERE
    edges = [sign * 2**bits + by for bits in range(63) for sign in (-1, 1) for by in (-1, 0, 1)]
    edges += [2**63 - 1, -(2**63) + 1]
    some[: len(edges)] = edges[:n]
    return [some, np.full(n, NOT_THERE), np.arange(n) // 100]


def leaves_of(data: bytes, page_size: int) -> list[bytes]:
    pages = [data[at : at + page_size] for at in range(0, len(data), page_size)]
    return [page for page in pages if page[0] == 13 and b"text" not in page]


@pytest.mark.parametrize("page_size", [SMALL, 4096])
@pytest.mark.parametrize("first_id", [0, 100, 2**40])
@pytest.mark.parametrize("n", [0, 1, 2, 9, 10, 11, 100, 700, 60_000])
def test_sqlite_and_our_reader_read_the_rows(
    n: int, first_id: int, page_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "PAGE_SIZE", page_size)
    monkeypatch.setattr(library, "PAGE_SIZE", page_size)
    columns = numbers(n, 1)
    data = written([(first_id, columns)] if n else [], page_size)
    rows = plain(first_id, columns)
    assert opened(data).execute("SELECT id, a, b, c FROM t").fetchall() == rows
    found = read_rows(data, empty(page_size)[1][0], 4)
    assert found is not None
    assert found.ids.tolist() == [row[0] for row in rows]
    values = np.where(found.missing, NOT_THERE, found.values)[1:]
    assert np.array_equal(values, columns)


@pytest.mark.parametrize("n", [1, 30, 5000])
def test_several_tables_and_texts_go_into_one_file(n: int) -> None:
    some, none, few = numbers(n, 4)
    texts = [b"", b"alloc", b"sixteen letters!", b"\xc3\xa9"]
    place = np.arange(n) * 7 // 3 % len(texts)
    connection, (first, second) = empty(4096)
    numbered, other = Leaves(), Leaves()
    numbered.add(0, [some, none, few], MAY_BE_NULL)
    other.add(1, [few, place, some], MAY_BE_NULL, False, (1, texts))
    other.add(n + 1, [some[:1], place[:1], few[:1]], MAY_BE_NULL, False, (1, texts[::-1]))
    file = opened(file_of([(first, numbered), (second, other)], connection))
    assert file.execute("SELECT * FROM t").fetchall() == plain(0, [some, none, few])
    told = [texts[i].decode() for i in place.tolist()]
    rows = [(i, a, text, b) for text, (i, a, b) in zip(told, plain(1, [few, some]), strict=True)]
    last = (n + 1, *plain(0, [some[:1]])[0][1:], texts[3 - place[0]].decode(), int(few[0]))
    found = file.execute("SELECT rowid, * FROM u").fetchall()
    assert found == [*rows, last]


def test_numbers_of_a_column_are_as_long_as_one_another() -> None:
    long, short = [2, 300, NOT_THERE, 0, -70_000], [0, 1, NOT_THERE, 0, 1]
    columns = [np.array(column, np.int64) for column in (long, short)]
    ((part, last_ids),) = library.write_leaves(columns, 5, NOT_THERE, MAY_BE_NULL)
    assert last_ids.tolist() == [9]
    rows = [
        # Length, id, length of the header, types, number; 3 is of three bytes, 8 and 9 are 0 and 1.
        bytes([7, 5, 4, 0, 3, 8, 0, 0, 2]),
        bytes([7, 6, 4, 0, 3, 9, 0, 1, 0x2C]),
        bytes([4, 7, 4, 0, 0, 0]),
        bytes([7, 8, 4, 0, 3, 8, 0, 0, 0]),
        bytes([7, 9, 4, 0, 3, 9, 0xFE, 0xEE, 0x90]),
    ]
    assert part.data.endswith(b"\0\0" + b"".join(reversed(rows)))


ROWS_OF_A_LEAF = 13
WIDE = np.full(ROWS_OF_A_LEAF, 2**62, np.int64)
"""A leaf full of rows of 38 bytes each, the pointer included, in pages of the smallest size."""
CHILDREN = (SMALL - 12) // (4 + 2 + 6)
"""Cells of a page that points to leaves, whose ids take six bytes."""


@pytest.mark.parametrize("more", range(-1, 4))
@pytest.mark.parametrize("full", [1, 2, 3, CHILDREN, CHILDREN + 1, 2 * CHILDREN + 1])
def test_no_page_is_without_cells(full: int, more: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "PAGE_SIZE", SMALL)
    monkeypatch.setattr(library, "PAGE_SIZE", SMALL)
    leaves = full * CHILDREN + more
    column = np.tile(WIDE, leaves)
    data = written([(2**40, [column] * 3)], SMALL)
    assert len(leaves_of(data, SMALL)) == leaves + 2  # and the empty tables
    assert opened(data).execute("SELECT count(*), max(id) FROM t").fetchall() == [
        (len(column), 2**40 + len(column) - 1)
    ]


@pytest.mark.parametrize("leaves", [30, 200, 2500])
@pytest.mark.parametrize("place", [0, 1, 29, 30, 150, 199, 200, 201, 204, 2499, 2500, 2550, 2570])
def test_the_page_that_files_are_locked_by_is_left_out(
    leaves: int, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "PAGE_SIZE", SMALL)
    monkeypatch.setattr(library, "PAGE_SIZE", SMALL)
    column = np.tile(WIDE, leaves)
    column[::7] -= np.arange(len(column[::7]))
    plainly = written([(2**40, [column] * 3)], SMALL)
    locked = len(empty(SMALL)[0].serialize("main")) // SMALL + 1 + place
    monkeypatch.setattr(database, "_LOCKED", locked)
    data = written([(2**40, [column] * 3)], SMALL)
    if locked > len(plainly) // SMALL:
        assert data == plainly
        return
    assert len(data) == len(plainly) + SMALL
    assert not any(data[(locked - 1) * SMALL : locked * SMALL])
    connection = apsw.Connection(":memory:")
    connection.deserialize("main", data)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [
        (f"*** in database main ***\nPage {locked}: never used",)
    ]
    rows = plain(2**40, [column] * 3)
    assert connection.execute("SELECT * FROM t").fetchall() == rows


def test_rows_of_several_devices_are_one_table() -> None:
    parts = [(0, numbers(900, 1)), (900, numbers(1, 2)), (901, numbers(5000, 3))]
    rows = [row for part in parts for row in plain(*part)]
    assert opened(written(parts, 4096)).execute("SELECT * FROM t").fetchall() == rows
    some = opened(written(parts, 4096)).execute("SELECT a FROM t WHERE id IN (0, 899, 900, 5900)")
    assert some.fetchall() == [(rows[i][1],) for i in (0, 899, 900, 5900)]


def test_too_many_columns_and_ids_beyond_a_row_are_refused() -> None:
    one = np.zeros(2, np.int64)
    for columns, first_id in (([one] * 13, 0), ([one], 2**56 - 1), ([one], -1)):
        with pytest.raises(ValueError, match="out of range"):
            next(library.write_leaves(columns, first_id, NOT_THERE, MAY_BE_NULL))
    for columns, first_id in (([one] * 12, 0), ([one], 2**56 - 2)):
        next(library.write_leaves(columns, first_id, NOT_THERE, MAY_BE_NULL))


def test_a_text_that_is_not_there_is_refused() -> None:
    for place in (-1, 2):
        with pytest.raises(ValueError, match="out of range"):
            next(write_texts([0, place], [b"a", b"b"]))


def write_texts(place: list[int], texts: list[bytes]) -> Iterator[object]:
    return library.write_leaves([np.array(place)], 0, NOT_THERE, [False], text=(0, texts))


def test_a_text_that_would_be_cut_is_refused() -> None:
    next(write_texts([0, 1], [b"x" * 16, b""]))
    for text in (b"x" * 17, b"x\0"):
        with pytest.raises(ValueError, match="a text has more"):
            next(write_texts([0], [text]))


def test_the_least_number_is_a_number_in_a_column_that_is_never_null() -> None:
    connection, (root, _) = empty(4096)
    leaves = Leaves()
    column = np.array([NOT_THERE, 3, 0], np.int64)
    leaves.add(0, [column, column, column], [True, False, True])
    rows = opened(file_of([(root, leaves)], connection)).execute("SELECT * FROM t").fetchall()
    assert rows == [(0, None, NOT_THERE, None), (1, 3, 3, 3), (2, 0, 0, 0)]
