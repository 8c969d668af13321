"""Forecasts that choose as the CPU does, beside recordings of the same programs on the CPU."""

from __future__ import annotations

import functools

import pytest

from tests.forecast.as_cpu import compare
from tests.forecast.lined_up import LinedUp
from tests.laboratory.recording import Job
from tests.needed import needed
from tests.thorough import some

needed("torch")

STEPS = 3
OTHERWISE = {
    "gradient-penalty": "nodes that backward makes are numbered by its thread, and run in another"
    " order than where one thread runs all",
    "averaged-weights": "_transformer_encoder_layer_fwd, one operator for a layer of an encoder",
}
"""Programs that the CPU runs in another way than a card, and why."""
EQUAL = (
    "transformer", "resnet", "recurrent", "gan", "lbfgs-closure", "part-checkpoints",
    "autocast-training", "experts", "huggingface-trainer", "generation-growing-cache",
    "accumulation", "adam-closure", "autocast-no-grad", "autocast-with-grad", "checked",
    "collects-outputs", "contrastive", "custom-optimizer", "decayed-momentum", "distillation",
    "evaluates-with-grad", "gated-residuals", "generation-fixed-cache", "inference-mode",
    "inference-no-grad", "inference-with-grad", "k-means", "kept-gradients", "large-vocabulary",
    "leaked-losses", "leaked-outputs", "lora", "naive-attention", "plain-optimizer",
    "projected-residuals", "reentrant-checkpoints", "reference-cycles", "reinforcement",
    "samples-in-memory", "second-order", "sharpness-closure", "skipped-steps",
    "streaming-evaluation", "sums-losses", "unet", "validates-collecting", "validates-with-grad",
    "vision-transformer", "wide-model",
)  # fmt: skip
TRIED = some(EQUAL, 6)


@functools.cache
def lined_up() -> dict[str, LinedUp]:
    jobs = [Job(name, steps=STEPS) for name in TRIED]
    return {job.program: found for job, found in compare(jobs).items()}


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("program", TRIED)
def test_a_forecast_has_the_same_allocations_as_the_recording(program: str) -> None:
    """The same bytes, in the same order, from the same lines, as long: or it is explained."""
    found = lined_up()[program]
    assert found.unexplained == []
    assert found.elsewhere == []
    assert found.otherwise_freed == []
    assert len(found.pairs) == len(found.made)
