"""A made run as figures, without files: a second for a thousand ranks."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dev.benchmarks.runs.pattern import Pattern, read_pattern
from dev.benchmarks.runs.plan import Plan, Planted, Varied, held_at_peak, vary
from snapreport.diagnosis.ranks.find_run import find_run
from snapreport.figures.ranks import event_cells, time_cells
from snapreport.model.run import (
    DeviceFacts,
    FailedRequest,
    Holder,
    HolderKind,
    RankFacts,
    RankName,
    Run,
    RunFindings,
    StepPeak,
)

CAPACITY = 80 << 30
SAMPLE = Path(__file__).resolve().parents[3] / "sample_snapshots" / "training_step.pickle"
_STAGES = 4


def example_run(
    ranks: int, *, steps: int = 3, events: int = 120, seed: int = 0
) -> tuple[Run, RunFindings]:
    """Return a run of four pipeline stages, the second heavy, and what is found in it.

    Of 8 ranks and more, rank n/4 is ten times as large at a call site, rank n/3 gains memory,
    rank n/2 runs out of it, of the last three ranks two are missing and one is broken.

    Args:
        ranks: how many it has, those that are missing among them.
        steps: of the training loop.
        events: of the recording that a step is made of.
        seed: of what is left to chance.
    """
    pattern = _pattern(steps, events)
    first, second, *_ = np.argsort(-held_at_peak(pattern)).tolist()
    site = pattern.sites[second]
    planted = (
        Planted("heavy rank", (ranks // 4,), "", site, 9.0),
        Planted("leak", (ranks // 3,), "", site, 0.02),
        Planted("failure", (ranks // 2,), "", site, step=steps // 2),
        Planted("missing", (ranks - 3, ranks - 2)),
        Planted("broken", (ranks - 1,)),
    )
    layout = (("dp", -(-ranks // _STAGES)), ("pp", _STAGES))
    plan = Plan(pattern, ranks, seed, layout, planted * (ranks >= 8), factors={(1, first): 1.5})
    run = make_run(plan)
    return run, find_run(run)


@lru_cache(maxsize=4)
def _pattern(steps: int, events: int) -> Pattern:
    return read_pattern(SAMPLE, steps, events)


def make_run(plan: Plan, *, layout: bool = True) -> Run:
    """Return the figures of every rank, as reading its file would give them.

    Args:
        plan: of the run.
        layout: whether the run knows it.
    """
    ranks = []
    for rank in range(plan.ranks):
        if plan.of("missing", rank):
            continue
        places = plan.place(rank) if layout else {}
        name = RankName(rank, host=plan.host(rank), coordinates=tuple(places.items()))
        facts = RankFacts(f"rank{rank}.pickle", f"rank {rank}", name, 1 << 20, f"{rank:064x}", ())
        if plan.of("broken", rank):
            ranks.append(replace(facts, sha256="", error="the pickle ends too early."))
        else:
            ranks.append(replace(facts, devices=(device_facts(plan, vary(plan, rank)),)))
    return Run("made", tuple(ranks), plan.layout if layout else (), plan.ranks if layout else None)


def device_facts(plan: Plan, varied: Varied) -> DeviceFacts:
    """Return the figures of one rank; an allocation is one event, and a free two."""
    blocks = -(-varied.size // 512) * 512
    start = int(blocks[varied.baseline].sum())
    after = start + np.cumsum(varied.turn_sign * blocks[varied.turn_of])
    long = np.where(varied.turn_sign > 0, 1, 2)
    event = np.cumsum(long) - long
    curve = np.concatenate(([start], np.repeat(after, long)))
    times = np.repeat(varied.time_us, long)
    peak = int(after.argmax())
    live = np.zeros(len(varied.size), np.int64)
    live[varied.baseline] = 1
    np.add.at(live, varied.turn_of[: peak + 1], varied.turn_sign[: peak + 1])
    held = np.flatnonzero(live)
    reserved = np.maximum.accumulate(-(-curve // (20 << 20)) * (20 << 20))
    failed: tuple[FailedRequest, ...] = ()
    if varied.failed is not None:
        site = plan.pattern.sites[varied.failed_site]
        failed = (FailedRequest(len(times), int(times[-1]) + 5, varied.failed, site),)
    roles = np.where(varied.kept, 0, 1)
    return DeviceFacts(
        device="cuda:0",
        kind="cuda",
        place=0,
        opens=True,
        recorded=True,
        events=len(times),
        capacity=CAPACITY,
        allocated=int(after[peak]),
        allocated_width=0,
        peak_event=int(event[peak]),
        peak_time_us=int(varied.time_us[peak]),
        reserved=int(reserved.max()),
        by_event=event_cells(curve, reserved),
        by_time=time_cells(curve, reserved, times),
        holders=(
            *_holders("site", plan.pattern.sites, varied.site[held], blocks[held]),
            *_holders("role", ("parameter", "activation"), roles[held], blocks[held]),
        ),
        steps=_steps(varied, after),
        failed=failed,
        findings=(),
    )


def _holders(
    kind: HolderKind,
    keys: tuple[str, ...],
    group: NDArray[np.int64],
    blocks: NDArray[np.int64],
) -> list[Holder]:
    found = []
    for number in np.unique(group).tolist():
        mine = blocks[group == number]
        sizes, count = np.unique(mine, return_counts=True)
        top = int((sizes * count).argmax())
        found.append(
            Holder(kind, keys[number], int(mine.sum()), len(mine), int(sizes[top]), int(count[top]))
        )
    return sorted(found, key=lambda each: (-each.bytes, each.key))


def _steps(varied: Varied, after: NDArray[np.int64]) -> tuple[StepPeak, ...]:
    """Return the complete steps."""
    last = int(varied.turn_step[-1]) + (varied.failed is None)
    bounds = np.searchsorted(varied.turn_step, np.arange(last + 1))
    return tuple(
        StepPeak(k, int(after[a:b].max()), int(after[b - 1]))
        for k, (a, b) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))
    )
