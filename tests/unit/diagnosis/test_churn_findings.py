"""Churn, short-lived peaks, what is held through an optimizer step, and what waits for a stream."""

from __future__ import annotations

from typing import Any

import pytest

from dev.simulator import Simulator
from snapreport.diagnosis.conclude import find
from snapreport.ground.units import format_bytes
from snapreport.model.findings import DeviceFindings
from tests.builders import MIB, TraceBuilder, frame, history_of, trace
from tests.programs import Plan, Program, figures, found, of_code


def site(name: str, line: int = 1) -> dict[str, Any]:
    return {"frames": [frame(name, line=line)]}


def device(builder: TraceBuilder) -> DeviceFindings:
    return find(builder.file()).devices[0]


def again(times: int) -> TraceBuilder:
    builder = trace()
    for number in range(times):
        builder.alloc(f"{number}", 2048, **site("scale")).free(f"{number}")
    return builder


def test_the_same_tensor_made_again_at_once_is_churn() -> None:
    churn = of_code(device(again(300)), "churn")
    said = figures(churn)
    assert said["made again at once"] == 299
    assert said["bytes turned over"] == 299 * 2048
    assert churn.tables[0].rows == (("scale  train.py:1", 299 * 2048, 299),)
    assert churn.severity == "note"


def test_churn_is_shown_by_the_events_of_one_free_and_the_allocation_after_it() -> None:
    builder = again(300)
    view = of_code(device(builder), "churn").view
    assert view is not None
    assert view.event is not None
    assert view.tab == "events"
    around = [each["action"] for each in builder.events[view.event - 1 : view.event + 1]]
    assert around == ["free_completed", "alloc"]


def test_little_churn_is_not_worth_a_word() -> None:
    assert not found(device(again(50)), "churn")


def test_another_size_or_a_long_wait_is_no_churn() -> None:
    builder = trace()
    for number in range(300):
        builder.alloc(f"{number}", 512 * (1 + number), **site("scale")).free(f"{number}")
    for number in range(300):
        builder.alloc(f"a{number}", 2048, **site("scale")).free(f"a{number}")
        for other in range(8):
            builder.alloc(f"b{number}.{other}", 512 * (other + 1), **site("f", other))
    assert "churn" not in [each.code for each in found(device(builder), "churn")]


def peaked(lasting: int, brief: int) -> TraceBuilder:
    """One allocation that stays and, over it, a brief one; then much else that is small."""
    builder = trace().alloc("a", lasting, **site("stay")).alloc("b", brief, **site("softmax"))
    builder.free("b")
    for number in range(20):
        builder.alloc(f"{number}", 512, **site("small", number))
    return builder


def test_a_peak_of_short_lived_memory_says_how_far_it_would_fall() -> None:
    finding = of_code(device(peaked(60 * MIB, 40 * MIB)), "transient-peak")
    said = figures(finding)
    assert said["short-lived at the peak"] == 40 * MIB
    assert said["peak falls by"] == 40 * MIB - 20 * 512  # what is small comes later
    assert format_bytes(int(said["peak falls by"])) in finding.suggestions[0].text
    assert finding.suggestions[0].frees is None


def test_a_peak_of_lasting_memory_is_no_transient() -> None:
    assert not found(device(peaked(60 * MIB, 5 * MIB)), "churn", "transient-peak")


def with_optimizer(dropped_first: bool) -> DeviceFindings:
    """A step whose logits are dropped before, or after, the optimizer's step."""
    builder = trace()
    builder.alloc("weights", 10 * MIB, **site("init"))
    builder.alloc("logits", 64 * MIB, **site("forward"))
    if dropped_first:
        builder.free("logits")
    at = 10 * len(builder.events)
    builder.alloc("buffer", 8 * MIB, **site("fused")).free("buffer")
    builder.start("Optimizer.step#SGD.step", at - 5).end("Optimizer.step#SGD.step", at + 25)
    if not dropped_first:
        builder.free("logits")
    return device(builder.alloc("end", 512, **site("main")))


def test_what_is_live_all_through_an_optimizer_step_is_said() -> None:
    held = of_code(with_optimizer(dropped_first=False), "held-across-stages")
    assert figures(held)["held through an optimizer step"] == 64 * MIB
    # The peak falls by the buffer alone: before the step the logits were there as well.
    assert figures(held)["peak falls by"] == 8 * MIB
    assert held.tables[0].rows[0][0] == "forward  train.py:1"


def test_what_is_dropped_before_the_optimizer_step_is_not() -> None:
    codes = [each.code for each in found(with_optimizer(dropped_first=True), "churn")]
    assert "held-across-stages" not in codes


def test_parameters_and_optimizer_state_are_not_held_through_a_step() -> None:
    codes = [each.code for each in found(Program(Plan()).run().analysed(), "churn")]
    assert "held-across-stages" not in codes


@pytest.mark.parametrize(
    ("size", "falls"),
    [
        (20 * MIB, 20 * MIB - 512),  # the last 512 bytes come when it waits no more
        (50 * MIB, 30 * MIB),  # without it the peak would be when it was live
    ],
)
def test_memory_that_waits_for_another_stream_is_measured(size: int, falls: int) -> None:
    simulator = Simulator()
    simulator.start_recording()
    allocator = simulator.allocators[0]
    simulator.set_stack([frame("main", line=3)])
    weights = simulator.malloc(100 * MIB)
    simulator.set_stack([frame("prefetch", line=9)])
    batch = simulator.malloc(size)
    allocator.record_stream(batch, 7)
    simulator.free(batch)
    simulator.set_stack([frame("forward", line=5)])
    other = simulator.malloc(30 * MIB)
    allocator.pass_events(7)
    last = simulator.malloc(512)
    simulator.free(last)
    simulator.free(other)
    simulator.free(weights)
    pending = of_code(find(history_of(simulator.snapshot())).devices[0], "pending-free")
    said = figures(pending)
    assert said["waiting at most"] == size
    assert said["active peak falls by"] == falls
    assert pending.tables[0].rows[0][:2] == ("prefetch  train.py:9", size)
    assert pending.tables[1].rows[0][0] == "default"
    # The call stacks and the allocations leave it out; the allocator's view has it by itself.
    assert pending.view is not None
    assert (pending.view.tab, pending.view.event) == ("allocator", said["at event"])


def test_frees_that_complete_at_once_do_not_wait() -> None:
    codes = [each.code for each in found(Program(Plan()).run().analysed(), "churn")]
    assert "pending-free" not in codes
