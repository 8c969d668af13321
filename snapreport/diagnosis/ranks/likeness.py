"""Measure how unlike ranks are, and cluster them: single linkage, cut where a gap is wide.

The distance of two ranks is the sum of differences between their call sites, or the difference of
their curves, whichever is larger, as a share of the larger peak. Curves are compared by quantiles:
recordings seldom begin at the same moment of a step, and quantiles do not depend on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.ranks.rows import number_ranges
from snapreport.ground.native.columns import whole_median
from snapreport.ground.units import list_of
from snapreport.model.run import DeviceFacts, Difference, Holder, HolderKind, to_one_width

FLOOR = 0.03
"""Smaller distances, as a share of the peak, are not a gap. In eight runs, ranks that do the same
work on other data differ by 1 to 2 % in their requests, and by up to 1 MiB per unsplit block."""
MEGABYTE = 1 << 20
"""Smaller differences in bytes do not count: an unsplit block is larger by up to this much."""
_TIMES_NEAREST = 5
"""A gap is at least this many times the median distance to the nearest other rank."""
_QUANTILES = 17
_STILL = 0.001
"""A column that varies by at most this part of the largest peak is left out of distances."""


class Distances:
    """Distances between ranks, by call sites and by curves."""

    def __init__(
        self, devices: Sequence[DeviceFacts], sites: NDArray[np.int64], allocated: NDArray[np.int64]
    ) -> None:
        self._peaks = np.maximum(allocated, 1).astype(np.float32)
        rest = allocated - sites.sum(axis=1)
        table = np.column_stack([sites, rest])
        moving = np.ptp(table, axis=0) > _STILL * allocated.max(initial=0)
        self._sites = table[:, moving].astype(np.float32)
        share = np.linspace(0, 1, _QUANTILES)
        self._curves = np.array(
            [np.quantile(d.by_event.allocated, share) for d in devices], np.float32
        )

    def from_one(self, row: int) -> NDArray[np.float32]:
        """Return each rank's distance from one; float32, shape (n,), as shares of the peak."""
        apart = np.abs(self._sites - self._sites[row]).sum(axis=1)
        curves = np.abs(self._curves - self._curves[row]).mean(axis=1)
        larger = np.maximum(self._peaks, self._peaks[row])
        found: NDArray[np.float32] = np.maximum(apart, curves) / larger
        return found

    def between(self, some: Sequence[int], others: Sequence[int]) -> float:
        """Return the distance between the medians of two sets of ranks."""
        apart = np.abs(self._middle(self._sites, some) - self._middle(self._sites, others)).sum()
        curves = np.abs(
            self._middle(self._curves, some) - self._middle(self._curves, others)
        ).mean()
        larger = max(np.median(self._peaks[list(some)]), np.median(self._peaks[list(others)]))
        return float(max(apart, curves) / larger)

    def within(self, some: Sequence[int]) -> float:
        """Return the median distance of ranks from their own median."""
        rows = list(some)
        apart = np.abs(self._sites[rows] - self._middle(self._sites, rows)).sum(axis=1)
        curves = np.abs(self._curves[rows] - self._middle(self._curves, rows)).mean(axis=1)
        return float(np.median(np.maximum(apart, curves) / self._peaks[rows]))

    @staticmethod
    def _middle(table: NDArray[np.float32], rows: Sequence[int]) -> NDArray[np.float32]:
        middle: NDArray[np.float32] = np.median(table[list(rows)], axis=0)
        return middle


def part(distances: Distances, count: int) -> list[list[int]]:
    """Split ranks where there are gaps; each part is ascending, parts are ordered by first rank.

    Grows the minimum spanning tree from the first rank (Prim's algorithm) and cuts its long edges:
    the same as single linkage, with memory for one row of distances.
    """
    best = np.full(count, np.inf, np.float32)
    origin = np.zeros(count, np.int64)
    nearest = np.full(count, np.inf, np.float32)
    inside = np.zeros(count, bool)
    edges: list[tuple[float, int, int]] = []  # length, a rank already in the tree, the new one
    row = 0
    for turn in range(count):
        inside[row] = True
        away = distances.from_one(row)
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


# What each rank holds: a table with a row per rank, a column per call site, role or stage.


_MOST_HOLDERS = {"site": 8, "role": 4, "stage": 3}
_TELLING = 0.01
"""Holders that differ by at most this part of the larger peak are not named, only summed up."""


class HolderTable:
    """The holders of some devices.

    Attributes:
        allocated: at each peak; int64, shape (n,), in bytes.
        sites: bytes of each named site; int64, shape (n, n_sites). The rest of the peak has no
            column.
    """

    def __init__(self, devices: Sequence[DeviceFacts]) -> None:
        self.allocated: NDArray[np.int64] = np.array([d.allocated for d in devices], np.int64)
        self._held: list[dict[tuple[HolderKind, str], Holder]] = [
            {(holder.kind, holder.key): holder for holder in device.holders if holder.key}
            for device in devices
        ]
        self._columns: dict[HolderKind, list[str]] = {}
        self._bytes: dict[HolderKind, NDArray[np.int64]] = {}
        kinds: tuple[HolderKind, ...] = ("site", "role", "stage")
        for kind in kinds:
            keys = sorted({key for held in self._held for each, key in held if each == kind})
            place = {key: column for column, key in enumerate(keys)}
            table = np.zeros((len(devices), len(keys)), np.int64)
            for row, held in enumerate(self._held):
                for (each, key), holder in held.items():
                    if each == kind:
                        table[row, place[key]] = holder.bytes
            self._columns[kind], self._bytes[kind] = keys, table
        self.sites = self._bytes["site"]

    def role(self, key: str) -> NDArray[np.int64]:
        """Return what each device holds in a role; int64, shape (n,)."""
        if key not in self._columns["role"]:
            return np.zeros(len(self.allocated), np.int64)
        return self._bytes["role"][:, self._columns["role"].index(key)]

    def beside(self, some: Sequence[int], usual: Sequence[int]) -> tuple[Difference, ...]:
        """Return how the median of some devices differs from the median of others.

        The differences of sites add up to the difference of the median peaks, to the byte, and so
        do those of roles where roles are known: a difference with the key ``""`` holds all that is
        not named. Those furthest beyond the usual spread come first.

        Args:
            some: rows of the table; at least one.
            usual: rows to compare with; at least one.
        """
        peaks = self.allocated
        most, base = whole_median(peaks[list(some)]), whole_median(peaks[list(usual)])
        found: list[Difference] = []
        for kind, keys in self._columns.items():
            table = self._bytes[kind]
            if not keys:
                continue
            others = table[list(usual)]
            have, usually = _medians(table[list(some)]), _medians(others)
            spread = np.median(np.abs(others - usually), axis=0)
            change = have - usually
            if kind == "stage":  # a stage that one side never reached says nothing about memory
                change = np.where((have > 0) & (usually > 0), change, 0)
            beyond = np.abs(change) - 3 * spread
            telling = np.abs(change) > _TELLING * max(most, base, 1)
            order = sorted(np.flatnonzero(telling).tolist(), key=lambda c: (-beyond[c], keys[c]))
            named = [
                self._difference(kind, column, some, usual)
                for column in order[: _MOST_HOLDERS[kind]]
            ]
            found += named
            if kind != "stage":
                left = most - sum(each.bytes for each in named)
                expected = base - sum(each.usual for each in named)
                if left != expected:
                    found.append(Difference(kind, "", left, expected, 0, 0, 0, 0))
        if not self._columns["site"] and most != base:
            found.insert(0, Difference("site", "", most, base, 0, 0, 0, 0))
        return tuple(found)

    def _difference(
        self, kind: HolderKind, column: int, some: Sequence[int], usual: Sequence[int]
    ) -> Difference:
        key = self._columns[kind][column]
        values = self._bytes[kind][:, column]
        sides = []
        for rows in (list(some), list(usual)):
            middle = whole_median(values[rows])
            row = min(rows, key=lambda row: abs(int(values[row]) - middle))
            holder = self._held[row].get((kind, key))
            sides.append((middle, holder.size if holder else 0, holder.of_size if holder else 0))
        (have, *sizes), (usually, *usual_sizes) = sides
        return Difference(kind, key, have, usually, *sizes, *usual_sizes)


def _medians(table: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the median of each column, rounded down."""
    ordered = np.sort(table, axis=0)
    low: NDArray[np.int64] = ordered[(len(ordered) - 1) // 2]
    high: NDArray[np.int64] = ordered[len(ordered) // 2]
    return low + (high - low) // 2


# Find the values that stand out from the others.
#
# A value stands out if its distance from the median is large by three measures at once: it is worth
# acting on, it is five times the usual spread (a normal distribution has one value in two million
# beyond that), and it is twice that of the furthest value that does not stand out. The third
# measure is for long tails, as with uneven experts: there the largest of a thousand values is far
# from the median, but so is the next. The spread of few values is not well known, so the second and
# third measures then ask for more: with eight values, 7.5 times the spread and three times the next
# value.


SPREADS = 5
_AS_FAR = 2
_OF_FEW = 4
"""With this many values the second and third measures double; with many more they hardly change."""
_MOST = 4
"""At most one in this many values stands out: more of them are a group."""
TO_NORMAL = 1.4826
"""Factor from the median absolute deviation to a normal distribution's standard deviation."""


def spread_of(values: NDArray[Any]) -> float:
    """Return a robust estimate of the standard deviation, from the median absolute deviation."""
    middle = np.median(values)
    return TO_NORMAL * float(np.median(np.abs(values - middle)))


def stand_out(
    values: NDArray[np.int64], floor: float | NDArray[np.float64], judged: NDArray[np.bool_]
) -> NDArray[np.int8]:
    """Say which values stand out: 1 above the others, -1 below, 0 not.

    Args:
        values: int64, shape (n,).
        floor: the least distance from the median; one for all values, or one for each.
        judged: bool, shape (n,): the values to judge; the median is of these.
    """
    found = np.zeros(len(values), np.int8)
    known = values[judged]
    if len(known) < 3:
        return found
    away = values - np.sort(known)[(len(known) - 1) // 2]
    few = _OF_FEW / len(known)
    spreads = SPREADS * (1 + few) * spread_of(known)
    least = np.maximum(np.broadcast_to(floor, values.shape), spreads)
    for sign in (1, -1):
        rows = np.flatnonzero(judged)
        rows = rows[np.argsort(-sign * away[rows], kind="stable")]
        far = sign * away[rows]
        beyond = far >= np.maximum(least[rows], 1)
        for count in range(min(max(len(rows) // _MOST, 1), len(rows) - 2), 0, -1):
            if beyond[:count].all() and far[count - 1] >= _AS_FAR * (1 + few) * far[count]:
                found[rows[:count]] = sign
                break
    return found


# Name sets of ranks by their places in the parallel layout.
#
# Ranks are numbered as in Megatron-LM: the first dimension of a layout varies fastest, so with
# ``tp=8,pp=4,dp=2`` rank 8 is the first of pipeline stage 1.


Coordinates = Mapping[str, int]

COPIES = frozenset(("dp", "ddp", "data", "replica", "replicate", "dp_replicate"))
"""Dimensions whose ranks may hold the same parameters."""

_NAMES = {
    "pp": "pipeline stage",
    "tp": "tensor rank",
    "ep": "expert rank",
    "cp": "context rank",
    "sp": "sequence rank",
    "fsdp": "FSDP rank",
    "dp_shard": "shard",
    "dp": "replica",
    "ddp": "replica",
    "dp_replicate": "replica",
}
_MOST_RANGES = 3


def dimension_name(dimension: str) -> str:
    """Return the name for a rank's place along a dimension: ``pipeline stage``."""
    return _NAMES.get(dimension, dimension)


def place_name(members: Sequence[Coordinates], everyone: Sequence[Coordinates]) -> str:
    """Return the places that exactly these ranks share: ``pipeline stage 1``; ``""`` if none."""
    free = varying(everyone)
    for dimensions in chain.from_iterable(combinations(free, count) for count in (1, 2, 3)):
        values = [sorted({each[d] for each in members}) for d in dimensions]
        inside = sum(
            all(each[d] in v for d, v in zip(dimensions, values, strict=True)) for each in everyone
        )
        ranges = [number_ranges(each) for each in values]
        if inside == len(members) and all(len(each) <= _MOST_RANGES for each in ranges):
            return ", ".join(
                f"{dimension_name(d)}{'s' * (len(v) > 1)} {list_of(parts)}"
                for d, v, parts in zip(dimensions, values, ranges, strict=True)
            )
    return ""


def varying(everyone: Sequence[Coordinates]) -> list[str]:
    """Return the dimensions in which every rank has a place, and not all the same one."""
    if not everyone or not all(everyone):
        return []
    return [
        dimension
        for dimension in everyone[0]
        if all(dimension in each for each in everyone)
        and len({each[dimension] for each in everyone}) > 1
    ]


# Find the moment at which a rank diverges from its group.


_PART = 0.25
"""A rank has diverged once it shows this part of the difference that it has in the end."""
_ALIGNED = 0.02
"""Events are comparable one by one only if the numbers of events spread by at most this part."""


class Curves:
    """The curves of a group over events, in cells of one width."""

    def __init__(self, devices: Sequence[DeviceFacts], core: Sequence[int]) -> None:
        self._devices = devices
        self._core = list(core)
        cells = to_one_width([device.by_event for device in devices])
        self._shift = cells[0].shift
        width = max(len(each.allocated) for each in cells)
        table = np.full((len(cells), width), np.nan)
        for row, each in enumerate(cells):
            table[row, : len(each.allocated)] = each.allocated
        self._table = table
        events = np.array([devices[row].events for row in self._core])
        off = np.median(np.abs(events - np.median(events))) if len(events) else 0
        self._aligned = bool(off <= _ALIGNED * max(float(np.median(events)), 1))
        known = np.sum(~np.isnan(table[self._core]), axis=0)
        self._until = int(np.sum(2 * known > len(self._core)))
        some = table[self._core][:, : self._until]
        self._middle = np.nanmedian(some, axis=0)
        self._spread = TO_NORMAL * np.nanmedian(np.abs(some - self._middle), axis=0)

    def parts(self, row: int, difference: int) -> tuple[int | None, int | None]:
        """Return the event and the number of the step at which a rank's curve diverges."""
        return self.parts_event(row, difference), self.parts_step(row, difference)

    def parts_event(self, row: int, difference: int) -> int | None:
        """Return the first event of the cell in which a rank diverges from its group.

        Args:
            row: the rank's position among the devices.
            difference: bytes by which it differs in the end; negative if it holds less.
        """
        if not self._aligned or not difference:
            return None
        sign = 1 if difference > 0 else -1
        away = sign * (self._table[row, : self._until] - self._middle)
        least = np.maximum(_PART * abs(difference), SPREADS * self._spread)
        with np.errstate(invalid="ignore"):
            beyond = np.flatnonzero(away >= least)
        return int(beyond[0]) << self._shift if len(beyond) else None

    def parts_step(self, row: int, difference: int, growing: bool = False) -> int | None:
        """Return the number of the first step in which a rank diverges from its group.

        Args:
            row: the rank's position among the devices.
            difference: bytes by which it differs in the end; negative if it holds less.
            growing: whether to compare what steps leave allocated, instead of their peaks.
        """
        usual: dict[int, list[int]] = {}
        for member in self._core:
            if member != row:
                for step in self._devices[member].steps:
                    usual.setdefault(step.number, []).append(
                        step.left if growing else step.allocated
                    )
        sign = 1 if difference > 0 else -1
        for step in self._devices[row].steps:
            others = np.array(usual.get(step.number, ()))
            if 2 * len(others) <= len(self._core) - 1:
                continue
            away = sign * ((step.left if growing else step.allocated) - float(np.median(others)))
            if away >= max(_PART * abs(difference), SPREADS * spread_of(others)):
                return step.number
        return None
