"""Find groups of ranks that behave alike, and the group that each odd rank belongs to.

Ranks are split where there are gaps (``likeness``). The ranks' numbers then show which parts are
groups, and which are ranks unlike their group: programs assign work to ranks by a regular pattern,
such as a slice of the parallel layout, a host, or repeating runs of numbers. The pattern chosen is
the one with the shortest description of the part of each rank, exceptions included; the exceptions
are the ranks unlike their group. More than a quarter of all ranks is a group, pattern or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import log2
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.ranks.likeness import (
    COPIES,
    FLOOR,
    Distances,
    HolderTable,
    part,
    place_name,
    spread_of,
    varying,
)
from snapreport.diagnosis.ranks.rows import Row, name_rows

Place = Hashable
Table: TypeAlias = NDArray[np.int64]
"""The peak of each rank, followed by what each call site holds, in bytes."""

_LARGE = 4
"""A part with more than one in this many of all ranks is a group, whatever its ranks are."""
_FEW = 8
"""A large part has no pattern if more than one in this many of its ranks breaks it."""
_KNOWN = 0.5
"""The cost of a place along a dimension of a known layout, relative to one of a guessed pattern."""
_PLACE = 4
"""Places need this many ranks on average to be distinguished by their medians."""
_GUESSED = 8
"""The places of a guessed pattern must differ by this many times their usual spread: of 16 places
assigned by chance the furthest two are 3.5 apart."""
_PLACES = 16
"""A guessed pattern has at most this many places; with more, chance produces patterns."""
_PREDICTED = 0.85
"""Memory depends on the place only if the place predicts it for this part of the ranks."""
_APART = 4
"""Groups must be this many times as far apart as their ranks are from their own medians."""


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
    distances = Distances([row.device for row in rows], table.sites, table.allocated)
    parts = part(distances, len(rows)) if len(rows) > 2 else [list(range(len(rows)))]
    drafts, places = _by_pattern(parts, rows)
    drafts = _without_false_gaps(drafts, distances)
    held = np.column_stack([table.allocated, table.sites])
    ways = _ways(rows, places)
    drafts = [piece for draft in drafts for piece in _further(draft, ways, held)]
    found = []
    for draft in drafts:
        members = sorted(draft.core + draft.guests)
        found.append(Grouped(_name(members, rows, of), tuple(members), tuple(sorted(draft.core))))
    return sorted(found, key=lambda each: each.members[0])


def _by_pattern(
    parts: Sequence[Sequence[int]], rows: Sequence[Row]
) -> tuple[list[_Draft], list[Place]]:
    """Turn parts into groups, by the pattern with the shortest description of the parts.

    Returns:
        the groups, and the place of each rank in that pattern.
    """
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
    if sum(many[number] for number in many if number not in own) * _LARGE > len(rows):
        return [_Draft(list(range(len(rows))), [])], [0] * len(rows)  # no pattern at all
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
    return list(drafts.values()), places


def _patterns(rows: Sequence[Row]) -> Iterator[tuple[float, list[Place]]]:
    """Yield patterns in which programs number ranks, the simplest first: a cost, and each place.

    The cost is per place. Places with a single rank could explain anything, so only a known layout
    has these.
    """
    yield 1.0, [0] * len(rows)
    coordinates = [row.coordinates for row in rows]
    free = varying(coordinates)
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


def _without_false_gaps(drafts: list[_Draft], distances: Distances) -> list[_Draft]:
    """Rejoin groups that are no further apart than their own ranks, the closest first."""
    drafts = list(drafts)
    while len(drafts) > 1:
        within = [max(distances.within(each.core), FLOOR / _APART) for each in drafts]
        ratio, a, b = min(
            (distances.between(drafts[a].core, drafts[b].core) / max(within[a], within[b]), a, b)
            for a in range(len(drafts))
            for b in range(a + 1, len(drafts))
        )
        if ratio >= _APART:
            break
        joined = drafts.pop(b)
        drafts[a].core.extend(joined.core)
        drafts[a].guests.extend(joined.guests)
    return drafts


@dataclass(frozen=True)
class _Way:
    """A way in which a group may be split further."""

    places: list[Place]
    """The place of each rank."""
    least: int
    """The fewest ranks that a place must have on average."""
    guessed: bool
    """Whether it is only guessed from the numbers of the ranks."""


def _ways(rows: Sequence[Row], places: list[Place]) -> list[_Way]:
    """Return the dimensions of a known layout that hold no copies, or else guesses.

    Guesses are the pattern by which groups were found, and repeating runs of numbers. Pipeline
    stages differ by design, even if each is one rank; in other dimensions it takes several ranks to
    show how much they vary.
    """
    coordinates = [row.coordinates for row in rows]
    free = [dimension for dimension in varying(coordinates) if dimension not in COPIES]
    if free:
        return [
            _Way(
                [each[dimension] for each in coordinates], 1 if dimension == "pp" else _PLACE, False
            )
            for dimension in free
        ]
    patterns = [each for _, each in _patterns(rows) if 1 < len(set(each)) <= _PLACES]
    return [_Way(places, _PLACE, True), *(_Way(each, 2 * _PLACE, True) for each in patterns)]


def _further(draft: _Draft, ways: Sequence[_Way], table: Table) -> list[_Draft]:
    """Split a group by the way that best predicts the peak, or a call site, of its ranks.

    Stages that differ a little have no gap between them. But the ranks of a stage are more alike
    than the stages are, and a rank should be compared with its own stage.
    """
    peak = float(np.median(table[draft.core, 0]))
    moving = np.flatnonzero(np.ptp(table[draft.core], axis=0) >= FLOOR * peak)
    best: tuple[float, int, list[_Draft]] | None = None
    for way in ways:
        places = way.places
        pieces: dict[Place, list[int]] = {}
        for member in draft.core:
            pieces.setdefault(places[member], []).append(member)
        if len(pieces) < 2 or len(draft.core) < way.least * len(pieces):
            continue
        if not all(places[guest] in pieces for guest in draft.guests):
            continue
        for column in moving.tolist():
            share, apart = _predicted(table[:, column], pieces, FLOOR * peak, way.guessed)
            order = -round(share, 2), len(pieces)
            if share >= _PREDICTED and (best is None or order < best[:2]):
                middle = {p: float(np.median(table[e, column])) for p, e in pieces.items()}
                best = *order, _joined(draft, places, middle, apart)
    if best is None or len(best[2]) < 2:
        return [draft]
    return [piece for part in best[2] for piece in _further(part, ways, table)]


def _predicted(
    values: NDArray[np.int64], pieces: dict[Place, list[int]], floor: float, guessed: bool
) -> tuple[float, float]:
    """Return the share of ranks whose value their place predicts.

    Ranks that see the same data vary together, and a guessed pattern may just reflect that: so the
    places of a guess must be further apart than their usual spread.

    Returns:
        the share, 0 if the places are not distinct; and the bytes from which two places are.
    """
    middle = {place: float(np.median(values[each])) for place, each in pieces.items()}
    inside = float(np.median([spread_of(values[each]) for each in pieces.values()]))
    apart = max(floor, _APART * inside)
    medians = np.array([*middle.values()])
    if np.ptp(medians) < max(apart, _GUESSED * spread_of(medians) if guessed else 0.0):
        return 0.0, apart
    near = sum(
        int((np.abs(values[each] - middle[place]) < apart / 2).sum())
        for place, each in pieces.items()
    )
    return near / sum(len(each) for each in pieces.values()), apart


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
    name = place_name([row.coordinates for row in rows], [row.coordinates for row in everyone])
    if name:
        return name
    words = name_rows(rows, everyone)
    hosts = {row.rank.name.host for row in rows}
    everywhere = sum(row.rank.name.host in hosts for row in everyone)
    if len(rows) > 1 and len(hosts) == 1 and "" not in hosts and everywhere == len(rows):
        return f"{words}, host {hosts.pop()}"
    return words
