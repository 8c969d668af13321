"""Makes the figures and findings of runs as large as asked, for the page that shows them."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from snapreport.model.run.rank_facts import (
    Cells,
    DeviceFacts,
    FailedRequest,
    Holder,
    RankFacts,
    RankName,
    Run,
    StepPeak,
)
from snapreport.model.run.run_findings import Difference, Group, Odd, RunFindings

MIB = 1 << 20
CAPACITY = 80 << 30
START_US = 1_763_900_000_000_000
STAGES = 4
"""Pipeline stages; the second is heavy."""
SITES = (
    "linear linear.py:134", "softmax nn_utils.py:6", "attention attention.py:88",
    "_single_tensor_adamw adam.py:436", "embedding functional.py:2546", "backward graph.py:829",
    "layer_norm functional.py:2905", "all_gather distributed_c10d.py:3771",
)  # fmt: skip


def make_run(
    ranks: int, *, steps: int = 24, cells: int = 512, odd: bool = True, seed: int = 0
) -> tuple[Run, RunFindings]:
    """Return a run and what is to be said of it.

    Args:
        ranks: how many it has, those of which there is no file among them.
        steps: of the training loop.
        cells: about how many each curve has.
        odd: whether some ranks are unlike the others, failed, missing or broken.
        seed: of what is left to chance.
    """
    chance = np.random.default_rng(seed)
    heavy, failed, leak = (ranks // 4, ranks // 2, ranks // 3) if odd else (-1, -1, -1)
    missing = (ranks - 3, ranks - 2) if odd and ranks >= 8 else ()
    broken = ranks - 1 if odd and ranks >= 8 else -1
    facts = []
    for rank in range(ranks):
        if rank in missing:
            continue
        made = _rank(rank, steps, cells, chance, rank == heavy, rank == failed, rank == leak)
        if rank == broken:
            made = replace(made, devices=(), sha256="", error="unexpected end of the pickle")
        facts.append(made)
    return (
        run := Run("llama-70b, pipeline of 4", tuple(facts), (("pp", STAGES),), ranks),
        _findings(run, heavy, failed, leak, missing),
    )


def _rank(
    rank: int,
    steps: int,
    cells: int,
    chance: np.random.Generator,
    heavy: bool,
    failed: bool,
    leak: bool,
) -> RankFacts:
    stage = rank % STAGES
    each = 1000 + int(chance.integers(0, 12)) * 2
    allocated = _curve(steps, each, 3600 + 500 * (stage == 1), leak, chance)
    if heavy:
        allocated *= 10
    if failed:
        allocated = allocated[: len(allocated) * 2 // 5]
    reserved = np.maximum.accumulate(-(-allocated // (20 * MIB)) * 20 * MIB)
    times = START_US + int(chance.integers(0, 400_000)) + np.arange(len(allocated)) * 137
    times += np.repeat(np.arange(-(-len(times) // each)) * 40_000, each)[: len(times)]
    peak = int(allocated.argmax())
    source = f"rank{rank}.pickle"
    name = RankName(rank, host=f"node{rank // 8:03}", coordinates=(("pp", stage),))
    most = int(allocated[peak])
    ooms = FailedRequest(len(allocated) - 1, int(times[-1]), 192 * MIB, SITES[1])
    starts = range(0, len(allocated), each)
    device = DeviceFacts(
        device="cuda:0",
        kind="cuda",
        place=0,
        opens=True,
        recorded=True,
        events=len(allocated),
        capacity=CAPACITY,
        allocated=most,
        allocated_width=0,
        peak_event=peak,
        peak_time_us=int(times[peak]),
        reserved=int(reserved.max()),
        by_event=cells_of(np.arange(len(allocated)), allocated, reserved, cells),
        by_time=cells_of(times, allocated, reserved, cells),
        holders=_holders(most, stage),
        steps=tuple(
            StepPeak(k, int(allocated[at : at + each].max()), int(allocated[at : at + each][-1]))
            for k, at in enumerate(starts)
        ),
        failed=(ooms,) if failed else (),
        findings=(),
    )
    return RankFacts(source, f"rank {rank}", name, 4_180_332, f"{rank:064x}", (device,))


def _curve(
    steps: int, each: int, most_mib: int, leak: bool, chance: np.random.Generator
) -> NDArray[np.int64]:
    """Bytes after each event: up in each forward pass, down in each backward pass."""
    half = each // 2
    up = np.cumsum(chance.integers(1, 16, half) * 512 * 16)
    up = up * ((most_mib - 1600) * MIB // int(up[-1])) // 512 * 512
    step = np.concatenate([up, up[::-1]])
    curve = np.tile(step, steps) + 1600 * MIB
    if leak:
        curve += np.repeat(np.arange(steps) * 48 * MIB, len(step))
    return np.asarray(curve, dtype=np.int64)


def cells_of(
    at: NDArray[np.int64], allocated: NDArray[np.int64], reserved: NDArray[np.int64], most: int
) -> Cells:
    """The most of two curves in cells of an axis, at most about ``most`` of them.

    Args:
        at: the place on the axis of each event, growing.
        allocated: bytes from there on; likewise ``reserved``.
        most: how many cells there may be.
    """
    shift = 0
    while (int(at[-1]) >> shift) - (int(at[0]) >> shift) >= most:
        shift += 1
    cell = at >> shift
    first, count = int(cell[0]), int(cell[-1] - cell[0]) + 1
    edges = np.searchsorted(cell, first + np.arange(count))

    def joined(curve: NDArray[np.int64]) -> NDArray[np.int64]:
        before = curve[np.maximum(edges - 1, 0)]  # holds until the cell's first event
        inside = np.maximum.reduceat(np.append(curve, 0), np.minimum(edges, len(curve)))
        empty = np.append(edges[1:], len(curve)) == edges
        return np.where(empty, before, np.maximum(before, inside))

    return Cells(first, shift, joined(allocated), joined(reserved))


def _holders(most: int, stage: int) -> tuple[Holder, ...]:
    left, holders = most, []
    for k, key in enumerate(SITES[: 5 + stage % 2]):
        size = (24 * MIB, 192 * MIB, 48 * MIB)[k % 3]
        held = left // 3 // size * size
        holders.append(Holder("site", key, held, held // size, size, held // size))
        left -= held
    holders.append(Holder("site", "", left, 40, 512, 8))
    holders += [
        Holder("role", "activation", most // 2, 400, 24 * MIB, 380),
        Holder("role", "parameter", most - most // 2, 200, 48 * MIB, 190),
        Holder("stage", "forward", most, 24, 0, 0),
        Holder("stage", "backward", most - 512, 24, 0, 0),
    ]
    return tuple(holders)


def _findings(
    run: Run, heavy: int, failed: int, leak: int, missing: tuple[int, ...]
) -> RunFindings:
    rows = tuple((at, 0) for at, rank in enumerate(run.ranks) if rank.devices)
    numbers = [run.ranks[at].name.rank for at, _ in rows]
    peaks = [run.ranks[at].devices[0].allocated for at, _ in rows]
    stage_rows = [
        tuple(k for k, number in enumerate(numbers) if (number or 0) % STAGES == stage)
        for stage in range(STAGES)
    ]
    groups = tuple(
        Group(
            f"pipeline stage {stage}",
            members,
            (middle := int(np.median([peaks[k] for k in members]))),
            (Difference("site", SITES[1], middle // 3, middle // 4, 192 * MIB, 12, 192 * MIB, 9),),
            f"Pipeline stage {stage} has {len(members)} ranks with a median peak of"
            f" {middle / 2**30:.2f} GiB.",
        )
        for stage, members in enumerate(stage_rows)
        if members
    )

    def odd(rank: int, code: Literal["heavier", "failed", "growth"], sentence: str) -> list[Odd]:
        if rank < 0 or rank not in numbers:
            return []
        row = numbers.index(rank)
        usual = int(np.median(peaks))
        by = peaks[row] - usual
        most = Difference(
            "site", SITES[1], by + usual // 3, usual // 3, 192 * MIB, 400, 24 * MIB, 9
        )
        role = Difference("role", "activation", by + usual // 2, usual // 2, 0, 0, 0, 0)
        return [Odd(row, code, by, (most, role), 2431, 2, f"Rank {rank} {sentence}.")]

    unlike = (
        *odd(heavy, "heavier", f"peaks far above its group because {SITES[1]} holds more"),
        *odd(failed, "failed", "ran out of memory in step 9: 192 MiB were refused"),
        *odd(leak, "growth", "keeps 48.00 MiB more after each step"),
    )
    headline = " ".join(each.sentence for each in unlike[:2])
    if missing:
        headline += f" Ranks {missing[0]} and {missing[1]} are missing."
    return RunFindings(
        headline=headline or "All ranks behave alike: their peaks differ by less than 1%.",
        rows=rows,
        groups=groups,
        odd=unlike,
        imbalances=(),
        missing=missing,
        broken=tuple(at for at, rank in enumerate(run.ranks) if rank.error),
        first_failure=(numbers.index(failed), 0) if failed in numbers else None,
    )
