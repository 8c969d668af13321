"""Find groups of ranks that behave alike, and the group that each odd rank belongs to.

Ranks are split where there are gaps. The ranks' numbers then show which parts are
groups, and which are ranks unlike their group: programs assign work to ranks by a regular pattern,
such as a slice of the parallel layout, a host, or repeating runs of numbers. The pattern chosen is
the one with the shortest description of the part of each rank, exceptions included; the exceptions
are the ranks unlike their group. More than a quarter of all ranks is a group, pattern or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from itertools import combinations
from math import log2
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.ranks.holders import HolderTable
from snapreport.diagnosis.ranks.rows import COPIES, Row, name_rows, place_name, varying
from snapreport.ground.records import dataclass

Place = Hashable
Table: TypeAlias = NDArray[np.int64]
"""The peak of each rank, followed by what each call site holds, in bytes."""
FLOOR = 0.03
"""Smaller distances, as a share of the peak, are not a gap. In eight runs, ranks that do the same
work on other data differ by 1 to 2 % in their requests, and by up to 1 MiB per unsplit block."""
TO_NORMAL = 1.4826
"""Factor from the median absolute deviation to a normal distribution's standard deviation."""
_TIMES_NEAREST = 5
"""A gap is at least this many times the median distance to the nearest other rank."""
_QUANTILES = 17
_STILL = 0.001
"""A column that varies by at most this part of the largest peak is left out of distances."""


def _part(rows: Sequence[Row], held: HolderTable) -> list[list[int]]:
    """Split ranks where there are gaps; each part is ascending, parts are ordered by first rank.

    The distance of two ranks is the sum of differences between their call sites, or the difference
    of their curves, whichever is larger, as a share of the larger peak. Curves are compared by
    quantiles: recordings seldom begin at the same moment of a step, and quantiles do not depend on
    it.

    Grows the minimum spanning tree from the first rank (Prim's algorithm) and cuts its long edges:
    the same as single linkage, with memory for one row of distances.
    """
    count = len(rows)
    peaks = np.maximum(held.allocated, 1).astype(np.float32)
    table = np.column_stack([held.sites, held.allocated - held.sites.sum(axis=1)])
    moving = np.ptp(table, axis=0) > _STILL * held.allocated.max(initial=0)
    sites = table[:, moving].astype(np.float32)
    share = np.linspace(0, 1, _QUANTILES)
    curves = np.empty((count, _QUANTILES), np.float32)
    for place, each in enumerate(rows):
        curves[place] = np.quantile(each.device.by_event.allocated, share)
    best = np.full(count, np.inf, np.float32)
    origin = np.zeros(count, np.int64)
    nearest = np.full(count, np.inf, np.float32)
    inside = np.zeros(count, bool)
    edges: list[tuple[float, int, int]] = []  # length, a rank already in the tree, the new one
    row = 0
    for turn in range(count):
        inside[row] = True
        apart = np.abs(sites - sites[row]).sum(axis=1)
        apart = np.maximum(apart, np.abs(curves - curves[row]).mean(axis=1))
        away = apart / np.maximum(peaks, peaks[row])
        away[row] = np.inf
        nearest[row] = away.min(initial=np.inf)
        closer = (away < best) & ~inside
        best[closer], origin[closer] = away[closer], row
        if turn == count - 1:
            break
        row = int(np.where(inside, np.inf, best).argmin())
        edges.append((float(best[row]), int(origin[row]), row))
    usual = float(np.median(nearest)) if count > 1 else 0.0
    gap = max(FLOOR, _TIMES_NEAREST * usual)
    first = dict.fromkeys(range(count), 0)
    for length, a, b in edges:
        first[b] = first[a] if length <= gap else b
    parts: dict[int, list[int]] = {}
    for row in range(count):
        parts.setdefault(first[row], []).append(row)
    return list(parts.values())


def spread_of(values: NDArray[np.int64]) -> float:
    """Return a robust estimate of the standard deviation, from the median absolute deviation."""
    middle = np.median(values)
    return TO_NORMAL * float(np.median(np.abs(values - middle)))


_LARGE = 4
"""A part with more than one in this many of all ranks is a group, whatever its ranks are."""
_FEW = 8
"""A large part has no pattern if more than one in this many of its ranks breaks it."""
_KNOWN = 0.5
"""The cost of a place along a dimension of a known layout, relative to one of a guessed pattern."""
_PLACE = 4
"""Places need this many ranks on average to be distinguished by their medians. Pipeline stages
differ by design, even if each is one rank; elsewhere it takes several to show how they vary."""
_PREDICTED = 0.85
"""Memory depends on the place only if the place predicts it for this part of the ranks."""
_APART = 4
"""Places must be this many times as far apart as their ranks usually are from their medians."""


@dataclass(frozen=True)
class Grouped:
    """One group; numbers are positions among the compared rows."""

    name: str
    members: tuple[int, ...]
    core: tuple[int, ...]
    """The members that behave alike; medians are computed from these."""


@dataclass
class _Draft:
    core: list[int]
    guests: list[int]
    """Ranks that belong to the group but are unlike its others."""


def find_groups(rows: Sequence[Row], table: HolderTable, of: str = "") -> list[Grouped]:
    """Split ranks into groups, ordered by their first rank.

    Args:
        rows: the ranks.
        table: what they hold.
        of: how these ranks differ from the run's other sets, which are compared separately.
    """
    parts = _part(rows, table) if len(rows) > 2 else [list(range(len(rows)))]
    drafts = _by_pattern(parts, rows)
    held = np.column_stack([table.allocated, table.sites])
    drafts = [piece for draft in drafts for piece in _further(draft, rows, held)]
    found = []
    for draft in drafts:
        members = sorted(draft.core + draft.guests)
        found.append(Grouped(_name(members, rows, of), tuple(members), tuple(sorted(draft.core))))
    return sorted(found, key=lambda each: each.members[0])


def _by_pattern(parts: Sequence[Sequence[int]], rows: Sequence[Row]) -> list[_Draft]:
    """Turn parts into groups, by the pattern with the shortest description of the parts."""
    label = {member: number for number, members in enumerate(parts) for member in members}
    one_exception = log2(len(rows)) + 1
    one_place = max(log2(len(parts)), 1) if len(parts) > 1 else 1.0
    best: tuple[float, dict[Place, int], list[Place]] | None = None
    for weight, places in _patterns(rows):
        votes: dict[Place, Counter[int]] = {}
        for member, place in enumerate(places):
            votes.setdefault(place, Counter())[label[member]] += 1
        chosen = {
            place: min(count, key=lambda number, count=count: (-count[number], number))  # type: ignore[misc]
            for place, count in votes.items()
        }
        wrong = sum(label[member] != chosen[place] for member, place in enumerate(places))
        cost = wrong * one_exception + weight * len(votes) * one_place
        if best is None or cost < best[0]:
            best = cost, chosen, places
    assert best is not None
    _, chosen, places = best
    exceptions = [m for m, place in enumerate(places) if label[m] != chosen[place]]
    many = Counter(label[member] for member in exceptions)
    own = {
        number
        for number, count in many.items()
        if len(parts[number]) >= max(3, len(rows) // _LARGE + 1)
        and count * _FEW > len(parts[number])
    }
    drafts: dict[int, _Draft] = {}
    for member, place in enumerate(places):
        number, home = label[member], chosen[place]
        if number == home or number in own:
            drafts.setdefault(number, _Draft([], [])).core.append(member)
        else:
            drafts.setdefault(home, _Draft([], [])).guests.append(member)
    for draft in drafts.values():
        if len(draft.guests) * _LARGE > len(draft.core) + len(draft.guests):
            draft.core, draft.guests = sorted(draft.core + draft.guests), []
    return list(drafts.values())


def _patterns(rows: Sequence[Row]) -> Iterator[tuple[float, list[Place]]]:
    """Yield patterns in which programs number ranks, the simplest first: a cost, and each place.

    The cost is per place. Places with a single rank could explain anything, so only a known layout
    has these.
    """
    yield 1.0, [0] * len(rows)
    coordinates = [row.coordinates for row in rows]
    free = varying(rows)
    for dimensions in [*combinations(free, 1), *combinations(free, 2)]:
        if not COPIES.issuperset(dimensions):
            weight = _KNOWN if len(dimensions) == 1 else 1.0
            yield weight, [tuple(each[d] for d in dimensions) for each in coordinates]
    hosts = Counter(row.rank.name.host for row in rows)
    if len(hosts) > 1 and min(hosts.values()) > 1:
        yield 1.0, [row.rank.name.host for row in rows]
    numbers = [row.number for row in rows if row.number is not None]
    if len(numbers) < len(rows):
        return
    size = max(numbers) + 1
    divisors = [each for each in range(1, size) if size % each == 0]
    for kinds in divisors[1:]:
        for run in reversed(divisors):
            if size % (run * kinds) == 0:
                yield 1.0, [number // run % kinds for number in numbers]


def _further(draft: _Draft, rows: Sequence[Row], table: Table) -> list[_Draft]:
    """Split a group by the dimension that best predicts the peak, or a call site, of its ranks.

    Stages that differ a little have no gap between them. But the ranks of a stage are more alike
    than the stages are, and a rank should be compared with its own stage. Dimensions that hold
    copies, and patterns that are only guessed from the numbers of the ranks, split no group: with
    enough of them, one fits by chance.
    """
    peak = float(np.median(table[draft.core, 0]))
    moving = np.flatnonzero(np.ptp(table[draft.core], axis=0) >= FLOOR * peak)
    best: tuple[float, int, list[_Draft]] | None = None
    for dimension in varying(rows):
        places = [row.coordinates[dimension] for row in rows]
        pieces: dict[Place, list[int]] = {}
        for member in draft.core:
            pieces.setdefault(places[member], []).append(member)
        least = 1 if dimension == "pp" else _PLACE
        if dimension in COPIES or len(pieces) < 2 or len(draft.core) < least * len(pieces):
            continue
        if not all(places[guest] in pieces for guest in draft.guests):
            continue
        for column in moving.tolist():
            values = table[:, column]
            middle = {place: float(np.median(values[each])) for place, each in pieces.items()}
            inside = float(np.median([spread_of(values[each]) for each in pieces.values()]))
            apart = max(FLOOR * peak, _APART * inside)
            if max(middle.values()) - min(middle.values()) < apart:
                continue
            near = sum(abs(values[m] - middle[places[m]]) < apart / 2 for m in draft.core)
            share = near / len(draft.core)
            order = -round(share, 2), len(pieces)
            if share >= _PREDICTED and (best is None or order < best[:2]):
                best = *order, _joined(draft, places, middle, apart)
    if best is None or len(best[2]) < 2:
        return [draft]
    return [piece for part in best[2] for piece in _further(part, rows, table)]


def _joined(
    draft: _Draft, places: Sequence[Place], middle: dict[Place, float], apart: float
) -> list[_Draft]:
    """Join places whose medians are within ``apart`` bytes, from the lowest up."""
    found: list[_Draft] = []
    group: dict[Place, _Draft] = {}
    lowest = -np.inf
    first = {places[member]: member for member in reversed(draft.core)}
    for place in sorted(middle, key=lambda each: (middle[each], first[each])):
        if middle[place] - lowest >= apart:
            lowest = middle[place]
            found.append(_Draft([], []))
        group[place] = found[-1]
    for member in draft.core:
        group[places[member]].core.append(member)
    for guest in draft.guests:
        group[places[guest]].guests.append(guest)
    return found


def _name(members: Sequence[int], everyone: Sequence[Row], of: str) -> str:
    """Name a group by what its ranks share."""
    rows = [everyone[member] for member in members]
    if len(everyone) == 1:
        return rows[0].words
    if len(rows) == len(everyone):
        everything = "all ranks" if len({row.unit[0] for row in rows}) > 1 else "all devices"
        return f"{everything} {of}" if of else everything
    name = place_name(rows, everyone)
    if name:
        return name
    words = name_rows(rows, everyone)
    hosts = {row.rank.name.host for row in rows}
    everywhere = sum(row.rank.name.host in hosts for row in everyone)
    if len(rows) > 1 and len(hosts) == 1 and "" not in hosts and everywhere == len(rows):
        return f"{words}, host {hosts.pop()}"
    return words
