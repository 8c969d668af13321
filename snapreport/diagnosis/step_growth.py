"""Find growth from turn to turn: what each call site has live between turns of the outer loop."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.block_room import freed_by
from snapreport.figures.callsites import label_sites
from snapreport.ground.native.columns import (
    distinct,
    is_among,
    median,
    stable_order,
    sum_live,
    unique,
)
from snapreport.model.diagnoses import Frees
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import START, History
from snapreport.model.roles import Iterations
from snapreport.roles.stack_kinds import HAS_FRAMES

# How memory grows from turn to turn of a program's outer loop, by call site.


GrowthKind = Literal["leak", "buffer", "freed-later", "settled"]
"""``leak``: ever more allocations, never freed; ``buffer``: as many as before, but ever larger;
``freed-later``: grew, and was freed after the last turn; ``settled``: grew, then stopped."""


@dataclass(frozen=True, eq=False)
class SiteGrowth:
    """What one call site has live at the bounds of the turns, in allocated bytes."""

    kind: GrowthKind
    row: int
    """An allocation of the site, to name it by."""
    since: int
    """The turn in which the growth began, counted from 0."""
    turns: int
    """How many turns it was watched, from ``since`` on."""
    growing: int
    """In how many of those it grew."""
    first: int
    """Bytes live as the growth began."""
    last: int
    """Bytes live after the last turn."""
    per_step: int
    """Block bytes added in a turn."""
    requested_per_step: int
    count_per_step: float
    """Allocations added in a turn."""

    @property
    def grown(self) -> int:
        """Bytes added in all."""
        return self.last - self.first


@dataclass(frozen=True, eq=False)
class HeldOver:
    """Memory made in one turn and freed in one of the next."""

    rows: NDArray[np.int64]
    """The allocations; int64."""
    typical: int
    """Bytes of it that are live as a turn ends: the median."""
    frees: Frees
    """How far the allocated peak of the turns after the first would fall, had all of this memory
    been freed as its turn ended."""


@dataclass(frozen=True, eq=False)
class StepGrowth:
    """Everything that outlives the turn in which it was made."""

    sites: tuple[SiteGrowth, ...]
    """The fastest first, in each kind."""
    held_over: HeldOver

    def of(self, kind: GrowthKind) -> tuple[SiteGrowth, ...]:
        """Return the sites of one kind."""
        return tuple(site for site in self.sites if site.kind == kind)


# Find memory made in one turn of the program's outer loop and freed only in a later one.


_SOON = 2
"""Memory freed within this many turns after its own is held over, not kept."""
_AGAIN = 0.5
"""A call site counts if its memory is held over in at least this part of the turns."""
_OWN = ("parameter", "optimizer state", "optimizer", "gradient")
"""Categories that are meant to outlive a step."""
_GRADIENTS = ("backward",)
"""Categories that may hide gradients: the engine's own threads make them without Python frames."""


def is_own(
    device: DeviceFigures, rows: NDArray[np.int64], names: tuple[str, ...] = _OWN
) -> NDArray[np.bool_]:
    """Say for some allocations whether they are meant to outlive a step; shape (n,)."""
    own = [i for i, category in enumerate(device.categories) if category.name in names]
    return is_among(device.category[rows], own)


def bounds_until(bounds: NDArray[np.int64], events: int) -> NDArray[np.int64]:
    """Count the bounds up to each event, so that no row has to search for its own.

    Args:
        bounds: int64, ascending, none before START or after ``events``.
        events: how many events there are.

    Returns:
        int64, shape (events + 2,): for START, each event, and the one after the last.
    """
    lengths = np.diff(bounds, prepend=START, append=events + 1)
    return np.repeat(np.arange(len(bounds) + 1), lengths)


def find_held_over(
    tables: History,
    device: DeviceFigures,
    bounds: NDArray[np.int64],
    number: NDArray[np.int64],
    growing: NDArray[np.int64],
) -> HeldOver:
    """Find what was made in a turn and is freed soon after it.

    Args:
        bounds: of the turns.
        number: each allocation's call site.
        growing: the call sites that grow, which have findings of their own.
    """
    history = device.history
    rows = history.allocations
    until = bounds_until(bounds, history.events)
    enter, leave = until[rows.alloc_event - START], until[rows.free_requested_event - START]
    soon = (leave > enter) & (leave - enter <= _SOON) & (rows.alloc_event > START)
    # What is still live at the last bound may live on: its end is not known.
    soon &= rows.free_requested_event < history.events
    soon &= device.missing == HAS_FRAMES  # without frames it may be a gradient
    chosen = np.flatnonzero(soon)
    chosen = chosen[~is_own(device, chosen, _OWN + _GRADIENTS)]
    # The last items of a growing list are also freed soon after their turns.
    chosen = chosen[~is_among(number[chosen], growing)]
    sites = number[chosen]
    pairs = unique(sites * (len(bounds) + 1) + enter[chosen]) // (len(bounds) + 1)
    often = np.bincount(pairs) >= _AGAIN * (len(bounds) - 1) if len(chosen) else sites
    chosen = chosen[often[sites]] if len(chosen) else chosen
    if not len(chosen):
        return HeldOver(chosen, 0, Frees.exactly(0))
    held = sum_live(rows.block_size[chosen], enter[chosen] - 1, leave[chosen] - 1, len(bounds) - 1)
    # Without the first turn: nothing is held over into it.
    later = slice(int(bounds[1]), int(bounds[-1]) + 1)
    frees = freed_by(tables, history, chosen, bounds[enter[chosen]] - 1, within=later)
    typical = int(median(held[2:])) if len(held) > 2 else 0
    return HeldOver(chosen, typical, frees)


WARM_UP = 2
"""The first turns are not judged: the first makes optimizer state and caches, and the second still
holds the last results of the first."""
FEWEST, FEWEST_EVEN = 4, 3
"""At least this many turns after those must grow; the second if all add exactly the same bytes."""
_DENSE = 0.8
"""A leak grows in at least this part of the turns, from its first to the last. Not in all: at equal
times the last allocation of one turn may count to the next."""
_SPARSE = 5
"""A leak that only grows now and then (every tenth step, say) must do so this often, evenly."""
_EVEN = 1.5
"""Distances are even if none is longer than this times the median."""
_UNDONE = 0.1
"""Memory that shrinks in some turns by more than this part of its growth is in use, not lost."""
_LIKE = 2
"""Growth in the first turns counts, too, unless it is larger than this times what follows: the
site may have made other things then."""
_SURVIVES = 0.9
"""Growth is kept if at least this part of it is still live at the end of the recording."""
_REPLACES = 0.5
"""Growth is none if in at least this part of the growing turns memory of the same size from before
the recording was freed: a buffer of the latest results, whose old entries have no stack."""
_SETTLED = 0.25
"""Growth has stopped if none came in this last part of the turns, at least ``FEWEST_EVEN``."""
_MOST_BOUNDS = 512
"""If there are more turns than this, evenly spaced ones are sampled."""
"""Memory that grew in one of this many last turns still grows."""


def find_step_growth(tables: History, device: DeviceFigures, turns: Iterations) -> StepGrowth:
    """Find the memory that outlives its turn: sites that grow, and what is held over.

    Args:
        turns: of the program.
    """
    bounds, stride = _thinned(turns.bounds)
    rows = device.history.allocations
    until = bounds_until(bounds, device.history.events)
    enter, leave = until[rows.alloc_event - START], until[rows.free_requested_event - START]
    crossing = np.flatnonzero(leave > enter)
    number = label_sites(device.history, tables.stacks)[0]
    key = number[crossing]
    live = _Live(device, bounds, stride, crossing, enter[crossing], leave[crossing])
    sites = []
    if len(bounds) > WARM_UP + FEWEST_EVEN:
        gone = _freed_from_before(live)
        # Sorted once for all sites: in a program that keeps its graphs every site of a model grows.
        order = stable_order(key)
        ordered = key[order]
        for site in _that_grew(live, key):
            low, high = np.searchsorted(ordered, [site, site + 1]).tolist()
            found = _judge(live.part(order[low:high]), gone)
            if found is not None:
                sites.append(found)
    sites.sort(key=lambda site: -site.per_step)
    growing = np.array([site.row for site in sites], np.int64)
    held_over = find_held_over(tables, device, turns.bounds, number, number[growing])
    return StepGrowth(tuple(sites), held_over)


@dataclass(frozen=True, eq=False)
class _Live:
    """The allocations that are live at some bound, with their first and last."""

    device: DeviceFigures
    bounds: NDArray[np.int64]
    stride: int
    """Turns from bound to bound."""
    rows: NDArray[np.int64]
    enter: NDArray[np.int64]
    """The first bound at which each is live."""
    leave: NDArray[np.int64]
    """The first bound after its free; ``len(bounds)`` if there is none."""

    def part(self, places: NDArray[np.int64]) -> _Live:
        """Return some of the allocations, by their places in ``rows``."""
        return replace(
            self, rows=self.rows[places], enter=self.enter[places], leave=self.leave[places]
        )

    def series(self, weight: NDArray[np.int64]) -> NDArray[np.int64]:
        """Add up what is live at each bound; int64, shape (n_bounds,).

        Args:
            weight: int64, shape (n_rows,): of each of ``rows``.
        """
        return sum_live(weight, self.enter - 1, self.leave - 1, len(self.bounds) - 1)


def _thinned(bounds: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Return at most ``_MOST_BOUNDS`` evenly spaced bounds, including the last, and the stride."""
    stride = -(-len(bounds) // _MOST_BOUNDS)
    kept: NDArray[np.int64] = bounds[(len(bounds) - 1) % stride :: stride]
    return kept, stride


def _that_grew(live: _Live, key: NDArray[np.int64]) -> list[int]:
    """Return the sites that have more live at the last bound than after the first turn."""
    sites, place = distinct(key)
    size = live.device.history.allocations.block_size[live.rows]
    last = len(live.bounds) - 1
    growth = np.zeros(len(sites), np.int64)
    for bound, sign in ((1, -1), (last, 1)):
        there = (live.enter <= bound) & (bound < live.leave)
        np.add.at(growth, place[there], sign * size[there])
    grew: list[int] = sites[growth > 0].tolist()
    return grew


def _judge(live: _Live, gone: _Freed) -> SiteGrowth | None:
    """Return how one site grows, None if it does not, from its allocations that cross a bound.

    Args:
        live: the allocations of this site.
        gone: the freed memory from before the recording.
    """
    rows = live.device.history.allocations
    held = live.series(rows.block_size[live.rows])
    change = np.diff(held)
    kept = live.rows[(live.enter > 1) & (live.leave == len(live.bounds))]
    since = _grows_since(change)
    if since is None:
        made = _kept_by_turn(live, kept)
        # The last turn may be cut short, before the site allocated anything.
        last = bool(made[-1])
        since = _grows_since(made if last else made[:-1], _SOON if last else _SOON - 1)
        if since is not None and _is_window(live, made, since):
            since = None
    kind: GrowthKind = "leak"
    if since is None:
        since = None if is_own(live.device, live.rows[-1:])[0] else _settled_since(change)
        kind = "settled"
    if since is None:
        return None
    while since and 0 < change[since - 1] <= _LIKE * change[since:].max():
        since -= 1  # count the growth in the warm-up turns, too
    n = len(change) - since
    added = live.rows[(live.enter > since) & (live.leave == len(live.bounds))]
    count = live.series(np.ones(len(live.rows), np.int64))
    requested = live.series(rows.size[live.rows])
    more = int(count[-1] - count[since])
    growing = int((change[since:] > 0).sum())
    if kind == "leak":
        if 2 * more < growing and _grew_larger(held, count, since):
            kind = "buffer"
        elif not _survives(live, added):
            kind = "freed-later"
        elif _is_replaced(live, added, gone, since, growing) or _grew_before(live, added, since):
            return None
    rates: tuple[float, float, float]
    rates = (_rate(held[since:]), _rate(requested[since:]), more / n)
    if kind == "leak":
        turn = _turn_of(live, added)
        ones = np.ones(len(added), np.int64)
        rates = (
            _typical(turn, rows.block_size[added], n),
            _typical(turn, rows.size[added], n),
            _typical(turn, ones, n),
        )
    return SiteGrowth(
        kind=kind,
        row=int(added[0]) if len(added) else int(live.rows[-1]),
        since=since * live.stride,
        turns=n * live.stride,
        growing=growing * live.stride,
        first=int(held[since]),
        last=int(held[-1]),
        per_step=int(rates[0] / live.stride),
        requested_per_step=int(rates[1] / live.stride),
        count_per_step=rates[2] / live.stride,
    )


def _kept_by_turn(live: _Live, kept: NDArray[np.int64]) -> NDArray[np.int64]:
    """Add up what is still live after the last turn, by the turn that made it; int64, (n_turns,).

    This finds growth even if bounds fall now before, now after what is made between two turns.
    """
    made = np.zeros(len(live.bounds) - 1, np.int64)
    if len(kept):
        turn = np.clip(_turn_of(live, kept), 0, len(made) - 1)
        np.add.at(made, turn, live.device.history.allocations.block_size[kept])
    return made


def _grew_larger(held: NDArray[np.int64], count: NDArray[np.int64], since: int) -> bool:
    """Whether most of the growth is in larger allocations, not in more of them.

    Args:
        held: int64, shape (n_bounds,), bytes live at each bound.
        count: int64, shape (n_bounds,), allocations live at each bound.
        since: the turn in which growth begins.
    """
    there = since + int((count[since:] > 0).argmax())
    if there == len(count) - 1:
        return False
    as_before = int(held[there]) * int(count[-1]) // max(int(count[there]), 1)
    return 2 * (int(held[-1]) - as_before) > int(held[-1] - held[since])


def _is_window(live: _Live, made: NDArray[np.int64], since: int) -> bool:
    """Whether a site keeps a window: its last few allocations, dropping one for each new one.

    All that a window holds in the end was made in the last turns, as if it had grown in them.
    Memory that only lives into the next turn or two is not part of a window.

    Args:
        live: the allocations of a site.
        made: int64, shape (n_turns,): kept bytes, by the turn that made them.
        since: the turn in which growth seems to begin.
    """
    dropped = _lasted(live, since) & (live.leave > since)
    size = live.device.history.allocations.block_size[live.rows[dropped]]
    return int(size.sum()) > _UNDONE * int(made[since:].sum())


def _grew_before(live: _Live, added: NDArray[np.int64], since: int) -> bool:
    """Whether a site grew over some turns once before, and then dropped what it had made.

    That is data collected over some turns and then used, such as an agent's experience.
    """
    size = live.device.history.allocations.block_size
    dropped = _lasted(live, since)
    if len(unique(live.enter[dropped])) < FEWEST_EVEN:
        return False
    return int(size[live.rows[dropped]].sum()) >= _REPLACES * int(size[added].sum())


def _lasted(live: _Live, since: int) -> NDArray[np.bool_]:
    """Say which were made after the first turn and before ``since``, kept for turns, and freed."""
    freed = (live.enter > 1) & (live.enter <= since) & (live.leave < len(live.bounds))
    return freed & (live.leave - live.enter > _SOON)


def _survives(live: _Live, added: NDArray[np.int64]) -> bool:
    """Whether most of what was added is still live at the end of the recording."""
    rows = live.device.history.allocations
    size = rows.block_size[added]
    kept = rows.free_requested_event[added] == live.device.history.events
    return int(size[kept].sum()) >= _SURVIVES * int(size.sum())


def _grows_since(change: NDArray[np.int64], soon: int = _SOON) -> int | None:
    """Return the turn from which a site grows to the end, None if it does not.

    Args:
        change: int64, shape (n_turns,), bytes that each turn adds.
        soon: how many turns before the end the last growth may be.
    """
    grows = np.flatnonzero(change[WARM_UP:] > 0) + WARM_UP
    if len(grows) < FEWEST_EVEN:
        return None
    n = len(change)
    # From each growing turn to the end: how many turns grow, and how many there are.
    left = np.arange(len(grows), 0, -1)
    span = n - grows
    tail = n - int(grows[-1])
    dense = np.flatnonzero(left >= _DENSE * span)
    enough = False
    if len(dense) and tail <= soon:
        since = int(grows[dense[0]])
        alike = bool((change[since:] == change[since]).all())
        enough = int(left[dense[0]]) >= (FEWEST_EVEN if alike else FEWEST)
    # A dense run of only the last turn says nothing: see whether it grows now and then.
    if not enough:
        distance = np.diff(grows)
        since = int(grows[0])
        enough = len(grows) >= _SPARSE and max(int(distance.max()), tail) <= _EVEN * float(
            median(distance)
        )
    rest = change[since:]
    undone = -int(rest[rest < 0].sum()) > _UNDONE * int(rest[rest > 0].sum())
    return since if enough and not undone else None


def _settled_since(change: NDArray[np.int64]) -> int | None:
    """Return the turn in which growth began that has since stopped, None if it goes on."""
    quiet = max(int(_SETTLED * len(change)), FEWEST_EVEN)
    if len(change) <= quiet + 1:
        return None
    before, after = change[1:-quiet], change[-quiet:]
    grows = np.flatnonzero(before > 0)
    if not len(grows) or after.any():
        return None
    grown = int(before[before > 0].sum())
    return None if -int(before[before < 0].sum()) > _UNDONE * grown else int(grows[0]) + 1


def _rate(held: NDArray[np.int64]) -> int:
    """Return the growth from bound to bound, in bytes.

    It is the mean, or the median if a single jump makes most of the growth.
    """
    change = np.diff(held)
    total = int(held[-1] - held[0])
    middle = int(median(change))
    return middle if middle > 0 and 2 * int(change.max()) > total else total // len(change)


def _turn_of(live: _Live, added: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the turn in which each of some allocations was made, -1 at the least.

    Allocations made where one turn ends and the next begins may fall now before the bound, now
    after it. So turns are split where no such allocation is near: in the middle of the widest gap
    between their positions within a turn.
    """
    event = live.device.history.allocations.alloc_event[added]
    bounds = live.bounds.astype(np.float64)
    place = np.interp(event, bounds, np.arange(len(bounds)))
    phase = np.sort(place % 1)
    gaps = np.diff(np.append(phase, phase[0] + 1))
    widest = int(gaps.argmax())
    cut = (phase[widest] + gaps[widest] / 2) % 1
    turn: NDArray[np.int64] = np.floor(place - cut).astype(np.int64)
    return turn


def _typical(turn: NDArray[np.int64], weight: NDArray[np.int64], turns: int) -> float:
    """Return the typical sum of weights in a turn: what half of the turns agree on, or the mean."""
    sums = np.bincount(turn - turn.min(), weights=weight)
    middle = median(sums)
    if middle > 0 and 2 * int((sums == middle).sum()) >= len(sums):
        return middle
    some = np.flatnonzero(sums)
    if len(some) > 1 and 2 * len(some) <= len(sums):
        # Growth now and then: all but the first, divided by the turns since the first.
        return float(sums[some[1:]].sum()) / int(some[-1] - some[0])
    return float(sums.sum()) / max(turns, len(sums))


@dataclass(frozen=True, eq=False)
class _Freed:
    """Memory from before the recording that was freed by the last bound; shape (n,)."""

    size: NDArray[np.int64]
    """As requested, ascending."""
    turn: NDArray[np.int64]
    """How many bounds come before its free."""


def _freed_from_before(live: _Live) -> _Freed:
    rows = live.device.history.allocations
    freed = np.flatnonzero(
        (rows.alloc_event == START) & (rows.free_requested_event < live.bounds[-1])
    )
    freed = freed[stable_order(rows.size[freed])]
    turn = np.searchsorted(live.bounds, rows.free_requested_event[freed], side="right")
    return _Freed(rows.size[freed], turn)


def _is_replaced(
    live: _Live, added: NDArray[np.int64], gone: _Freed, since: int, growing: int
) -> bool:
    """Whether allocations of these sizes from before the recording are freed as fast as added."""
    sizes = unique(live.device.history.allocations.size[added])
    low, high = (np.searchsorted(gone.size, sizes, side=side) for side in ("left", "right"))
    turns = [gone.turn[first:last] for first, last in zip(low, high, strict=True) if first < last]
    if not turns:
        return False
    found = unique(np.concatenate(turns))
    return int((found > since).sum()) >= _REPLACES * growing
