"""Databases as older versions wrote them, or as others wrote them anew, give the same history."""

from __future__ import annotations

import sqlite3
import zipfile
from pathlib import Path

import pytest

import snapreport
from snapreport.bundle import write_bundle
from snapreport.bundle.former import WITH_LONG_ROWS
from snapreport.errors import BundleError
from snapreport.model.history import History
from tests.builders import assert_same_history
from tests.unit.bundle.test_snapviewer import rezip, two_devices

OLDER = """
CREATE TEMP TABLE kept AS SELECT * FROM allocations;
CREATE TEMP TABLE kept_blocks AS SELECT * FROM blocks;
DROP VIEW allocs;
DROP VIEW allocations;
DROP TABLE blocks;
DROP TABLE allocation_rows;
DROP TABLE allocation_kinds;
DROP TABLE allocation_spans;
CREATE TABLE allocations (
    id INTEGER PRIMARY KEY,
    device INTEGER NOT NULL REFERENCES devices,
    addr INTEGER NOT NULL,
    version INTEGER NOT NULL,        -- how many allocations had this address before
    size INTEGER NOT NULL,           -- requested bytes
    block_size INTEGER NOT NULL,     -- the lower bound where it differs from the next
    block_size_max INTEGER NOT NULL,
    alloc_step INTEGER,              -- NULL: before recording
    free_requested_step INTEGER,     -- NULL: never, or before recording
    free_step INTEGER,               -- NULL: never
    alloc_time_us INTEGER,
    free_requested_time_us INTEGER,
    free_time_us INTEGER,
    stream INTEGER NOT NULL,
    pool INTEGER REFERENCES pools,
    stack INTEGER REFERENCES stacks,
    free_stack INTEGER REFERENCES stacks,
    category INTEGER REFERENCES strings,
    compile_context INTEGER REFERENCES strings,
    metadata INTEGER REFERENCES strings
);
CREATE TABLE blocks (                -- they tile their segment
    segment INTEGER NOT NULL REFERENCES segments,
    address INTEGER NOT NULL,
    size INTEGER NOT NULL,
    requested INTEGER NOT NULL,
    state TEXT NOT NULL,             -- active_allocated, active_pending_free, inactive
    stack INTEGER REFERENCES stacks,
    allocation INTEGER REFERENCES allocations
);
INSERT INTO allocations SELECT * FROM kept;
INSERT INTO blocks SELECT * FROM kept_blocks;
"""
"""Makes of a bundle's database one as snapreport wrote them before it kept differences."""


LONG_ROWS = f"""
CREATE TEMP TABLE kept AS
    SELECT id, device, addr, version, size, block_size - size, block_size_max - block_size,
        alloc_step, requested_after, free_after, alloc_time_us, requested_after_us, free_after_us,
        stream, pool, stack, free_stack, category, compile_context, metadata
    FROM allocations JOIN allocation_rows USING (id, addr, version);
DROP VIEW allocs;
DROP VIEW allocations;
DROP TABLE allocation_rows;
DROP TABLE allocation_kinds;
DROP TABLE allocation_spans;
{WITH_LONG_ROWS}
INSERT INTO allocation_rows SELECT * FROM kept;
"""
"""Likewise one of those that kept differences, but no kinds and spans."""


OTHER_VIEW = """
DROP VIEW allocs;
DROP VIEW allocations;
CREATE VIEW allocations AS SELECT *, addr AS block_size FROM allocation_rows;
"""

LONGER = """
CREATE TEMP TABLE kept AS SELECT sql FROM sqlite_schema WHERE name = 'allocation_rows';
ALTER TABLE allocation_rows ADD COLUMN more;
UPDATE allocation_rows SET more = 'text';
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = (SELECT sql FROM kept) WHERE name = 'allocation_rows';
"""
"""SQLite has to read these rows: they are longer than we write them."""


@pytest.mark.parametrize(
    "change",
    [
        OLDER,
        LONG_ROWS,
        LONGER,
        "UPDATE allocation_rows SET addr = addr; UPDATE allocation_kinds SET size = size; VACUUM",
    ],
)
def test_a_database_in_another_shape_gives_the_same_history(tmp_path: Path, change: str) -> None:
    history = two_devices()
    other = changed(history, tmp_path, change)
    assert_same_history(snapreport.load(other, keep_paths=True).history, history)


@pytest.mark.parametrize(
    ("change", "which"),
    [
        (OTHER_VIEW, "view allocations"),
        ("ALTER TABLE allocation_rows ADD COLUMN more", "table allocation_rows"),
        (OLDER + "ALTER TABLE allocations ADD COLUMN more", "table allocations"),
        ("DROP VIEW allocs; DROP VIEW allocations; CREATE TABLE allocations (id)", "allocations"),
        (OLDER.replace("free_step INTEGER", "free_step INTEGER DEFAULT 7"), "table allocations"),
        (OLDER.replace("REFERENCES allocations\n", "REFERENCES devices\n"), "table blocks"),
        ("DROP VIEW allocs; DROP VIEW allocations;", "no view allocations"),
    ],
)
def test_tables_of_neither_shape_are_refused(tmp_path: Path, change: str, which: str) -> None:
    with pytest.raises(BundleError, match=which):
        snapreport.load(changed(two_devices(), tmp_path, change))


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("kinds", "slack"),
        ("rows", "requested_after"),
        ("rows", "free_after_us"),
        ("rows", "alloc_after"),
        ("spans", "step"),
    ],
)
@pytest.mark.parametrize("value", [2**63 - 1, -(2**63) + 1])
def test_differences_that_pass_64_bits_are_refused(
    tmp_path: Path, table: str, column: str, value: int
) -> None:
    for change in ("", LONGER):
        change += f"UPDATE allocation_{table} SET {column} = {value} WHERE id = 0;"
        with pytest.raises(BundleError, match="out of range"):
            snapreport.load(changed(two_devices(), tmp_path, change))


def changed(history: History, tmp_path: Path, change: str) -> Path:
    """Return a bundle whose database is changed by SQL."""
    path = tmp_path / "two.zip"
    with path.open("wb") as out:
        write_bundle(history, out)
    with zipfile.ZipFile(path) as archive:
        database = Path(archive.extract("elements.db", tmp_path))
    connection = sqlite3.connect(database)
    connection.executescript(change)
    connection.close()
    return rezip(path, tmp_path / "other.zip", elements_db=database.read_bytes())
