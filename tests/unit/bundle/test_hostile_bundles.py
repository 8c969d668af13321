"""Bundles made by hand to do harm: each is refused in one line that names the file."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest

from snapreport.bundle import members, read_bundle, read_elements, write_bundle
from snapreport.bundle.query import Database
from snapreport.ground import processes
from snapreport.ground.errors import BundleError, InputError, QueryError
from snapreport.history.build import build_history
from snapreport.model.history import History
from snapreport.read import read_snapshot
from tests.builders import assert_same_history
from tests.conftest import REPOSITORY
from tests.hostile import databases, zips

SAMPLE = REPOSITORY / "sample_snapshots" / "private_pool.json"


@pytest.fixture(scope="module")
def history() -> History:
    """One with rows in every table that a hostile change names."""
    return replace(build_history(read_snapshot(SAMPLE)), strings=["forward", "compiled"])


@pytest.fixture(scope="module")
def bundle(history: History) -> bytes:
    out = io.BytesIO()
    write_bundle(history, out)
    return out.getvalue()


def with_database(bundle: bytes, change: databases.Change) -> bytes:
    content = zips.members_of(bundle)
    return zips.zipped(content | {"elements.db": change(content["elements.db"])})


def assert_refused(path: Path) -> None:
    with pytest.raises(BundleError) as caught:
        read_bundle(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert message.isprintable()
    assert len(message) < 400 + len(str(path))


@pytest.mark.parametrize("kind", zips.REFUSED)
def test_a_hostile_zip_is_refused(bundle: bytes, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "hostile.zip"
    path.write_bytes(zips.REFUSED[kind](bundle))
    assert_refused(path)


@pytest.mark.parametrize("kind", databases.REFUSED)
def test_a_hostile_database_is_refused(bundle: bytes, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "hostile.zip"
    path.write_bytes(with_database(bundle, databases.REFUSED[kind]))
    assert_refused(path)


@pytest.mark.parametrize("kind", zips.ACCEPTED)
def test_an_odd_zip_gives_the_same_history(
    history: History, bundle: bytes, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "odd.zip"
    path.write_bytes(zips.ACCEPTED[kind](bundle))
    assert_same_history(read_bundle(path), history)


@pytest.mark.parametrize("kind", databases.ACCEPTED)
def test_an_odd_database_gives_the_same_history(
    history: History, bundle: bytes, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "odd.zip"
    path.write_bytes(with_database(bundle, databases.ACCEPTED[kind]))
    assert_same_history(read_bundle(path), history)


def test_the_limit_of_what_may_be_unpacked_can_be_raised(
    bundle: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = len(zips.members_of(bundle)["elements.db"])
    path = tmp_path / "large.zip"
    path.write_bytes(bundle)
    monkeypatch.setattr(processes, "RATIO", 1)
    monkeypatch.setattr(members, "_ALWAYS_UNPACKED", size - 1)
    with pytest.raises(BundleError, match=f"set {processes.MAX_UNPACKED} to more"):
        read_bundle(path)
    monkeypatch.setenv(processes.MAX_UNPACKED, str(size))
    assert len(read_elements(path)) == size
    monkeypatch.setenv(processes.MAX_UNPACKED, "1 GiB")
    read_bundle(path)
    monkeypatch.setenv(processes.MAX_UNPACKED, "1 KiB")
    with pytest.raises(BundleError, match="over the limit of 1,024"):
        read_bundle(path)
    monkeypatch.setenv(processes.MAX_UNPACKED, "much")
    with pytest.raises(InputError, match="'much' is not a size; write 40GiB"):
        read_bundle(path)


@pytest.mark.parametrize(
    "kind", ["endless definitions", "definitions of zeros", "empty", "generated column"]
)
def test_a_database_without_end_or_with_other_tables_cannot_be_asked(
    bundle: bytes, kind: str
) -> None:
    data = zips.members_of(bundle)["elements.db"]
    with pytest.raises(BundleError):
        Database(databases.REFUSED[kind](data))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("somebody's own view", "load_extension"),
        ("another allocs", "load_extension"),
    ],
)
def test_what_a_view_calls_is_not_run_by_a_query(bundle: bytes, kind: str, said: str) -> None:
    change = (databases.ACCEPTED | databases.REFUSED)[kind]
    database = Database(change(zips.members_of(bundle)["elements.db"]), seconds=5)
    name = {"somebody's own view": "mine", "another allocs": "allocs"}[kind]
    with pytest.raises(QueryError, match=said):
        list(database.run(f"SELECT * FROM {name}"))


def test_a_device_that_comes_twice_is_refused(history: History, tmp_path: Path) -> None:
    path = tmp_path / "twice.zip"
    with path.open("wb") as out:
        write_bundle(replace(history, devices=history.devices[:1] * 2), out)
    with pytest.raises(BundleError, match="two devices are the same"):
        read_bundle(path)
