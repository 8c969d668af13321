"""Memory that grows from step to step: leaks, and what only looks like one.

Each call site is measured between the turns of the program's outer loop. It leaks if what it has
live there grows to the end, in nearly every turn or evenly now and then, and none of it is freed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.finding_tables import site_table, top_table
from snapreport.diagnosis.given_back import find_captures
from snapreport.diagnosis.unreleased import (
    MIB,
    SOON,
    VISIBLE,
    find_held_over,
    find_unreleased,
    is_own,
    kept_by_calls,
    kept_graphs,
    step_figures,
    trains,
)
from snapreport.figures.callsites import label_sites, name_sites, short_site
from snapreport.ground.later import expression
from snapreport.ground.native.columns import (
    count_until,
    distinct,
    is_among,
    median,
    stable_order,
    sum_live,
    unique,
)
from snapreport.ground.records import dataclass
from snapreport.ground.units import format_bytes, format_count
from snapreport.model.diagnoses import Figure, Finding, Severity, Suggestion, Table, View
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import START, History
from snapreport.model.roles import Iterations
from snapreport.roles.steps import find_iterations

_CAPTURES = 0.8
"""In at least this part of the turns a graph is captured if the turns are captures."""
_SEPARATE = 3
"""Up to this many leaking call sites get a finding each; more mostly have one cause, such as a
graph that is kept."""


def find_growth(tables: History, device: DeviceFigures) -> Iterator[Finding]:
    """Yield the findings about memory that grows or outlives its step."""
    if not device.recorded:
        return
    yield from _optimizer_state(tables, device)
    turns = find_iterations(device.history, tables)
    yield from find_unreleased(tables, device, turns)
    kept = kept_by_calls(tables, device)
    if kept is not None:
        yield kept_graphs(tables, device, *kept)
    if turns is None:
        return
    number = label_sites(device.history, tables.stacks)[0]
    sites = find_step_growth(device, turns, number)
    growing = number[[site.row for site in sites]]
    if kept is not None:  # nothing is said twice
        stack = device.history.allocations.stack
        told = set(stack[kept[1].rows].tolist())
        sites = [site for site in sites if int(stack[site.row]) not in told]
    say = _Words(tables, device, turns)
    leaks = [site for site in sites if site.kind == "leak"]
    if _captures_in_each(tables, device, turns):
        if found := say.visible(leaks):
            yield say.captured(found)
        leaks = []
    caches = [site for site in leaks if say.is_key_value_cache(site)]
    leaks = [site for site in leaks if site not in caches]
    for some in [[site] for site in leaks] if len(leaks) <= _SEPARATE else [leaks]:
        yield say.leak(some)
    for site in caches:
        yield say.key_value_cache(site)
    for kind in _NO_LEAK:
        if found := say.visible([site for site in sites if site.kind == kind]):
            yield say.grown(kind, found)
    yield from find_held_over(tables, device, turns, number, growing)


def _captures_in_each(tables: History, device: DeviceFigures, turns: Iterations) -> bool:
    """Whether the turns capture CUDA graphs: what a graph needs then stays as long as it does."""
    captures = find_captures(tables, device)
    place = np.searchsorted(turns.bounds, captures, side="right")
    inside = (place > 0) & (place <= len(turns))
    return len(unique(place[inside])) >= _CAPTURES * len(turns)


def _optimizer_state(tables: History, device: DeviceFigures) -> Iterator[Finding]:
    """Say that state made by an optimizer's first step is not a leak."""
    history, rows = device.history, device.history.allocations
    state = [i for i, each in enumerate(device.categories) if each.name == "optimizer state"]
    kept = (rows.alloc_event >= 0) & (rows.free_requested_event == history.events)
    chosen = np.flatnonzero(kept & is_among(device.category, state))
    held = int(rows.block_size[chosen].sum())
    if held < max(VISIBLE * device.peak.allocated, MIB):
        return
    first, last = int(rows.alloc_event[chosen].min()), int(rows.alloc_event[chosen].max())
    yield Finding(
        "optimizer-state",
        "note",
        f"{format_bytes(held)} of optimizer state was made during the recording and is kept:"
        " no leak",
        "An optimizer such as Adam makes its state when it is first used, and keeps it for the rest"
        " of the run. So memory rises once, in the first step, and stays higher.",
        evidence=(
            Figure("optimizer state kept", held),
            Figure("allocations", len(chosen), "count"),
            Figure("made from event", first, "event"),
            Figure("to event", last, "event"),
        ),
        tables=(site_table(tables, history, chosen, "Where it was made"),),
        view=View("stacks", event=last, curve="allocated", between=(first - 1, last)),
        bytes=held,
    )


# What grows, by call site.


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
    """How many block bytes each turn adds."""
    requested_per_step: int
    count_per_step: float
    """How many allocations each turn adds."""

    @property
    def grown(self) -> int:
        """Bytes added in all."""
        return self.last - self.first


WARM_UP = 2
"""The first turns are not judged: the first makes optimizer state and caches, and the second still
holds the last results of the first."""
FEWEST, FEWEST_EVEN = 4, 3
"""At least this many turns after those must grow; the second if all add exactly the same bytes."""
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
"""If there are more turns than this, evenly spaced ones are sampled, the last among them."""


def find_step_growth(
    device: DeviceFigures, turns: Iterations, number: NDArray[np.int64]
) -> list[SiteGrowth]:
    """Find the call sites that grow, the fastest first.

    Args:
        turns: of the program.
        number: each allocation's call site; int64, shape (n_allocations,).
    """
    stride = -(-len(turns.bounds) // _MOST_BOUNDS)
    bounds = turns.bounds[(len(turns.bounds) - 1) % stride :: stride]
    if len(bounds) <= WARM_UP + FEWEST_EVEN:
        return []
    rows = device.history.allocations
    until = count_until(bounds, device.history.events)
    enter, leave = until[rows.alloc_event - START], until[rows.free_requested_event - START]
    crossing = np.flatnonzero(leave > enter)
    span = (column[crossing].astype(np.int64) for column in (enter, leave))
    live = _Live(device, bounds, stride, crossing, *span)
    gone = _freed_from_before(live)
    # Sorted once for all sites: in a program that keeps its graphs every site of a model grows.
    order = stable_order(number[crossing])
    ordered = number[crossing[order]]
    sites = []
    for site in _that_grew(live, number[crossing]):
        low, high = np.searchsorted(ordered, [site, site + 1]).tolist()
        found = _judge(live.part(order[low:high]), gone)
        if found is not None:
            sites.append(found)
    return sorted(sites, key=lambda site: -site.per_step)


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
        since = _grows_since(made if last else made[:-1], SOON if last else SOON - 1)
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
    stays = rows.free_requested_event[added] == live.device.history.events
    count = live.series(np.ones(len(live.rows), np.int64))
    requested = live.series(rows.size[live.rows])
    more = int(count[-1] - count[since])
    growing = int((change[since:] > 0).sum())
    if kind == "leak":
        if 2 * more < growing and _grew_larger(held, count, since):
            kind = "buffer"
        elif int(rows.block_size[added[stays]].sum()) < _SURVIVES * int(
            rows.block_size[added].sum()
        ):
            kind = "freed-later"
        elif _is_replaced(live, added, gone, since, growing) or _grew_before(live, added, since):
            return None
    rates = [(held[-1] - held[since]) / n, (requested[-1] - requested[since]) / n, more / n]
    if kind == "leak":
        turn, ones = _turn_of(live, added), np.ones(len(added), np.int64)
        rates = [_typical(turn, each[added], n) for each in (rows.block_size, rows.size)]
        rates.append(_typical(turn, ones, n))
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


def _grows_since(change: NDArray[np.int64], soon: int = SOON) -> int | None:
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


def _kept_by_turn(live: _Live, kept: NDArray[np.int64]) -> NDArray[np.int64]:
    """Add up what is still live after the last turn, by the turn that made it; int64, (n_turns,).

    This finds growth even if bounds fall now before, now after what is made between two turns.
    """
    made = np.zeros(len(live.bounds) - 1, np.int64)
    if len(kept):
        turn = np.clip(_turn_of(live, kept), 0, len(made) - 1)
        np.add.at(made, turn, live.device.history.allocations.block_size[kept])
    return made


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


def _lasted(live: _Live, since: int) -> NDArray[np.bool_]:
    """Say which were made after the first turn and before ``since``, kept for turns, and freed."""
    freed = (live.enter > 1) & (live.enter <= since) & (live.leave < len(live.bounds))
    return freed & (live.leave - live.enter > SOON)


def _grew_before(live: _Live, added: NDArray[np.int64], since: int) -> bool:
    """Whether a site grew over some turns once before, and then dropped what it had made.

    That is data collected over some turns and then used, such as an agent's experience.
    """
    size = live.device.history.allocations.block_size
    dropped = _lasted(live, since)
    if len(unique(live.enter[dropped])) < FEWEST_EVEN:
        return False
    return int(size[live.rows[dropped]].sum()) >= _REPLACES * int(size[added].sum())


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


# What is said of it.


MANY = 1000
"""Steps over which growth is extrapolated: what a short run does before lunch."""
_MATTERS = 0.01
"""Growth is worth a warning if MANY steps would add more than this part of the peak: less is a list
of numbers that somebody keeps, and fails no run."""
_LEAST = 16 * MIB
"""The least that MANY steps must add for a warning, in bytes."""
_CAUSED = 0.1
"""A leak of at least this part of what was allocated when a request failed counts as a cause."""
_KEY_VALUE = expression(
    r"kv_?cache|past_key|key_value|(Dynamic|Static|Hybrid)Cache|cache_utils\.py", re.IGNORECASE
)
_WRITES = (
    " If these are the keys and values that a language model keeps for a text, they are freed with"
    " the text, and this is not a leak."
)


@dataclass(frozen=True)
class _Words:
    """Words the findings about one device."""

    tables: History
    device: DeviceFigures
    turns: Iterations

    def name(self, site: SiteGrowth) -> str:
        """Name a call site."""
        rows = np.array([site.row], np.int64)
        return name_sites(self.device.history, self.tables.stacks, rows)[0]

    def is_key_value_cache(self, site: SiteGrowth) -> bool:
        """Whether a call site seems to fill a language model's key-value cache."""
        if trains(self.device):
            return False
        stacks = self.tables.stacks
        path = stacks.path(int(self.device.history.allocations.stack[site.row]))
        return any(
            _KEY_VALUE.search(stacks.frames.names[frame] + " " + stacks.frames.filenames[frame])
            for frame in path
        )

    def visible(self, sites: Sequence[SiteGrowth]) -> list[SiteGrowth]:
        """Return the sites with enough growth to be mistaken for a leak."""
        least = max(VISIBLE * self.device.peak.allocated, MIB)
        return [site for site in sites if site.grown >= least]

    def leak(self, sites: Sequence[SiteGrowth]) -> Finding:
        """Report call sites, the fastest first, that keep more with every step."""
        top, name = sites[0], self.name(sites[0])
        per_step, grown = sum(each.per_step for each in sites), sum(each.grown for each in sites)
        short = short_site(name)
        who = short if len(sites) == 1 else f"{len(sites)} call sites, most of it by {short}"
        every = "with every step" if top.growing >= top.turns - 1 else "from step to step"
        title = f"{format_bytes(per_step)} more stays live {every}, made by {who}"
        return Finding(
            "leak",
            self._severity(per_step, grown),
            title,
            f"What was made there and is live between steps grew in"
            f" {format_count(top.growing)} of the last {format_count(top.turns)} steps. None"
            " or hardly any of it was freed by the end of the recording."
            f" At this rate {format_count(MANY)} more steps would need"
            f" {format_bytes(per_step * MANY)}."
            + ("" if trains(self.device) else _WRITES)
            + f" The steps are known {self.turns.how}.",
            subject=name,
            evidence=self._evidence(sites, per_step, grown),
            tables=(self._table(sites),),
            suggestions=(
                Suggestion(
                    "leak",
                    "Find what still refers to these tensors, often a list, a dict or an attribute"
                    " to which each step adds. Delete them there when they are no longer"
                    " needed. For logging, keep numbers (.item()) or copies on the CPU"
                    " (.detach().cpu()): a tensor that needs gradients keeps all that its backward"
                    f" pass needs. {format_bytes(grown)} were added in this recording.",
                    "total += loss.item()",
                ),
            ),
            view=self._view(top),
            bytes=grown,
            per_step=per_step,
        )

    def _severity(self, per_step: int, grown: int) -> Severity:
        if self.device.ooms and grown >= _CAUSED * self.device.ooms[-1].allocated:
            return "critical"
        matters = max(_MATTERS * self.device.peak.allocated, _LEAST)
        return "warning" if per_step * MANY >= matters else "note"

    def _since(self, site: SiteGrowth) -> Figure:
        turn = min(site.since, len(self.turns) - 1)
        return Figure("grows since event", int(self.turns.starts[turn]), "event")

    def _evidence(
        self, sites: Sequence[SiteGrowth], per_step: int, grown: int
    ) -> tuple[Figure, ...]:
        top = sites[0]
        return (
            Figure("growth per step", per_step, meaning="bytes of blocks added in a step"),
            Figure(
                "requested per step",
                sum(site.requested_per_step for site in sites),
                meaning="bytes that the program asked for, before rounding up to blocks",
            ),
            Figure(
                "allocations per step",
                round(sum(site.count_per_step for site in sites), 2),
                "count",
            ),
            Figure("grown in the recording", grown),
            Figure("steps watched", top.turns, "count"),
            Figure("steps that grew", top.growing, "count"),
            self._since(top),
            Figure(f"after {format_count(MANY)} more steps", per_step * MANY),
            *step_figures(self.turns),
        )

    def _table(self, sites: Sequence[SiteGrowth]) -> Table:
        ordered = sorted(sites, key=lambda site: -site.grown)
        rows = np.array([site.row for site in ordered], np.int64)
        names = name_sites(self.device.history, self.tables.stacks, rows)
        return top_table(
            "What grew",
            {
                "call site": "text", "at first": "bytes", "at last": "bytes", "per step": "bytes",
                "allocations per step": "count",
            },
            [
                (name, site.first, site.last, site.per_step, round(site.count_per_step, 2))
                for name, site in zip(names, ordered, strict=True)
            ],
        )  # fmt: skip

    def _view(self, site: SiteGrowth) -> View:
        known = self.device.history.allocations.stack[site.row] >= 0
        name = self.name(site).split("  ")[0] if known else ""
        first = int(self.turns.starts[min(site.since, len(self.turns) - 1)])
        end = self.turns.end - 1
        return View("stacks", end, "allocated", search=name, between=(first - 1, end))

    def key_value_cache(self, site: SiteGrowth) -> Finding:
        """Report a growing key-value cache, as is normal while text is generated."""
        name = self.name(site)
        return Finding(
            "growing-buffer",
            "note",
            f"{format_bytes(site.per_step)} more with every step in what seems to be a"
            " key-value cache",
            f"A language model keeps the keys and values of all the text that it has written."
            f" {short_site(name)} added {format_bytes(site.grown)} of them here. That is not a"
            " leak if they are freed with the text, which this recording does not show: it ends"
            " before.",
            subject=name,
            evidence=self._evidence((site,), site.per_step, site.grown),
            tables=(self._table((site,)),),
            view=self._view(site),
            bytes=site.grown,
        )

    def captured(self, sites: Sequence[SiteGrowth]) -> Finding:
        """Report what captured graphs keep: it grows with the graphs, not with their replays."""
        grown, per_step = sum(site.grown for site in sites), sum(site.per_step for site in sites)
        return Finding(
            "graph-capture",
            "note",
            f"{format_bytes(per_step)} more is kept with every CUDA graph that is captured",
            "Each of these steps captures a CUDA graph. A graph needs its input, its results and"
            " its libraries' workspaces as long as it exists, so they are no leak. Replaying it"
            " adds nothing.",
            evidence=self._evidence(sites, per_step, grown),
            tables=(self._table(sites),),
            suggestions=(
                Suggestion(
                    "fewer-graphs",
                    "Capture graphs for fewer shapes, and pad input to the next larger one:"
                    f" {format_bytes(per_step)} stay live for each graph. Warm all of them up on"
                    " the same side stream, as libraries keep a workspace for each stream.",
                ),
            ),
            view=self._view(sites[0]),
            bytes=grown,
        )

    def grown(self, kind: GrowthKind, sites: Sequence[SiteGrowth]) -> Finding:
        """Report growth that is not a leak as far as the recording shows."""
        grown = sum(site.grown for site in sites)
        code, title, explanation = _NO_LEAK[kind]
        top = max(sites, key=lambda site: site.grown)
        return Finding(
            code,
            "note",
            title.format(format_bytes(grown)),
            explanation,
            evidence=(
                Figure("grown in the recording", grown),
                self._since(top),
                *step_figures(self.turns),
            ),
            tables=(self._table(sites),),
            view=self._view(top),
            bytes=grown,
        )


_NO_LEAK: dict[GrowthKind, tuple[str, str, str]] = {
    "buffer": (
        "growing-buffer",
        "{} more in buffers that are replaced in every step",
        (
            "There are no more of these than before, but each new one is larger than the one that"
            " it replaces. It may be a tensor that is appended to (torch.cat), or input that gets"
            " longer."
        ),
    ),
    "freed-later": (
        "freed-later",
        "{} grew from step to step and was freed in the end: not a leak",
        (
            "What was made there grew with nearly every step, and was freed after the last of"
            " them. Results that are collected, and the keys and values of a language model,"
            " grow like this: the more steps, the more they need."
        ),
    ),
    "settled": (
        "settling-cache",
        "{} grew in the first steps and then stayed: not a leak so far",
        (
            "What was made there grew after the first step, and no longer grew towards the end"
            " of the recording. Caches and buffers that are made when first needed grow like this."
        ),
    ),
}
