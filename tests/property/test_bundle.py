"""A bundle gives back what was put in, and its parts tell of the same allocations."""

from __future__ import annotations

import io
import sqlite3
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from dev.simulator import layouts
from snapreport.bundle import read_bundle, write_bundle
from snapreport.model.history import History
from tests.builders import assert_same_history, history_of
from tests.property.simulated import Simulated, for_simulations


def bundle_of(history: History) -> bytes:
    out = io.BytesIO()
    write_bundle(history, out)
    return out.getvalue()


def read_back(bundle: bytes) -> History:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bundle.zip"
        path.write_bytes(bundle)
        return read_bundle(path)


def unzipped(bundle: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def query(database: bytes, text: str) -> list[tuple[Any, ...]]:
    """Ask the database as any SQLite client would."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "elements.db"
        path.write_bytes(database)
        connection = sqlite3.connect(path)
        try:
            return connection.execute(text).fetchall()
        finally:
            connection.close()


@for_simulations(120)
def test_a_bundle_gives_back_what_was_put_in(simulation: Simulated) -> None:
    history = simulation.history
    assert_same_history(read_back(bundle_of(history)), history)


@for_simulations(40)
def test_every_layout_survives_a_bundle(simulation: Simulated) -> None:
    snapshot = simulation.snapshot()
    every: list[Callable[[Any], Any]] = [
        *(partial(layouts.as_of, version=version) for version in layouts.VERSIONS[:-1:2]),
        layouts.pinned,
        layouts.segment_list,
        layouts.only_free_completed,
        layouts.profiler_layout,
        layouts.as_json,
    ]
    for layout in every:
        history = history_of(layout(snapshot))
        assert_same_history(read_back(bundle_of(history)), history)


@for_simulations(60)
def test_equal_histories_give_equal_bytes(simulation: Simulated) -> None:
    snapshot = simulation.snapshot()
    assert bundle_of(history_of(snapshot)) == bundle_of(history_of(snapshot))


@for_simulations(60)
def test_json_gives_the_history_that_the_pickle_gives(simulation: Simulated) -> None:
    snapshot = simulation.snapshot()
    by_json = history_of(layouts.as_json(snapshot))
    by_pickle = history_of(snapshot)
    assert_same_history(replace(by_json, source=by_pickle.source), by_pickle)


@for_simulations(120)
def test_row_i_is_the_same_allocation_everywhere(simulation: Simulated) -> None:
    history = simulation.history
    members = unzipped(bundle_of(history))
    device = history.devices[history.default_device]
    rows, frames = device.allocations, history.stacks.frames
    strips = orjson.loads(members["allocations.json"])
    stored = query(
        members["elements.db"],
        "SELECT id, addr, size, alloc_event, free_event FROM allocations"
        f" WHERE device = {history.default_device} ORDER BY id",
    )
    seen = query(
        members["elements.db"],
        "SELECT idx, size, start_time, end_time, callstack FROM allocs ORDER BY idx",
    )
    assert len(strips) == len(stored) == len(seen) == len(rows)
    for i, (strip, cells, seen_cells) in enumerate(zip(strips, stored, seen, strict=True)):
        begin, end = int(rows.alloc_event[i]), int(rows.free_event[i])
        assert cells == (
            i,
            int(rows.addr[i]),
            int(rows.size[i]),
            None if begin < 0 else begin,
            None if end == device.events else end,
        )
        assert (strip["elem"], strip["size"]) == (i, int(rows.size[i]))
        text = "\n".join(
            f"{frames.filenames[f]}:{'?' if frames.lines[f] < 0 else frames.lines[f]}"
            f":{frames.names[f]}"
            for f in history.stacks.path(int(rows.stack[i]))
        )
        drawn = (max(begin, 0), max(end, 1) if end == device.events else end)
        assert seen_cells == (i, int(rows.size[i]), *drawn, text)
        assert (strip["timesteps"][0], strip["timesteps"][-1]) == drawn


@for_simulations(60)
def test_the_view_of_allocations_shows_what_the_history_holds(simulation: Simulated) -> None:
    history = simulation.history
    database = unzipped(bundle_of(history))["elements.db"]
    for index, device in enumerate(history.devices):
        rows, never = device.allocations, device.events
        shown = query(
            database,
            "SELECT addr, version, size, block_size, block_size_max, alloc_event,"
            " free_requested_event, free_event,"
            " alloc_time_us, free_requested_time_us, free_time_us,"
            f" stream, pool, stack, free_stack FROM allocations WHERE device = {index} ORDER BY id",
        )
        columns = [
            [None if cell in none else cell for cell in column.tolist()]
            for column, *none in (
                (rows.addr,),
                (rows.version,),
                (rows.size,),
                (rows.block_size,),
                (rows.block_size_max,),
                (rows.alloc_event, -1),
                (rows.free_requested_event, -1, never),
                (rows.free_event, never),
                (rows.alloc_time_us, -1),
                (rows.free_requested_time_us, -1),
                (rows.free_time_us, -1),
                (rows.stream,),
                (rows.pool, -1),
                (rows.stack, -1),
                (rows.free_stack, -1),
            )
        ]
        assert shown == list(zip(*columns, strict=True))
