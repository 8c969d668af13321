"""The laboratory itself: that what it calls the truth is true, in seconds."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import pytest

from snapreport.api.comparison import growth_of
from snapreport.diagnosis.advice.situation import find_layers, look_at
from snapreport.model.roles import ROLES
from tests.laboratory.advice import Pair, Predicted, pairs_of, summary
from tests.laboratory.programs import all_programs
from tests.laboratory.recording import Job, Run, make, recorded, run
from tests.laboratory.roles import judge, right
from tests.needed import needed

needed("torch")

STEPS = 3
MANY = 100
"""Elements; what has fewer are scalars."""

STEP = [
    (500, "input"),
    (150_000, "activation"),  # weight * x, which the square keeps
    (150_000, "temporary of forward"),  # the square itself
    (150_000, "temporary of backward"),  # of the square, to either side
    (150_000, "temporary of backward"),
    (150_000, "temporary of backward"),  # of weight * x, before it is added up
    (300, "gradient"),
]


@functools.cache
def whole(program: str) -> Run:
    """Its truth is checked meanwhile: with hooks on it, it makes and frees the same sizes."""
    return run(program, steps=STEPS)


def told(made: Run) -> list[tuple[int, str]]:
    """Elements of 4 bytes and role of each large allocation."""
    sizes = (made.device.allocations.size // 4).tolist()
    names = [ROLES[role] for role in made.truth.roles.tolist()]
    return [each for each in zip(sizes, names, strict=True) if each[0] > MANY]


def test_the_truth_is_what_can_be_told_by_hand() -> None:
    """See ``programs/checked.py``."""
    assert told(whole("checked")) == [
        (300, "parameter"),
        (700, "buffer"),
        *STEP,
        (300, "optimizer state"),
        *STEP * (STEPS - 1),
    ]


def test_a_step_begins_with_its_own_first_event() -> None:
    made = whole("checked")
    rows = made.device.allocations
    inputs = rows.alloc_event[(made.truth.roles == ROLES.index("input")) & (rows.size == 2000)]
    assert made.truth.steps.tolist() == inputs.tolist()


def test_a_late_start_is_the_same_recording_without_its_beginning() -> None:
    made = whole("checked")
    late = made.late(2)
    assert told(late)[-len(STEP) :] == STEP
    held = sorted(told(late)[: -len(STEP)])
    assert held == [
        (300, "gradient"),  # until zero_grad() frees it
        (300, "optimizer state"),
        (300, "parameter"),
        (700, "buffer"),
    ]
    event = int(made.truth.steps[2])
    assert (
        late.device.curve("allocated").tolist() == made.device.curve("allocated")[event:].tolist()
    )
    before = late.device.allocations.alloc_event < 0
    assert (late.device.allocations.stack[before] < 0).all()


def test_a_late_start_by_the_profiler_knows_what_it_sees_in_use() -> None:
    made = run("checked", steps=STEPS, start=2)
    assert told(made)[-len(STEP) :] == STEP
    assert {role for _, role in told(made)[: -len(STEP)]} == {"parameter", "optimizer state"}


@pytest.mark.parametrize(
    ("program", "least"),
    [("transformer", 0.98), ("large-vocabulary", 0.98), ("inference-with-grad", 0.96)],
)
def test_a_program_is_judged_at_its_steady_peak(program: str, least: float) -> None:
    judged = judge(whole(program), 1)
    confusion = judged.bytes
    assert confusion.sum() == judged.run.device.curve("allocated")[judged.event + 1]
    assert right(confusion) >= least
    wrong = sum(size for size, *_ in judged.wrong())
    assert wrong == confusion.sum() - np.trace(confusion)


def test_a_change_is_really_made() -> None:
    variants = ("", "inference-mode", "smaller-batch:2")
    jobs = [Job("inference-with-grad", variant, STEPS) for variant in variants]
    make(jobs)
    peaks = [recorded(job).peak.allocated for job in jobs]
    assert peaks[1] < peaks[0] * 0.2
    assert 0.5 * peaks[0] < peaks[2] < peaks[0] * 0.6


@pytest.mark.parametrize(
    ("program", "variants"),
    [
        ("transformer", ("checkpoint", "smaller-batch:2", "accumulate:2")),
        ("inference-with-grad", ("inference-mode", "smaller-batch:2")),
        ("large-vocabulary", ("chunked-loss:8", "smaller-batch:2")),
    ],
)
def test_a_change_frees_what_was_expected(program: str, variants: Sequence[str]) -> None:
    make([Job(program, variant, STEPS) for variant in ("", *variants)])
    for pair in pairs_of(program, variants, STEPS):
        assert pair.predicted is not None, pair
        assert pair.within, pair
        assert abs(pair.predicted.expected - pair.measured) < pair.measured * 0.25, pair


def test_memory_of_reference_cycles_is_told_and_goes_when_they_are_broken() -> None:
    (pair,) = pairs_of("reference-cycles", ["break-cycle"])
    found = {each.code: each for each in recorded(Job("reference-cycles")).diagnosis.findings}
    told = found["reference-cycles"]
    assert told.subject == "forward (language.py:109)"
    said = {each.label: each.value for each in told.evidence}
    assert (said["freed at once"], said["made in steps"], said["times"]) == (4 << 20, 4, 3)
    assert pair.predicted is not None
    assert pair.within
    # A record could go even before its step ends, with the step's own logits.
    assert (pair.predicted.expected, pair.measured) == (3 << 20, pair.predicted.most)
    changed = recorded(Job("reference-cycles", "break-cycle")).diagnosis.findings
    assert "reference-cycles" not in [each.code for each in changed]


def test_the_peak_at_a_batch_that_was_not_recorded_is_what_was_told() -> None:
    make([Job("sized-wide-model", f"size:{size}", STEPS) for size in (2, 4, 16)])
    devices = {size: recorded(Job("sized-wide-model", f"size:{size}", STEPS)) for size in (2, 4)}
    told = growth_of(devices, at=(16,)).peaks[-1]
    measured = recorded(Job("sized-wide-model", "size:16", STEPS)).peak.allocated
    assert told.expected == measured
    # In the optimizer's step only the batch itself grows; at 16 the peak is in the backward pass.
    small, large = (devices[size].peak.allocated for size in (2, 4))
    assert 0 < large - small < 1024
    assert measured > large + (1 << 20)
    assert told.phase == "backward"


def test_a_layer_holds_what_a_model_with_one_more_keeps_more() -> None:
    kept = {}
    for layers in (3, 4):
        made = run("sized-layers", f"size:{layers}", STEPS)
        curve = made.device.curve("allocated")
        live = made.device.history.allocations.live_at(int(curve.argmax()) - 1)
        saved = live & (made.truth.roles == ROLES.index("activation"))
        kept[layers] = int(made.device.allocations.block_size[saved].sum())
    situation = look_at(made.device.file, made.device.history)
    found = find_layers(situation, situation.event)
    assert found is not None
    assert (found.count, found.caller) == (4, "hidden (language.py:105)")
    assert found.least == found.most == kept[4] - kept[3]
    assert found.bytes == 4 * found.most


def test_several_changes_go_together() -> None:
    made = all_programs()["transformer"]("checkpoint+smaller-batch:2")
    assert made.on("checkpoint")
    assert made.number("smaller-batch") == 2
    assert made.number("chunked-loss") == 1
    assert all_programs()["transformer"]("accumulate:8").number("accumulate") == 8


def test_every_variant_can_be_had_and_no_other() -> None:
    for made in all_programs().values():
        assert len(set(made.variants)) == len(made.variants)
        for variant in made.variants:
            assert made(variant).on(variant.partition(":")[0])
        with pytest.raises(ValueError, match="has no variant"):
            made("no-such-change")


def test_the_summary_counts_what_was_wrong() -> None:
    pairs = [
        Pair("a", "good", 1000, 100, Predicted(90, 110, 120)),
        Pair("a", "broken", 1000, 100, Predicted(101, 150, 200)),
        Pair("b", "useless", 1000, 0, Predicted(0, 10, 20)),
        Pair("b", "missed", 1000, 100, None),
    ]
    assert summary(pairs).splitlines() == [
        "- programs: 2",
        "- changes made: 4, of them suggested: 3",
        "- bounds that do not hold: 1",
        "- suggestions that free nothing: 1",
        "- error of the expected figure: median 30.0%, 90 % below 46.0%",
        "- changes that free over 5 % and are not suggested: 1",
    ]
