"""Who is odd in a made run, and how its ranks vary though they are not."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dev.benchmarks.runs.pattern import Pattern
from snapreport.model.run import Layout, place_in

_NOISE = 0.015
"""Standard deviation of what depends on the data: batches differ by 1 to 2 %."""
_VARYING = 0.5
"""The part of the call sites that depends on the data."""
_HOST = 8
"""Ranks of a host."""

What: TypeAlias = Literal["heavy rank", "heavy stage", "failure", "leak", "missing", "broken"]


@dataclass(frozen=True)
class Planted:
    """One thing that a run is to be found to have."""

    what: What
    ranks: tuple[int, ...]
    group: str = ""
    """``pipeline stage 1``."""
    site: str = ""
    share: float = 0.0
    """Of the peak, by which it rises; of a leak in a step."""
    step: int = 0


@dataclass(frozen=True, eq=False)
class Plan:
    """A run to make."""

    pattern: Pattern
    ranks: int
    seed: int
    layout: Layout
    planted: tuple[Planted, ...]
    noise: float = _NOISE
    factors: dict[tuple[int, int], float] = field(default_factory=dict)
    """By which the sizes of a stage's call site grow: (stage, site)."""

    def place(self, rank: int) -> dict[str, int]:
        """Return a rank's coordinates in the layout."""
        return dict(place_in(self.layout, rank))

    def of(self, what: What, rank: int) -> Planted | None:
        """Return what was planted on a rank."""
        return next((p for p in self.planted if p.what == what and rank in p.ranks), None)

    def truth(self) -> dict[str, Any]:
        """Return what was planted, as JSON has it."""
        return {
            "ranks": self.ranks,
            "seed": self.seed,
            "layout": dict(self.layout),
            "planted": [asdict(each) for each in self.planted],
        }

    def host(self, rank: int) -> str:
        """Return the host of a rank."""
        return f"node{rank // _HOST:03}"


def usual_layout(ranks: int) -> Layout:
    """Return a layout as Megatron-LM orders it: tensor, data, pipeline."""
    tensor = min(8, max(ranks // 8, 1))
    stages = min(8, max(ranks // (4 * tensor), 1))
    return (("tp", tensor), ("dp", ranks // tensor // stages), ("pp", stages))


def make_plan(
    pattern: Pattern,
    ranks: int,
    seed: int,
    layout: Layout | None = None,
    noise: float = _NOISE,
    healthy: bool = False,
) -> Plan:
    """Draw a run: what differs by design, and what is planted unless it is to be healthy.

    The first and the last pipeline stage hold more than the others, at a call site each.
    """
    random = np.random.default_rng([seed, ranks])
    layout = usual_layout(ranks) if layout is None else layout
    stages = dict(layout).get("pp", 1)
    held = held_at_peak(pattern)
    shares = held / held.sum()
    steady = np.bincount(pattern.site[pattern.kept], minlength=len(pattern.sites)) > 0
    large = [int(k) for k in np.argsort(-shares) if shares[k] >= 0.04 and pattern.stacks[k]]
    moving = [k for k in large if not steady[k]] or large
    factors: dict[tuple[int, int], float] = {}

    def grow(stage: int, site: int, by: float) -> None:
        factors[stage, site] = 1 + by / float(shares[site])

    stage, site = int(random.integers(1, max(stages - 1, 2))), int(random.choice(moving))
    others = [k for k in large if k != site] or large
    if stages > 1:
        grow(0, others[-1], float(random.uniform(0.0, 0.15)))
        grow(stages - 1, others[len(others) // 2], float(random.uniform(0.0, 0.15)))
    planted: list[Planted] = []
    if healthy:
        return Plan(pattern, ranks, seed, layout, (), noise, factors)
    drawn = [int(k) for k in random.permutation(ranks)]
    # The last ranks are not missing: without a layout nobody could tell.
    if stages > 2:
        by = float(random.uniform(0.08, 0.25))
        grow(stage, site, by)
        members = tuple(r for r in range(ranks) if _stage(r, layout) == stage)
        planted.append(
            Planted("heavy stage", members, f"pipeline stage {stage}", pattern.sites[site], by)
        )
    for _ in range(3):
        rank = drawn.pop()
        site, by = int(random.choice(moving)), float(random.uniform(0.09, 0.35))
        planted.append(
            _at(rank, layout, Planted("heavy rank", (rank,), "", pattern.sites[site], by))
        )
    rank = drawn.pop()
    site = int(random.choice(large))
    step = int(random.integers(1, max(pattern.steps - 2, 2)))
    planted.append(
        _at(rank, layout, Planted("failure", (rank,), "", pattern.sites[site], 0.0, step))
    )
    rank, by = drawn.pop(), float(random.uniform(0.006, 0.02))
    planted.append(
        _at(
            rank, layout, Planted("leak", (rank,), "", pattern.sites[int(random.choice(large))], by)
        )
    )
    missing = tuple(sorted((drawn.pop(), drawn.pop())))
    planted += [Planted("missing", missing), Planted("broken", (drawn.pop(),))]
    return Plan(pattern, ranks, seed, layout, tuple(planted), noise, factors)


def _at(rank: int, layout: Layout, planted: Planted) -> Planted:
    group = f"pipeline stage {_stage(rank, layout)}" if dict(layout).get("pp", 1) > 1 else ""
    return Planted(**(asdict(planted) | {"group": group}))


def _stage(rank: int, layout: Layout) -> int:
    return dict(place_in(layout, rank)).get("pp", 0)


@dataclass(frozen=True, eq=False)
class Varied:
    """What one rank does: the pattern with sizes and times of its own, and what was planted."""

    size: NDArray[np.int64]
    site: NDArray[np.int64]
    kept: NDArray[np.bool_]
    baseline: NDArray[np.int64]
    """Allocations from before the recording."""
    turn_of: NDArray[np.int64]
    turn_sign: NDArray[np.int64]
    turn_step: NDArray[np.int64]
    time_us: NDArray[np.int64]
    """Of each turn, since 1970."""
    failed: int | None
    """The bytes of the request that fails after the last turn."""
    failed_site: int


START_US = 1_763_900_000_000_000


def vary(plan: Plan, rank: int) -> Varied:
    """Return what a rank of a run does; equal arguments give equal ranks."""
    pattern, place = plan.pattern, plan.place(rank)
    own = np.random.default_rng([plan.seed, 1, rank])
    size = np.rint(pattern.size * _factors(plan, rank, place)).astype(np.int64)
    size = np.maximum(size, 1)
    site, kept = pattern.site, pattern.kept
    of, sign, step, gap = (
        pattern.turn_of,
        pattern.turn_sign,
        pattern.turn_step,
        np.rint(pattern.turn_gap_us * own.uniform(0.8, 1.2, len(pattern.turn_of))).astype(np.int64),
    )
    peak = int(held_at_peak(pattern).sum())
    extra: list[tuple[int, int, int, int, bool]] = []  # before turn, bytes, site, step, kept
    starts = np.searchsorted(step, np.arange(pattern.steps + 1))
    smallest = int(site[int(size.argmin())])
    extra += [  # what is logged, or checked, now and then
        (int(starts[each]), int(own.integers(1, 5)) * 512, smallest, each, False)
        for each in range(pattern.steps)
        for _ in range(int(own.integers(0, 3)))
    ]
    leak = plan.of("leak", rank)
    if leak is not None:
        at = pattern.sites.index(leak.site)
        held = round(leak.share * peak)
        extra += [(int(starts[k + 1]), held, at, k, True) for k in range(pattern.steps)]
    for before, held, where, when, stays in sorted(
        extra, key=lambda each: (each[0], each[3]), reverse=True
    ):
        number = len(size)
        size, site = np.append(size, held), np.append(site, where)
        kept = np.append(kept, stays)
        signs = [1] if stays else [1, -1]
        of = np.insert(of, before, [number] * len(signs))
        sign = np.insert(sign, before, signs)
        step = np.insert(step, before, [when] * len(signs))
        gap = np.insert(gap, before, [3] * len(signs))
    begin = START_US + int(own.integers(0, 200_000)) + 1000 * int(place.get("pp", 0))
    time = begin + np.cumsum(gap) + step * 2000
    failure = plan.of("failure", rank)
    failed, failed_site = None, 0
    if failure is not None:
        inside = np.flatnonzero(step == failure.step)
        until = int(inside[0]) + int(len(inside) * own.uniform(0.2, 0.8))
        of, sign, step, time = of[:until], sign[:until], step[:until], time[:until]
        failed_site = pattern.sites.index(failure.site)
        failed = int(pattern.size[pattern.site == failed_site].max())
    return Varied(
        size,
        site,
        kept,
        np.flatnonzero(pattern.step < 0),
        of,
        sign,
        step,
        time,
        failed,
        failed_site,
    )


def _factors(plan: Plan, rank: int, place: dict[str, int]) -> NDArray[np.float64]:
    """Return by what each allocation's size is multiplied; what is kept is equal on all."""
    pattern = plan.pattern
    by_site = np.ones(len(pattern.sites))
    for (stage, site), factor in plan.factors.items():
        if stage == place.get("pp", 0):
            by_site[site] *= factor
    heavy = plan.of("heavy rank", rank)
    if heavy is not None:
        held = held_at_peak(pattern)
        at = pattern.sites.index(heavy.site)
        by_site[at] += heavy.share * float(held.sum()) / float(held[at])
    some = np.random.default_rng([plan.seed, 2]).random(len(pattern.sites)) < _VARYING
    # Ranks of one replica see the same data, each step other data.
    data = np.random.default_rng([plan.seed, 3, place.get("dp", rank)])
    noise = 1 + plan.noise * data.standard_normal(pattern.steps)
    factors = by_site[pattern.site]
    depends = some[pattern.site] & ~pattern.kept
    factors[depends] *= noise[pattern.step[depends]]
    found: NDArray[np.float64] = factors
    return found


def held_at_peak(pattern: Pattern) -> NDArray[np.float64]:
    """Return what each site holds at the pattern's peak, in bytes."""
    blocks = -(-pattern.size // 512) * 512
    live = pattern.step < 0
    curve = blocks[live].sum() + np.cumsum(pattern.turn_sign * blocks[pattern.turn_of])
    peak = int(curve.argmax())
    live = live.astype(np.int64)
    np.add.at(live, pattern.turn_of[: peak + 1], pattern.turn_sign[: peak + 1])
    return np.bincount(pattern.site, blocks * live, len(pattern.sites)).astype(np.float64)
