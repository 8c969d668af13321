"""Published cases of one setting or another, made anew as programs: what the reports describe.

Sizes of models are those of the reports. How long their batches were is in none, so lengths are
drawn; what they come to is compared in direction and rough size alone.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from dataclasses import dataclass

from dev.simulator.settings import MIB
from snapreport import read
from snapreport.figures.allocator.settings import replay_settings
from snapreport.history.allocator_settings import parse_settings
from snapreport.history.build import build_history
from snapreport.model.replays import Between
from tests.counterfactuals import simulated
from tests.reference.replays import modelled_devices
from tests.scripts import Call, Script, run

GIB = 1 << 30


@dataclass(frozen=True)
class Language:
    """A language model in training, and its batches."""

    kept: int
    """Bytes of weights and of what the optimizer keeps, in tensors of 64 MiB or less."""
    layers: int
    width: int
    inner: int
    """Width within a layer's MLP."""
    vocabulary: int
    tokens: tuple[int, int]
    """The fewest and the most in a batch."""
    steps: int


@dataclass(frozen=True)
class Case:
    """A report: reserved memory under one setting and another."""

    report: str
    what: str
    before: str
    after: str
    published: tuple[int, int]
    """Bytes reserved before and after."""
    script: Callable[[int], Script]
    """By the seed of its draws."""


@dataclass(frozen=True)
class Remade:
    """What a case made anew comes to, in bytes reserved at most."""

    before: int
    after: int
    told: Between
    """After, by the model, from the recording of before."""


def training(of: Language, seed: int) -> Script:
    """Return steps with batches of any length: checkpointed layers, then logits, then backward."""
    calls: list[Call] = []
    rng = random.Random(seed)

    def new(size: int) -> int:
        calls.append(("malloc", len(calls), size, 0))
        return len(calls) - 1

    def drop(*numbers: int) -> None:
        calls.extend(("free", number, 0, 0) for number in numbers)

    def layer(tokens: int) -> None:
        """Queries, keys and values, then the MLP: what a layer needs and does not keep."""
        inner = [new(tokens * of.width * 2) for _ in range(4)]
        wide = [new(tokens * of.inner * 2) for _ in range(3)]
        drop(*inner, *wide)

    left = of.kept
    while left > 0:
        new(min(left, 64 * MIB))
        left -= 64 * MIB
    for _ in range(of.steps):
        tokens = rng.randrange(*of.tokens)
        saved = []
        for _ in range(of.layers):
            saved.append(new(tokens * of.width * 2))
            layer(tokens)
        logits = new(tokens * of.vocabulary * 2)
        whole = new(tokens * of.vocabulary * 4)
        gradient = new(tokens * of.vocabulary * 4)
        drop(whole)
        narrow = new(tokens * of.vocabulary * 2)
        drop(gradient, logits, narrow)
        for kept in reversed(saved):
            layer(tokens)
            drop(kept)
    return Script(tuple(calls))


def fenced_holes(_: int = 0) -> Script:
    """Return cycles of large blocks that are freed in front of a small one that stays.

    What is freed merges to more than ``max_split_size``, so no smaller request may have it; and
    it does not lie at the segment's end, so it cannot grow.
    """
    calls: list[Call] = [("malloc", 0, 66 * MIB, 0)]
    fence = -1
    for _ in range(100):
        first = len(calls)
        calls += [("malloc", first, 69 * MIB, 0), ("malloc", first + 1, 69 * MIB, 0)]
        calls.append(("malloc", first + 2, 2 * MIB, 0))
        calls += [("free", first, 0, 0), ("free", first + 1, 0, 0)]
        if fence >= 0:
            calls.append(("free", fence, 0, 0))
        fence = first + 2
    return Script(tuple(calls))


CASES = (
    Case(
        "meta-pytorch/torchtune#1185", "QLoRA of an 8B model, 20 batches of texts",
        "default", "expandable_segments:True",
        (int(16.39 * GIB), int(10.83 * GIB)),
        lambda seed: training(
            Language(int(5.9 * GIB), 32, 4096, 14_336, 128_256, (150, 2900), 20), seed
        ),
    ),
    Case(
        "nvidia-cosmos/cosmos-rl#388", "a 7B model on two GPUs, 20 batches",
        "default", "expandable_segments:True",
        (126_970_000_000, 96_610_000_000),
        lambda seed: training(
            Language(60_930_000_000, 28, 3584, 18_944, 152_064, (6_000, 17_000), 20), seed
        ),
    ),
    Case(
        "pytorch/pytorch#193400", "large blocks freed in front of a small one that stays",
        "default", "expandable_segments:True,max_split_size_mb:128",
        (220 * MIB, 14_060 * MIB),
        fenced_holes,
    ),
)  # fmt: skip


def remake(case: Case, seed: int) -> Remade:
    """Run a case under both settings, and ask the model about the second from the first."""
    script = case.script(seed)
    before, after = (run(script, simulated(each)) for each in (case.before, case.after))
    file = pickle.dumps(before.simulator.snapshot(), 4)
    (modelled,) = modelled_devices(build_history(read.read_bytes(file, "snap.pickle")))
    (outcome,) = replay_settings(modelled, [parse_settings(case.after)]).outcomes
    return Remade(before.peak, after.peak, outcome.peak)
