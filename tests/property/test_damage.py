"""Recordings with parts missing or bent: never a traceback, and what does not fit is told."""

from __future__ import annotations

import contextlib
import io
import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from dev.simulator import layouts
from snapreport.bundle import read_bundle, write_bundle
from snapreport.diagnosis.conclude import find
from snapreport.ground.errors import NotASnapshotError
from snapreport.model.findings import Findings
from snapreport.model.history import History
from tests.builders import assert_same_history, history_of
from tests.property.simulated import Simulated, for_simulations


def dice(snapshot: dict[str, Any]) -> random.Random:
    """Return a source of chance that is the same for the same snapshot, another for another."""
    blocks = sum(len(segment["blocks"]) for segment in snapshot["segments"])
    events = sum(len(trace) for trace in snapshot["device_traces"])
    return random.Random(events * 1009 + blocks)


def assert_usable(history: History) -> Findings:
    """Findings can be made, what they say adds up, and a bundle takes it all; return them."""
    findings = find(history)
    for device in findings.devices:
        assert int(device.tree.bytes[0]) == device.peak.allocated
        assert sum(site.bytes for site in device.sites) == device.peak.allocated
        assert device.peak.requested <= device.peaks["requested"].bytes
        rows = device.history.allocations
        assert (rows.alloc_event <= rows.free_requested_event).all()
        assert (rows.free_requested_event <= rows.free_event).all()
        codes = {warning.code for warning in device.warnings}
        if device.closing is not None and not device.closing.closes:
            assert "does-not-close" in codes
        if device.history.anomalies:
            assert "odd-events" in codes
    out = io.BytesIO()
    write_bundle(history, out)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bundle.zip"
        path.write_bytes(out.getvalue())
        assert_same_history(read_bundle(path), history)
    return findings


@for_simulations(120)
def test_events_lost_at_random_are_survived(simulation: Simulated) -> None:
    snapshot = simulation.snapshot()
    rng = dice(snapshot)
    snapshot["device_traces"] = [
        [event for event in trace if rng.random() < 0.8] for trace in snapshot["device_traces"]
    ]
    assert_usable(history_of(snapshot))


@for_simulations(120)
def test_events_in_a_wrong_order_are_survived(simulation: Simulated) -> None:
    snapshot = simulation.snapshot()
    rng = dice(snapshot)
    for trace in snapshot["device_traces"]:
        rng.shuffle(trace)
    assert_usable(history_of(snapshot))


@for_simulations(60)
def test_a_trace_beside_other_segments_is_survived(simulation: Simulated) -> None:
    snapshot = simulation.snapshot()
    snapshot["segments"] = snapshot["segments"][::2]
    assert_usable(history_of(snapshot))
    snapshot["segments"] = []
    assert_usable(history_of(snapshot))


@for_simulations(60)
def test_skipped_actions_are_survived_and_keep_the_requested_end(simulation: Simulated) -> None:
    snapshot = simulation.snapshot()
    truths = simulation.truths
    for actions in (("segment_alloc", "segment_free"), ("alloc",), ("free_completed",)):
        found = assert_usable(history_of(layouts.without_actions(snapshot, *actions)))
        if actions[0] == "segment_alloc":
            for device, truth in zip(found.devices, truths, strict=True):
                assert device.end.requested == truth.requested[-1]


@for_simulations(100)
def test_bent_values_are_refused_or_survived(simulation: Simulated) -> None:
    snapshot = layouts.as_json(simulation.snapshot())  # a copy without shared parts
    rng = dice(snapshot)
    for _ in range(3):
        bend(snapshot, rng)
    with contextlib.suppress(NotASnapshotError):
        assert_usable(history_of(snapshot))


BENT: list[Any] = [None, -1, 0, 2**63 - 1, 2**63, "", "x", [], {}, 1.5, True, [[]], {"a": 1}]


def bend(value: Any, rng: random.Random) -> None:
    """Replace, remove or repeat something inside of a value."""
    while True:
        if not value:
            return
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = rng.choice(keys)
        if isinstance(value[key], (dict, list)) and value[key] and rng.random() < 0.95:
            value = value[key]
            continue
        if rng.random() < 0.3:
            del value[key]
        else:
            value[key] = rng.choice(BENT)
        return


@for_simulations(60)
def test_times_in_any_order_change_no_figure(simulation: Simulated) -> None:
    snapshot = simulation.snapshot()
    rng = dice(snapshot)
    before = simulation.findings
    snapshot["device_traces"] = [
        [{**event, "time_us": rng.randrange(2**50)} for event in trace]
        for trace in snapshot["device_traces"]
    ]
    after = find(history_of(snapshot))
    for one, other in zip(before.devices, after.devices, strict=True):
        assert {n: (p.bytes, p.event) for n, p in one.peaks.items()} == {
            n: (p.bytes, p.event) for n, p in other.peaks.items()
        }
        assert np.array_equal(one.history.allocations.addr, other.history.allocations.addr)
