"""What is said of growth, churn and the allocator holds for any history, cut anywhere."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from dev.simulator.blocks import Block
from snapreport.diagnosis.allocator_use import find_slack, find_tightest
from snapreport.diagnosis.churn import find_pending, find_transients
from snapreport.diagnosis.conclude import find
from snapreport.diagnosis.given_back import find_bursts
from snapreport.model.findings import DeviceFindings, Findings
from snapreport.roles.steps import find_iterations
from tests.builders import MIB
from tests.programs import TINY, Plan, Program, figures, found, leaks
from tests.property.simulated import Simulated, for_simulations
from tests.thorough import some

TOPICS = ("growth", "churn", "allocator", "transient-peak")


class _CutError(Exception):
    """The recording ends here."""


class CutProgram(Program):
    """Stops in the middle of whatever it does."""

    def __init__(self, plan: Plan, allocations: int | None) -> None:
        super().__init__(plan)
        self.left = allocations

    def new(self, size: int, *native: str) -> Block:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise _CutError
        return super().new(size, *native)


def cut_run(seed: int, leak: int) -> Findings:
    """Train with a seed's choice of everything, with a leak of so many bytes an iteration or 0."""
    rng = random.Random(seed)
    plan = Plan(
        seed=seed,
        iterations=rng.randrange(6, 16),
        stages=rng.random() < 0.5,
        model=replace(TINY, layers=3),
        varied=rng.random() < 0.4,
        late=rng.random() < 0.3,
        context=rng.choice(["all", "all", "all", None, "alloc", "state"]),
        each=leaks(leak) if leak else None,
        max_entries=rng.choice([1 << 40, rng.randrange(200, 6000)]),
    )
    program = CutProgram(plan, rng.choice([None, rng.randrange(300, 2600)]))
    with contextlib.suppress(_CutError):
        program.run()
    return find(program.history())


@pytest.mark.parametrize("seed", some(range(40), 10))
def test_a_healthy_training_raises_no_alarm_wherever_it_is_cut(seed: int) -> None:
    (device,) = cut_run(seed, leak=0).devices
    assert [each.id for each in found(device, *TOPICS) if each.severity != "note"] == []
    assert not [each for each in found(device, "growth") if each.code == "leak"]


@pytest.mark.parametrize("seed", some(range(40), 10))
def test_a_leak_is_said_with_its_true_size_or_not_at_all(seed: int) -> None:
    findings = cut_run(seed, leak=2 * MIB)
    (device,) = findings.devices
    said = [each for each in found(device, *TOPICS) if each.code == "leak"]
    assert [figures(each)["growth per step"] for each in said] in ([], [2 * MIB])
    turns = find_iterations(device.history, findings.history)
    stacks = bool((device.missing == 0).any())
    if turns is not None and len(turns) > 5 and stacks:
        assert said, "six iterations or more are enough to tell"


def devices(simulation: Simulated) -> Iterator[tuple[Findings, DeviceFindings]]:
    findings = simulation.findings
    for device in findings.devices:
        yield findings, device


@for_simulations(60)
def test_no_history_is_too_odd_to_be_diagnosed(simulation: Simulated) -> None:
    for _, device in devices(simulation):
        for finding in found(device, *TOPICS):
            assert finding.bytes >= 0
            assert finding.title
            for suggestion in finding.suggestions:
                most = suggestion.frees.most if suggestion.frees else 0
                assert 0 <= most <= int(device.curves["reserved"].max())
            for table in finding.tables:
                assert all(len(row) == len(table.columns) for row in table.rows)


@for_simulations(60)
def test_iterations_lie_in_the_recording_one_after_the_other(simulation: Simulated) -> None:
    for findings, device in devices(simulation):
        turns = find_iterations(device.history, findings.history)
        if turns is None:
            continue
        assert len(turns.names) == len(turns) >= 2
        assert 0 < turns.confidence <= 1
        assert (np.diff(turns.bounds) > 0).all()
        assert turns.bounds[0] >= 0
        assert turns.bounds[-1] <= device.history.events


@for_simulations(60)
def test_bursts_add_up_to_what_was_given_back(simulation: Simulated) -> None:
    for findings, device in devices(simulation):
        other = device.history.other
        given = [
            int(size)
            for action, size in zip(other.action, other.size, strict=True)
            if action in ("segment_free", "segment_unmap")
        ]
        bursts = find_bursts(findings.history, device)
        assert sum(burst.bytes for burst in bursts) == sum(given)
        assert sum(burst.count for burst in bursts) == len(given)
        assert all(0 <= burst.got_again <= burst.bytes for burst in bursts)
        assert all(a.last_event < b.first_event for a, b in itertools.pairwise(bursts))


@for_simulations(60)
def test_what_is_free_at_the_tightest_is_all_that_is_inactive(simulation: Simulated) -> None:
    for findings, device in devices(simulation):
        tightest = find_tightest(findings.history, device)
        if tightest is None or device.closing is None or not device.closing.closes:
            continue
        free = tightest.pieces + tightest.whole + tightest.elsewhere
        assert free == tightest.reserved - tightest.active


@for_simulations(60)
def test_slack_by_size_and_by_cause_is_the_slack_of_what_is_live(simulation: Simulated) -> None:
    for findings, device in devices(simulation):
        slack = find_slack(findings.history, device)
        rows, event = device.history.allocations, device.peak.event
        live = (rows.alloc_event <= event) & (event < rows.free_requested_event)
        assert slack.total == int((rows.block_size[live] - rows.size[live]).sum())
        assert slack.total == int(slack.slack.sum())
        assert int(slack.count.sum()) == int(live.sum())
        assert min(slack.unsplit, slack.divided) >= 0
        assert slack.unsplit + slack.divided <= slack.total


@for_simulations(60)
def test_the_peak_falls_by_no_more_than_what_is_taken_away(simulation: Simulated) -> None:
    for findings, device in devices(simulation):
        found_ = find_transients(findings.history, device)
        assert found_.peak_falls >= 0
        assert found_.bytes <= device.peak.allocated
        # At the peak itself exactly these are taken away, so it falls there by as much.
        assert found_.peak_falls <= found_.bytes


@for_simulations(60)
def test_what_waits_is_never_more_than_active_less_allocated(simulation: Simulated) -> None:
    for _, device in devices(simulation):
        pending = find_pending(device)
        gap = device.curves["active"] - device.curves["allocated"]
        assert pending.most <= int(gap.max())
        assert 0 <= pending.peak_falls <= pending.most
        assert len(pending.byte_events) == len(pending.rows)
