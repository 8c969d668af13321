"""What SnapViewer's reader needs of an unzipped bundle, and the bundle's other promises."""

from __future__ import annotations

import io
import pickle
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import orjson
import pytest

import snapreport
from snapreport.bundle import strips, write_bundle
from snapreport.bundle.strips import EXACT_UP_TO, count_columns
from snapreport.ground.errors import BundleError
from snapreport.model.history import History
from tests.builders import BASE, KIB, MIB, TraceBuilder, assert_same_history, frame, trace
from tests.laid_strips import make_strips


def two_devices() -> History:
    """Two GPUs; the second has allocated more, so a report opens with it."""
    from tests.builders import history_of

    one = trace(0).alloc("a", KIB).free("a")
    two = (
        trace(1)
        .alloc("a", 4 * KIB, frames=[frame("inner", "a.py", 3), frame("outer", "b.py", 9)])
        .alloc("b", 2 * KIB)
        .free("a")
        .free("c", 512)
    )
    return history_of(two.snapshot() | {"device_traces": [one.events, two.events]})


def unzip(history: History, folder: Path) -> Path:
    out = io.BytesIO()
    write_bundle(history, out)
    with zipfile.ZipFile(out) as archive:
        archive.extractall(folder)
    return folder


def rows_of(path: Path) -> list[dict[str, Any]]:
    rows = orjson.loads(path.read_bytes())
    assert isinstance(rows, list)
    return rows


@pytest.mark.parametrize("name", ["allocations.json", "allocations.0.json"])
def test_each_row_is_a_strip_in_the_viewers_shape(tmp_path: Path, name: str) -> None:
    rows = rows_of(unzip(two_devices(), tmp_path) / name)
    assert rows
    for row in rows:
        assert list(row) == ["elem", "size", "timesteps", "offsets", "color"]
        assert len(row["timesteps"]) == len(row["offsets"]) >= 2
        numbers = [row["elem"], row["size"], row["color"], *row["timesteps"], *row["offsets"]]
        assert all(type(number) is int and number >= 0 for number in numbers)
        assert row["color"] == row["elem"]


def test_the_default_devices_rows_are_allocations_0_1_2(tmp_path: Path) -> None:
    rows = rows_of(unzip(two_devices(), tmp_path) / "allocations.json")
    assert [(row["elem"], row["size"]) for row in rows] == [(0, 512), (1, 4 * KIB), (2, 2 * KIB)]
    assert [(row["timesteps"], row["offsets"]) for row in rows] == [
        ([0, 5], [0, 0]),
        ([0, 3], [512, 512]),
        # The two below it go at events 3 and 5.
        ([1, 2, 3, 4, 5, 6], [4608, 4608, 512, 512, 0, 0]),
    ]


def test_the_rows_are_the_same_in_parts_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    made = set()
    for points in (1, 5, 1 << 20):
        monkeypatch.setattr("snapreport.bundle.strips.POINTS_AT_ONCE", points)
        out = io.BytesIO()
        write_bundle(two_devices(), out)
        with zipfile.ZipFile(out) as archive:
            made.add((archive.read("allocations.json"), archive.read("allocations.0.json")))
    assert len(made) == 1


def test_allocs_can_be_queried_by_any_sqlite(tmp_path: Path) -> None:
    folder = unzip(two_devices(), tmp_path)
    connection = sqlite3.connect(folder / "elements.db")
    try:
        found = connection.execute(
            "SELECT idx, size, start_time, end_time, callstack FROM allocs ORDER BY idx"
        ).fetchall()
        (state,) = connection.execute("PRAGMA integrity_check").fetchone()
        broken = connection.execute("PRAGMA foreign_key_check").fetchall()
    finally:
        connection.close()
    assert found == [
        (0, 512, 0, 5, ""),
        (1, 4 * KIB, 0, 3, "a.py:3:inner\nb.py:9:outer"),
        (2, 2 * KIB, 1, 6, ""),
    ]
    assert state == "ok"
    assert broken == []


def test_the_strips_of_a_long_trace_are_sampled_and_stay_small(tmp_path: Path) -> None:
    builder = trace()
    for i in range(EXACT_UP_TO):
        builder.alloc(BASE + MIB * i, KIB)
        if i >= 50:
            builder.free(BASE + MIB * (i - 50))
    history = builder.file()
    folder = unzip(history, tmp_path)
    manifest = orjson.loads((folder / "manifest.json").read_bytes())
    assert manifest["devices"][0]["strips_exact_at_every_event"] is False
    rows = rows_of(folder / "allocations.json")
    assert len(rows) == EXACT_UP_TO
    assert sum(len(row["timesteps"]) for row in rows) < 20 * EXACT_UP_TO


def test_the_manifest_tells_the_source_the_devices_and_the_rule(tmp_path: Path) -> None:
    history = two_devices()
    manifest = orjson.loads((unzip(history, tmp_path) / "manifest.json").read_bytes())
    assert manifest["format"] == 1
    assert manifest["snapreport"] == snapreport.__version__
    assert manifest["source"] == {
        "name": "snap.pickle",
        "size": history.source.size,
        "sha256": history.source.sha256,
    }
    assert manifest["default_device"] == 1
    assert [(d["device"], d["events"], d["strips"]) for d in manifest["devices"]] == [
        ("cuda:0", 3, "allocations.0.json"),
        ("cuda:1", 6, "allocations.json"),
    ]
    assert "sampled" in manifest["strips"]


def test_members_have_a_fixed_date(tmp_path: Path) -> None:
    out = io.BytesIO()
    write_bundle(two_devices(), out)
    with zipfile.ZipFile(out) as archive:
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert archive.namelist()[:2] == ["manifest.json", "elements.db"]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    source = tmp_path / "snap.pickle"
    source.write_bytes(pickle.dumps(healthy().snapshot(), 4))
    return snapreport.convert(source, tmp_path / "snap.zip")


def healthy() -> TraceBuilder:
    return (
        trace()
        .alloc(BASE, 4 * MIB, frames=[frame("f")])
        .event("segment_map", addr=BASE, size=2 * MIB)
        .segment(BASE, 20 * MIB, (4 * MIB, 4 * MIB, "live"))
        .start("s", 0)
        .start("t", 5)
        .end("t", 5)
    )


def test_a_bundle_cut_off_at_any_byte_is_a_bundle_error(bundle: Path, tmp_path: Path) -> None:
    data = bundle.read_bytes()
    cut = tmp_path / "cut.zip"
    for length in range(4, len(data), 13):
        cut.write_bytes(data[:length])
        with pytest.raises(BundleError) as caught:
            snapreport.load(cut)
        assert str(cut) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_bundle_with_any_byte_changed_loads_the_same_or_not_at_all(
    bundle: Path, tmp_path: Path
) -> None:
    data = bundle.read_bytes()
    history = snapreport.load(bundle).history
    changed = tmp_path / "changed.zip"
    for place in range(4, len(data), 31):
        changed.write_bytes(data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :])
        try:
            again = snapreport.load(changed).history
        except BundleError:
            continue
        assert_same_history(again, history)


def rezip(bundle: Path, target: Path, **members: bytes | None) -> Path:
    """Write a bundle with other members; None leaves one out."""
    named = {name.replace("_", "."): data for name, data in members.items()}
    with zipfile.ZipFile(bundle) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            data = named.get(name, old.read(name))
            if data is not None:
                new.writestr(name, data)
    return target


@pytest.mark.parametrize(
    "members",
    [
        {"manifest_json": None},
        {"manifest_json": b""},
        {"manifest_json": b"[]"},
        {"manifest_json": b"{}"},
        {"manifest_json": b'{"format": "1"}'},
        {"manifest_json": b'{"format": 1}'},
        {"manifest_json": b'{"format": 2}'},
        {"manifest_json": b'{"format": 1, "source": 3}'},
        {"elements_db": None},
        {"elements_db": b""},
        {"elements_db": b"SQLite format 3\0" + b"\0" * 600},
        {"elements_db": b"not a database" * 99},
    ],
)
def test_a_bundle_with_a_wrong_member_is_a_bundle_error(
    bundle: Path, tmp_path: Path, members: dict[str, bytes | None]
) -> None:
    with pytest.raises(BundleError) as caught:
        snapreport.load(rezip(bundle, tmp_path / "wrong.zip", **members))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE allocation_rows",
        "DELETE FROM meta",
        "UPDATE meta SET value = 'x' WHERE key = 'settings'",
        "UPDATE meta SET value = '7' WHERE key = 'default_device'",
        "UPDATE meta SET value = '\"0\"' WHERE key = 'anomalies.0'",
        "UPDATE meta SET value = '[99]' WHERE key = 'requested_before.0'",
        "UPDATE allocation_kinds SET size = 'x'",
        "UPDATE allocation_kinds SET size = -1",
        "UPDATE allocation_kinds SET slack = 'x'",
        "UPDATE allocation_kinds SET slack = 0.5",
        "UPDATE allocation_kinds SET slack = -9223372036854775807",
        "UPDATE allocation_rows SET requested_after = -99",
        "UPDATE allocation_kinds SET stack = 1 << 40",
        "UPDATE allocation_rows SET id = id * 2 + 1",
        "UPDATE allocation_kinds SET stack = 99",
        "UPDATE allocation_kinds SET pool = 99",
        "UPDATE allocation_kinds SET category = 99",
        "UPDATE allocation_rows SET alloc_after = 99",
        "UPDATE allocation_rows SET free_after = -7",
        "UPDATE allocation_rows SET kind = 99",
        "UPDATE allocation_rows SET kind = -1",
        "DELETE FROM allocation_spans",
        "INSERT INTO allocation_spans VALUES (1, 0, 0)",
        "UPDATE allocation_spans SET event = 99",
        "UPDATE allocation_spans SET time_us = 'x'",
        "UPDATE events SET event = 99",
        "UPDATE events SET stack = 99",
        "UPDATE blocks SET segment = 99",
        "UPDATE blocks SET state = 'x'",
        "UPDATE blocks SET allocation = 99",
        "UPDATE blocks SET stack = 99",
        "UPDATE segments SET size = -1",
        "UPDATE segments SET stack = 99",
        "UPDATE frames SET line = 'x'",
        "UPDATE frames SET name = x'ff'",
        "UPDATE call_nodes SET parent = 0",
        "UPDATE call_nodes SET frame = 99",
        "UPDATE stacks SET node = 99",
        "UPDATE annotations SET parent = 99",
        "UPDATE annotations SET start_event = 99",
        "UPDATE annotations SET name = x'ff'",
        "UPDATE allocation_kinds SET device = 99",
        "UPDATE events SET device = 99",
        "DELETE FROM devices",
        "UPDATE devices SET events = -1",
        "UPDATE devices SET kind = 'toaster'",
        "UPDATE devices SET ordinal = 'x'",
    ],
)
def test_a_database_that_is_inconsistent_is_a_bundle_error(
    bundle: Path, tmp_path: Path, change: str
) -> None:
    with zipfile.ZipFile(bundle) as archive:
        database = Path(archive.extract("elements.db", tmp_path))
    connection = sqlite3.connect(database)
    connection.execute(change)
    connection.commit()
    connection.close()
    bent = rezip(bundle, tmp_path / "bent.zip", elements_db=database.read_bytes())
    with pytest.raises(BundleError) as caught:
        snapreport.load(bent)
    assert "\n" not in str(caught.value)


def many_at_once(live: int, below: int = 0) -> History:
    """A device with so much live at once, freed again oldest first, on top of what stays."""
    from tests.builders import history_of

    builder = trace()
    for i in range(below):
        builder.alloc(BASE - 512 * (i + 1), 512)
    for i in range(live):
        builder.alloc(BASE + 512 * i, 512)
    for i in range(live):
        builder.free(BASE + 512 * i)
    return history_of(builder.snapshot())


def test_where_very_much_is_live_at_once_fewer_events_are_sampled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def counts(history: History) -> tuple[int, int]:
        (device,) = history.devices
        points = sum(map(len, make_strips(device).timesteps))
        return count_columns(device), points

    history = many_at_once(2000)
    usual, many = counts(history)
    assert usual == strips.COLUMNS
    monkeypatch.setattr(strips, "_LIVE_SAMPLES", 50_000)
    fewer, few = counts(history)
    assert strips.FEWEST_COLUMNS < fewer < 70
    assert few < 2 * len(history.devices[0].allocations) + 2 * 50_000 < many
    monkeypatch.setattr(strips, "_LIVE_SAMPLES", 10)
    assert counts(history)[0] == strips.FEWEST_COLUMNS
    out = io.BytesIO()
    write_bundle(history, out)
    with zipfile.ZipFile(out) as archive:
        manifest = orjson.loads(archive.read("manifest.json"))
    assert manifest["devices"][0]["strips_columns"] == strips.FEWEST_COLUMNS


def test_what_lies_below_all_that_is_freed_costs_no_samples(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(strips, "_LIVE_SAMPLES", 50_000)
    monkeypatch.setattr(strips, "_LIVE_SAMPLES_EACH", 0)
    monkeypatch.setattr(strips, "EXACT_UP_TO", 100)
    alone = count_columns(many_at_once(1000).devices[0])
    assert count_columns(many_at_once(1000, below=3000).devices[0]) >= alone
