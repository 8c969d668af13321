"""What is judged of a recording, against what the simulator knows happened."""

from __future__ import annotations

import pytest

from dev.simulator.simulator import Simulator
from dev.simulator.training import TrainingRun, Transformer
from dev.simulator.workloads import Config, simulate
from snapreport.diagnosis.conclude import find
from snapreport.model.findings import DeviceFindings
from tests.builders import history_of
from tests.property.simulated import Simulated, for_simulations
from tests.thorough import some


def judge(simulator: Simulator) -> tuple[DeviceFindings, ...]:
    return find(history_of(simulator.snapshot())).devices


@for_simulations(120)
def test_reserved_memory_is_accounted_for_in_every_history(simulation: Simulated) -> None:
    for device in simulation.findings.devices:
        for parts in (device.trust.facts.at_peak, device.trust.facts.at_end):
            assert parts is None or parts.difference == 0
            if parts is not None:
                numbers = (parts.requested, parts.slack, parts.awaiting_free)
                assert min(*numbers, parts.fragmented, parts.returnable) >= 0


@for_simulations(120)
def test_a_finding_and_the_check_of_its_matter_agree(simulation: Simulated) -> None:
    matters = {
        "history": {"no-history"},
        "beginning": {"started-late"},
        "loss": {"ring-overflowed"},
        "frees": {"unmatched-frees"},
        "closing": {"does-not-close"},
        "reserved": {"reserved-too-low"},
        "events": {"odd-events", "unknown-actions"},
    }
    for device in simulation.findings.devices:
        codes = {each.code for each in device.diagnosis.findings}
        titles = {each.code: each.title for each in device.warnings}
        for check in device.trust.checks:
            for code in check.findings:
                assert titles[code] in check.text
        unknown = device.trust.facts.loss.state == "not known"  # which is no finding
        for check in device.trust.checks:
            if check.code in matters and not (check.code == "loss" and unknown):
                assert bool(codes & matters[check.code]) == (check.mark != "ok")


@pytest.mark.parametrize("seed", some(range(25), 7))
def test_what_is_called_lost_was_lost_and_what_is_called_whole_is_whole(seed: int) -> None:
    for entries in (1 << 40, 60, 150):
        config = Config(seed=seed, operations=150, max_entries=entries, record_from=seed % 2 * 60)
        simulator = simulate(config)
        (device,) = judge(simulator)
        full = device.history.events == entries
        state = device.trust.facts.loss.state
        if state in ("lost", "missing"):
            assert full
        if state == "none" and config.record_from == 0:
            assert not full
        assert not (state == "suspected" and not full)


@pytest.mark.parametrize("seed", some(range(12), 4))
@pytest.mark.parametrize("layers", [1, 3])
def test_a_training_recorded_whole_gives_no_warning(seed: int, layers: int) -> None:
    simulator = Simulator(seed=seed)
    simulator.start_recording()
    run = TrainingRun(simulator, Transformer(layers=layers, batch=1 + seed % 4, length=128))
    run.build()
    run.train(1 + seed % 3)
    (device,) = judge(simulator)
    about = [each for each in device.diagnosis.findings if each.topic == "recording"]
    assert [each.code for each in about if each.severity != "note"] == []
    assert device.trust.verdict == "trusted"
