"""Calls that keep what a backward pass would need are told once, with their number and line."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from dev.simulator import OutOfMemoryError, Simulator
from snapreport.diagnosis.conclude import find
from snapreport.model.diagnoses import Finding
from tests.builders import MIB, TraceBuilder, frame, history_of, trace

KIB = 1 << 10
MODULE = "/x/torch/nn/modules/module.py"
CALL = [frame("_call_impl", MODULE, 2), frame("_wrapped_call_impl", MODULE, 1)]
MAIN = frame("main", "train.py", 7)
BUILD = [frame("__init__", "/x/torch/nn/modules/linear.py", 9), MAIN]
LINES = 12
"""Lines of the model that keep 128 KiB each: so many that they are no key-value cache."""
WORKSPACE = [frame("at::cuda::getCUDABlasLtWorkspace()", "??", 0)]


def line(number: int) -> list[dict[str, Any]]:
    return [frame("forward", "model.py", number), *CALL, MAIN]


def calling(calls: int, keeps: int = 100, steps: bool = False) -> TraceBuilder:
    """Call a model that keeps 1.5 MiB a call, and hold what the last calls returned."""
    made = trace().alloc("weight", 4 * MIB, frames=BUILD)
    for call in range(calls):
        if steps:
            made.start(f"ProfilerStep#{call}", 100 * call)
        for layer in range(LINES):
            at = 100 * call + 2 * layer
            made.alloc(f"{call}.{layer}", 128 * KIB, frames=line(20 + layer), time_us=at)
            if not call and layer == 3:
                made.alloc("space", 2 * MIB, frames=[*WORKSPACE, *line(23)], time_us=at + 1)
        for layer in range(LINES if call >= keeps else 0):
            made.free(f"{call - keeps}.{layer}", frames=[MAIN], time_us=100 * call + 50)
        if steps:
            made.end(f"ProfilerStep#{call}", 100 * call + 90)
    return made


def findings_of(made: TraceBuilder) -> dict[str, Finding]:
    return {each.code: each for each in find(made.file()).devices[0].diagnosis.findings}


@pytest.mark.parametrize("steps", [False, True])
def test_growth_by_call_is_told_once_with_its_bytes_calls_and_line(steps: bool) -> None:
    found = findings_of(calling(40, steps=steps))
    kept = found["kept-graphs"]
    assert kept.title == (
        "1.50 MiB more stays live with each of 40 calls of a model, made from main (train.py:7)"
    )
    assert (kept.severity, kept.bytes, kept.per_step) == ("warning", 60 * MIB, 3 * MIB // 2)
    assert all(word in kept.explanation for word in ("no_grad()", ".item()", ".detach()"))
    (suggestion,) = kept.suggestions
    assert suggestion.code == "inference-mode"
    # The last call is still running, and each keeps what it returned.
    assert suggestion.frees is not None
    kept_then = 3 * MIB // 2 + 39 * 128 * KIB
    assert (suggestion.frees.expected, suggestion.frees.most) == (60 * MIB - kept_then, 60 * MIB)
    assert "inference-mode" not in [each.code for each in found["peak"].suggestions]
    assert "leak" not in found


def test_where_a_request_failed_it_is_a_cause_and_the_verdict_has_the_suggestion() -> None:
    made = Simulator(capacity=64 * MIB)
    made.start_recording()
    made.set_stack(BUILD)
    made.malloc(4 * MIB)
    with suppress(OutOfMemoryError):
        while True:
            for layer in range(LINES):
                made.set_stack(line(20 + layer))
                made.malloc(128 * KIB)
    findings = find(history_of(made.snapshot())).devices[0].diagnosis.findings
    found = {each.code: each for each in findings}
    assert "made from main (train.py:7)" in found["kept-graphs"].title
    assert (found["kept-graphs"].severity, found["kept-graphs"].suggestions) == ("critical", ())
    assert "inference-mode" in [each.code for each in found["oom"].suggestions]


def test_the_last_few_results_are_no_growth() -> None:
    found = findings_of(calling(40, keeps=5))
    assert "kept-graphs" not in found
    assert "inference-mode" in [each.code for each in found["peak"].suggestions]


def test_calls_of_a_program_that_trains_are_no_such_growth() -> None:
    made = calling(40)
    made.alloc("grad", 4 * MIB, frames=[frame("MulBackward0", "??", 0), MAIN])
    assert "kept-graphs" not in findings_of(made)
