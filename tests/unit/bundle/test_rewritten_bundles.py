"""Databases that others wrote anew give the same history, or are refused."""

from __future__ import annotations

import sqlite3
import zipfile
from pathlib import Path

import pytest

import snapreport
from snapreport.bundle import write_bundle
from snapreport.ground.errors import BundleError
from snapreport.model.history import History
from tests.builders import assert_same_history
from tests.unit.bundle.test_snapviewer import rezip, two_devices

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
        ("DROP VIEW allocs; DROP VIEW allocations; CREATE TABLE allocations (id)", "allocations"),
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
        ("spans", "event"),
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
