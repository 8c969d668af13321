"""Random histories keep the rules of real snapshots, and the truth agrees with the final state."""

from __future__ import annotations

import copy
import pickle
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from dev.simulator import AllocatorSettings, Config, DeviceTruth, Simulator, simulate
from dev.simulator.invariants import violations
from dev.simulator.settings import MIB
from dev.simulator.strategies import simulations
from dev.simulator.training import TrainingRun, Transformer
from tests.thorough import tried


def assert_true(truth: DeviceTruth, snapshot: dict[str, Any]) -> None:
    """Check the truth against itself, the trace, and the final segments."""
    trace = snapshot["device_traces"][truth.device]
    segments = [s for s in snapshot["segments"] if s["device"] == truth.device]
    assert truth.events == len(trace)
    for event in range(-1, truth.events):
        born = truth.alloc_event <= event
        live, held = born & (event < truth.free_event), born & (event < truth.free_requested_event)
        assert truth.requested[event + 1] == truth.size[live].sum()
        assert truth.active[event + 1] == truth.block_size[live].sum()
        assert truth.allocated[event + 1] == truth.block_size[held].sum()
    for curve, key in (
        (truth.requested, "requested_size"),
        (truth.allocated, "allocated_size"),
        (truth.active, "active_size"),
        (truth.reserved, "total_size"),
    ):
        assert curve[-1] == sum(segment[key] for segment in segments)
    for action, at in (
        ("alloc", truth.alloc_event),
        ("free_requested", truth.free_requested_event),
        ("free_completed", truth.free_event),
    ):
        inside = np.flatnonzero((at >= 0) & (at < truth.events))
        own = [event for event in trace if "internal_metadata" not in event]
        assert len(inside) == sum(event["action"] == action for event in own)
        for row in inside:
            event = trace[at[row]]
            assert (event["action"], event["addr"]) == (action, truth.address[row])
            assert event["size"] == truth.size[row]


@tried(200)
@given(simulations(max_operations=80))
def test_any_history_keeps_the_rules_and_its_truth(simulator: Simulator) -> None:
    snapshot = simulator.snapshot()
    assert violations(snapshot) == []
    for truth in simulator.truths():
        assert_true(truth, snapshot)


@pytest.mark.parametrize("streams", [1, 3])
def test_long_histories_keep_the_rules(streams: int) -> None:
    config = Config(
        seed=streams,
        operations=4000,
        streams=streams,
        target=150,
        private_pools=True,
        annotations=True,
        markers=True,
    )
    assert violations(simulate(config).snapshot()) == []


def test_all_that_can_happen_does_happen() -> None:
    seen: set[str] = set()
    for seed in range(40):
        rng = random.Random(seed)
        config = Config(
            seed=seed,
            settings=AllocatorSettings(expandable_segments=rng.random() < 0.5),
            streams=3,
            capacity=rng.choice([100 * MIB, 1 << 30]),
            markers=True,
            unknown_actions=True,
        )
        snapshot = simulate(config).snapshot()
        seen |= {event["action"] for event in snapshot["device_traces"][0]}
        seen |= {block["state"] for s in snapshot["segments"] for block in s["blocks"]}
    assert seen >= {
        "alloc",
        "free_requested",
        "free_completed",
        "segment_alloc",
        "segment_free",
        "segment_map",
        "segment_unmap",
        "snapshot",
        "oom",
        "annotate",
        "active_allocated",
        "active_pending_free",
        "inactive",
    }


def test_equal_configs_give_equal_bytes() -> None:
    config = Config(seed=5, devices=2, streams=2, annotations=True, odd_frames=True, labels=True)
    first, second = (pickle.dumps(simulate(config).snapshot()) for _ in range(2))
    assert first == second


def test_a_snapshot_holds_plain_data_only() -> None:
    def types(value: Any) -> set[type]:
        parts: list[Any] = []
        if isinstance(value, dict):
            parts = [*value, *value.values()]
        elif isinstance(value, (list, tuple)):
            parts = list(value)
        return {type(value)}.union(*(types(part) for part in parts))

    snapshot = simulate(Config(streams=2, annotations=True, private_pools=True)).snapshot()
    assert types(snapshot) <= {dict, list, tuple, str, int, float, bool}


def test_the_checker_notices_a_changed_snapshot() -> None:
    sound = simulate(Config(operations=60)).snapshot()

    def broken(change: str) -> list[str]:
        snapshot = copy.deepcopy(sound)
        trace, segments = snapshot["device_traces"][0], snapshot["segments"]
        allocs = [event for event in trace if event["action"] == "alloc"]
        if change == "block":
            segments[0]["blocks"][0]["size"] += 512
        elif change == "segment":
            late = next(i for i, e in enumerate(trace) if e["action"] == "segment_alloc")
            trace.insert(late + 1, trace.pop(late))
        elif change == "size":
            allocs[0]["size"] += 1
        elif change == "free":
            trace.remove(next(e for e in trace if e["action"] == "free_completed"))
        else:
            trace.append(dict(allocs[-1]))
        return violations(snapshot)

    assert violations(sound) == []
    for change in ("block", "segment", "size", "free", "alloc twice"):
        assert broken(change), change


def test_a_training_run_frees_all_but_parameters_and_optimizer_state() -> None:
    simulator = Simulator()
    run = TrainingRun(simulator, Transformer(layers=2))
    run.build()
    simulator.start_recording()
    run.train(2)
    snapshot, truth = simulator.snapshot(), simulator.truth()
    assert violations(snapshot) == []
    assert_true(truth, snapshot)
    parameters = sum(size for _, size in run.model.parameters())
    assert truth.requested[0] == parameters
    assert truth.requested[-1] == 3 * parameters
    assert truth.requested.max() > 6 * parameters
