"""Exports re-read give the totals of the curves, whatever was recorded."""

from __future__ import annotations

import csv
import io
import pickle
from dataclasses import replace
from typing import Any

import orjson

from dev.simulator import layouts
from snapreport.api.loading import Snapshot
from snapreport.model.history import History
from snapreport.reporters.exports import perfetto, profiles, tables
from snapreport.reporters.exports.raw_snapshot import write_json, write_pickle
from snapreport.reporters.exports.rebuilt_snapshot import rebuild
from tests.builders import history_of
from tests.exports import CURVES, export_of, only, read_perfetto, read_pprof, written
from tests.property.simulated import Simulated, for_simulations, some_events


def collapsed_total(data: bytes) -> int:
    return sum(int(line.rpartition(b" ")[2]) for line in data.splitlines())


@for_simulations(25)
def test_flame_graphs_add_up_to_the_curve(simulation: Simulated) -> None:
    history = simulation.history
    events = some_events(max((d.events for d in history.devices), default=0), 2)
    for curve in CURVES:
        for event in (None, *events):
            export = export_of(history, curve, event)
            for place, device in enumerate(export.devices):
                one = only(export, place)
                value = int(device.found.curves[curve][device.event + 1])
                assert collapsed_total(written(profiles.write_collapsed, one)) == value
                live, counts, ever = orjson.loads(written(profiles.write_speedscope, one))[
                    "profiles"
                ]
                assert sum(live["weights"]) == live["endValue"] == value
                assert sum(counts["weights"]) == len(device.live.rows)
                rows = device.found.history.allocations
                sizes = rows.size if curve == "requested" else rows.block_size
                assert sum(ever["weights"]) == int(sizes.sum())
                profile = read_pprof(written(profiles.write_pprof, one))
                sums = [sum(sample.value[i] for sample in profile.sample) for i in range(4)]
                assert sums == [len(rows), int(sizes.sum()), len(device.live.rows), value]


@for_simulations(25)
def test_perfetto_has_the_curves_and_slices_that_add_up_to_one(simulation: Simulated) -> None:
    history = simulation.history
    for curve in CURVES:
        export = export_of(history, curve)
        timelines = read_perfetto(written(perfetto.write_perfetto, export))
        assert len(timelines) == len(export.devices)
        for device, timeline in zip(export.devices, timelines.values(), strict=True):
            known = (d.first_time_us for d in (each.found for each in export.devices))
            begin = min((time_us for time_us in known if time_us is not None), default=0)
            clock = perfetto.event_times_ns(device.found, begin).tolist()
            for name, values in device.found.curves.items():
                told = timeline.counters[f"{name} bytes"]
                seen, last = [], None
                for ns in clock:
                    last = told.get(ns, last)
                    seen.append(last)
                assert seen == values.tolist()
            key = "requested" if curve == "requested" else "block"
            deltas: dict[int, int] = {}
            for track, first, end, arguments in timeline.slices:
                if track.startswith("Allocations"):
                    deltas[first] = deltas.get(first, 0) + arguments[key]
                    if end is not None:
                        deltas[end] = deltas.get(end, 0) - arguments[key]
            assert deltas.keys() <= set(clock)
            total, totals = 0, []
            for ns in clock:
                total += deltas.get(ns, 0)
                totals.append(total)
            assert totals == device.found.curves[curve].tolist()


@for_simulations(25)
def test_tables_have_every_allocation_and_those_live_at_a_moment(simulation: Simulated) -> None:
    import pyarrow.parquet as pq

    history = simulation.history
    for event in (None, 5):
        export = export_of(history, event=event)
        text = written(tables.write_csv, export).decode()
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
        table = pq.read_table(io.BytesIO(written(tables.write_parquet, export))).to_pylist()
        assert [{k: "" if v is None else str(v) for k, v in row.items()} for row in table] == rows
        for device in export.devices:
            name, all_rows = str(device.found.device), device.found.history.allocations
            mine = [int(row["block_bytes"]) for row in rows if row["device"] == name]
            if event is None:
                assert mine == all_rows.block_size.tolist()
            else:
                assert sum(mine) == int(device.found.curves["allocated"][device.event + 1])


def facts(history: History) -> list[Any]:
    """All that is counted of a history, in a form that does not depend on the order of ids."""
    stacks, pools = history.stacks, [*history.pools, None]
    strings = [*history.strings, None]
    frames = stacks.frames

    def stack(i: int) -> Any:
        if i < 0:
            return None
        return [
            (frames.names[f], frames.filenames[f], int(frames.lines[f])) for f in stacks.path(i)
        ]

    found: list[Any] = [history.layout, history.settings]
    for device in history.devices:
        rows, segments, other = device.allocations, device.segments, device.other
        columns = [
            c.tolist()
            for c in (
                *(rows.addr, rows.version, rows.size, rows.block_size, rows.block_size_max),
                *(rows.alloc_event, rows.free_requested_event, rows.free_event, rows.alloc_time_us),
                *(rows.free_requested_time_us, rows.free_time_us, rows.stream),
                *(segments.address, segments.size, segments.stream, segments.large),
                *(segments.expandable, segments.stated, segments.block_segment),
                *(segments.block_address, segments.block_size, segments.block_requested),
                *(segments.block_state, device.block_allocation, other.event, other.addr),
                *(other.size, other.time_us, other.stream),
            )
        ]
        found += [device.device, device.events, columns, other.action, device.anomalies]
        found += [[pools[i] for i in ids.tolist()] for ids in (rows.pool, segments.pool)]
        for ids in (rows.stack, rows.free_stack, segments.stack, segments.block_stack, other.stack):
            found.append([stack(i) for i in ids.tolist()])
        for ids in (rows.category, rows.compile_context, rows.metadata):
            found.append([strings[i] for i in ids.tolist()])
        stages = device.stages
        found.append(stages.name)
        found += [
            c.tolist() for c in (stages.parent, stages.start_event, stages.end_event, stages.depth)
        ]
    return found


@for_simulations(100)
def test_a_rebuilt_snapshot_gives_the_same_history(simulation: Simulated) -> None:
    history = simulation.history
    assert facts(history_of(rebuild(history))) == facts(history)


@for_simulations(30)
def test_other_layouts_are_rebuilt_with_all_that_is_counted(simulation: Simulated) -> None:
    snapshot = simulation.snapshot()
    for layout in (
        layouts.torch20,
        layouts.torch21,
        layouts.pinned,
        layouts.segment_list,
        layouts.only_free_completed,
        layouts.profiler_layout,
    ):
        history = history_of(layout(snapshot))
        again = history_of(rebuild(history))
        if history.layout in ("torch-2.0", "segments"):  # written as PyTorch does today
            again = replace(again, layout=history.layout)
        assert facts(again) == facts(history), layout.__name__


@for_simulations(30)
def test_json_and_pickle_hold_what_the_file_held(simulation: Simulated) -> None:
    snapshot = simulation.snapshot()
    out = io.BytesIO()
    write_json(snapshot, out, "x", 1)
    assert orjson.loads(out.getvalue()) == layouts.as_json(snapshot)
    out = io.BytesIO()
    write_pickle(snapshot, out)
    assert pickle.loads(out.getvalue()) == snapshot
    assert out.getvalue()[:2] == b"\x80\x04"


@for_simulations(10)
def test_sql_adds_up_as_the_curves_do(simulation: Simulated) -> None:
    history = simulation.history
    snapshot = Snapshot(history)
    for device in history.devices:
        one = snapshot.device(str(device.device))
        for event in some_events(one.events, 3):
            (row,) = snapshot.query(
                "SELECT coalesce(sum(size), 0) AS bytes FROM allocations JOIN devices"
                " ON devices.id = device"
                f" WHERE kind = '{device.device.kind}' AND ordinal = {device.device.ordinal}"
                f" AND coalesce(alloc_event, -1) <= {event}"
                f" AND (free_event IS NULL OR free_event > {event})"
            )
            assert row["bytes"] == int(one.curve("requested")[event + 1])
