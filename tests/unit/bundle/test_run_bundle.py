"""A run's zip: lossless, the same bytes each time, and checked as a stranger's file."""

from __future__ import annotations

import contextlib
import io
import zipfile
from dataclasses import replace
from pathlib import Path

import apsw
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dev.benchmarks.runs.facts import example_run
from snapreport.bundle import read_bundle
from snapreport.bundle.run_archive import (
    is_run_bundle,
    read_run_bundle,
    read_run_database,
    write_run_bundle,
    write_run_database,
)
from snapreport.ground.errors import BundleError
from snapreport.model.run import Cells, RankFinding, Run
from tests.builders import differences
from tests.thorough import tried


def written(run: Run) -> bytes:
    out = io.BytesIO()
    write_run_bundle(run, out)
    return out.getvalue()


@pytest.fixture(scope="module")
def run() -> Run:
    """Eight ranks, of which two are missing and one is broken."""
    made, _ = example_run(8)
    first, *others = made.ranks
    device = replace(
        first.devices[0], reserved=None, capacity=None, peak_event=-1, peak_time_us=None,
        by_event=replace(first.devices[0].by_event, reserved=None), by_time=None,
        findings=(RankFinding("leak", "warning", "It grows", 5),),
    )  # fmt: skip
    bare = replace(
        first, devices=(device,), warnings=("odd", "more"),
        name=replace(first.name, rank=None, host="gpu-a", coordinates=(("tp", 1), ("pp", 0))),
    )  # fmt: skip
    return replace(made, ranks=(bare, *others), expected=None)


def test_a_run_comes_back_as_it_was_and_gives_the_same_bytes(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "run.zip"
    path.write_bytes(written(run))
    assert is_run_bundle(path)
    back = read_run_bundle(path)
    assert differences(back, run) == []
    assert written(back) == path.read_bytes()


@tried(30)
@given(st.data())
def test_no_figure_is_lost(data: st.DataObject) -> None:
    made, _ = example_run(
        data.draw(st.integers(1, 5)), events=4, seed=data.draw(st.integers(0, 99))
    )
    count = data.draw(st.integers(1, 40))
    numbers = st.lists(st.integers(0, (1 << 62) - 1), min_size=count, max_size=count)
    cells = Cells(
        data.draw(st.integers(0, 1 << 40)), data.draw(st.integers(0, 20)),
        np.array(data.draw(numbers), np.int64), np.array(data.draw(numbers), np.int64),
    )  # fmt: skip
    first = made.ranks[0]
    device = replace(first.devices[0], by_time=cells, capacity=data.draw(st.integers(0, 1 << 61)))
    run = replace(made, title=data.draw(st.text(max_size=9).filter(_plain)),
                  ranks=(replace(first, devices=(device, device)), *made.ranks[1:]))  # fmt: skip
    assert differences(read_run_database(write_run_database(run)), run) == []


def _plain(text: str) -> bool:
    return "\0" not in text


def test_it_is_small(run: Run) -> None:
    """A rank's share of a run of many, packed, is a few kilobytes."""
    assert len(written(example_run(64)[0])) / 64 < 12_000


def test_other_readers_say_what_it_is(run: Run, tmp_path: Path) -> None:
    (tmp_path / "run.zip").write_bytes(written(run))
    with pytest.raises(BundleError, match="holds the figures of a run, not a snapshot"):
        read_bundle(tmp_path / "run.zip")
    assert not is_run_bundle(tmp_path)


WRONG = {
    "a negative peak": "UPDATE devices SET allocated = -5",
    "a text for a number": "UPDATE steps SET left = 'much'",
    "an unknown kind": "UPDATE devices SET kind = 'tpu'",
    "an unknown finding": "UPDATE findings SET code = 'x'",
    "an unknown severity": "UPDATE findings SET severity = 'x'",
    "a kind of holder": "UPDATE holders SET kind = 3",
    "a key": "UPDATE holders SET key = 99999",
    "cells that are cut": "UPDATE cells SET allocated = x'0102'",
    "cells that are negative": "UPDATE cells SET allocated = x'FFFFFFFFFFFFFFFF', reserved = NULL",
    "other cells of the second curve": "UPDATE cells SET reserved = x'0000000000000000'",
    "cells outside of any axis": "UPDATE cells SET shift = 62",
    "no cells": "DELETE FROM cells",
    "a device of no rank": "UPDATE devices SET rank = 77",
    "ranks mixed": "UPDATE devices SET rank = id % 2",
    "a year far away": "UPDATE devices SET peak_time_us = 4000000000000000000",
    "a title that is none": "UPDATE meta SET value = '7' WHERE key = 'title'",
    "a layout that is none": "UPDATE meta SET value = '{\"tp\": -1}' WHERE key = 'layout'",
    "a text without end": f"UPDATE ranks SET label = '{'x' * 70_000}'",
    "another table": "ALTER TABLE steps RENAME TO stairs",
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON ranks BEGIN SELECT 1; END",
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_tables_that_cannot_be_are_refused_in_one_line(
    run: Run, wrong: str, tmp_path: Path
) -> None:
    connection = apsw.Connection(":memory:")
    connection.deserialize("main", write_run_database(run))
    connection.execute("PRAGMA writable_schema = ON; " + wrong)
    data = connection.serialize("main")
    with zipfile.ZipFile(tmp_path / "run.zip", "w") as made:
        with zipfile.ZipFile(io.BytesIO(written(run))) as whole:
            made.writestr("manifest.json", whole.read("manifest.json"))
        made.writestr("run.db", data)
    with pytest.raises(BundleError) as caught:
        read_run_bundle(tmp_path / "run.zip")
    assert str(caught.value).startswith(f"{tmp_path / 'run.zip'} has ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_manifest_that_says_otherwise_is_refused(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "run.zip"
    with zipfile.ZipFile(io.BytesIO(written(run))) as whole, zipfile.ZipFile(path, "w") as made:
        manifest = whole.read("manifest.json").replace(b'"ranks": ', b'"ranks": 9')
        made.writestr("manifest.json", manifest)
        made.writestr("run.db", whole.read("run.db"))
    with pytest.raises(BundleError, match="disagrees with its run"):
        read_run_bundle(path)


def test_damaged_bytes_are_one_line_or_the_same_run(run: Run) -> None:
    """Every so many bytes one is changed: an error of ours, or a run that can be written."""
    data = write_run_database(run)
    for place in range(0, len(data), max(len(data) // 60, 1)):
        broken = bytearray(data)
        broken[place] ^= 0x55
        with contextlib.suppress(BundleError):
            write_run_database(read_run_database(bytes(broken)))
