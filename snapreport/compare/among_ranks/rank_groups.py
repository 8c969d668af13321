"""Groups of ranks that behave alike, and the group in which a rank alone belongs.

Ranks are parted where there are gaps (``likeness``). Which parts are groups, and which are ranks
unlike their group, the numbers of ranks tell: programs give work to ranks by a regular pattern, a
slice of the parallel layout, a host, or runs of numbers that come again. Of such patterns that one
is taken which says in the shortest way in which part each rank is, exceptions included; the
exceptions are ranks that are unlike their group. A quarter of all ranks is a group, pattern or no.
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

from snapreport.compare.among_ranks.compared_rows import Row, name_rows
from snapreport.compare.among_ranks.holder_table import HolderTable
from snapreport.compare.among_ranks.layout_places import COPIES, place_name, varying
from snapreport.compare.among_ranks.likeness import FLOOR, Distances, part
from snapreport.compare.among_ranks.standing_out import spread_of

Place = Hashable
Table: TypeAlias = NDArray[np.int64]
"""Of each rank the peak, and behind it what each call site holds, in bytes."""

_LARGE = 4
"""One part in so many of the ranks is a group, whatever its ranks are."""
_FEW = 8
"""Where more than one in so many ranks of a large part break the pattern, the part has none."""
_KNOWN = 0.5
"""What a place along a dimension of a known layout costs beside one of a guessed pattern."""
_PLACE = 4
"""Ranks that a place has on average, for the places to be told apart by their medians."""
_GUESSED = 8
"""Times their usual spread, by which the places of a guess differ: of 16 places that chance parts
the furthest two are 3.5 apart."""
_PLACES = 16
"""A pattern that is guessed has no more, or chance makes one."""
_TOLD = 0.85
"""Of the ranks: fewer, and it is not the place that their memory goes by."""
_APART = 4
"""Groups lie as many times as far apart as their ranks lie from their own medians."""


@dataclass(frozen=True)
class Grouped:
    """One group; numbers are places among the compared rows."""

    name: str
    members: tuple[int, ...]
    core: tuple[int, ...]
    """Those that behave alike: the medians are theirs."""


@dataclass
class _Draft:
    core: list[int]
    guests: list[int]
    """Ranks that belong here and are unlike the others."""


def find_groups(rows: Sequence[Row], table: HolderTable, of: str = "") -> list[Grouped]:
    """Part ranks into groups, each rank into one; by the group's first rank.

    Args:
        rows: the ranks.
        table: what they hold.
        of: what tells them from other ranks of the run that are compared by themselves.
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
    """Turn parts into groups by the pattern that tells the parts of ranks in the shortest way.

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
    """Yield the place of each rank by the ways in which programs number them, plainest first.

    Each comes with what a place of it costs. A rank alone in its place would explain anything: only
    a layout that is known has such places.
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
    """Join groups again that are no further apart than their own ranks, the closest first."""
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
    """A way in which a group may be parted further."""

    places: list[Place]
    """Of each rank."""
    least: int
    """How many ranks a place has at least, on average."""
    guessed: bool
    """Whether nothing but the numbers of the ranks tells of it."""


def _ways(rows: Sequence[Row], places: list[Place]) -> list[_Way]:
    """Return the dimensions of a known layout that are no copies, else guesses.

    Those are the pattern by which groups were found, and runs of numbers that come again. Pipeline
    stages differ by design, even where each is one rank; elsewhere only several ranks show how much
    they vary.
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
    """Part a group by the way that tells most of its ranks, by their peaks or by a call site.

    Stages that differ a little have no gap between them; but the ranks of each are more alike than
    the stages are, and a rank is to be compared with its own stage.
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
            told, apart = _told(table[:, column], pieces, FLOOR * peak, way.guessed)
            order = -round(told, 2), len(pieces)
            if told >= _TOLD and (best is None or order < best[:2]):
                middle = {p: float(np.median(table[e, column])) for p, e in pieces.items()}
                best = *order, _joined(draft, places, middle, apart)
    if best is None or len(best[2]) < 2:
        return [draft]
    return [piece for part in best[2] for piece in _further(part, ways, table)]


def _told(
    values: NDArray[np.int64], pieces: dict[Place, list[int]], floor: float, guessed: bool
) -> tuple[float, float]:
    """Return how many of the ranks their place tells the value of, and how far places are apart.

    Ranks that see the same data vary together, and may be what a guess comes upon: so the places of
    a guess have to lie further apart than a spread of them does.

    Returns:
        a share, 0 where the places are not apart; and the bytes from which on two are.
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
    """Join places whose medians lie within ``apart`` bytes, from the lowest up."""
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
    """Return what a group is called by what its ranks share."""
    rows = [everyone[member] for member in members]
    if len(everyone) == 1:
        return rows[0].words
    if len(rows) == len(everyone):
        whole = "all ranks" if len({row.unit[0] for row in rows}) > 1 else "all devices"
        return f"{whole} {of}" if of else whole
    name = place_name([row.coordinates for row in rows], [row.coordinates for row in everyone])
    if name:
        return name
    words = name_rows(rows, everyone)
    hosts = {row.rank.name.host for row in rows}
    everywhere = sum(row.rank.name.host in hosts for row in everyone)
    if len(rows) > 1 and len(hosts) == 1 and "" not in hosts and everywhere == len(rows):
        return f"{words}, host {hosts.pop()}"
    return words
