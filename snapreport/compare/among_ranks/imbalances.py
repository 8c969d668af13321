"""Find how much peaks differ within each group, and along each dimension of the layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from snapreport.compare.among_ranks.compared_rows import Row
from snapreport.compare.among_ranks.holder_table import HolderTable
from snapreport.compare.among_ranks.layout_places import COPIES, dimension_name, varying
from snapreport.compare.among_ranks.odd_words import along_text, copies_text, within_text
from snapreport.compare.among_ranks.rank_groups import Grouped
from snapreport.model.run.run_findings import Imbalance, Replicated
from snapreport.native.sorting import whole_median

_COPIED = ("parameter", "optimizer state", "gradient")
_EQUAL = 0.001
"""Copies may differ by this part: they include the allocator's unsplit blocks."""
_WORTH = 0.01
"""Savings below this part of the peak are not mentioned."""
_NEARLY_ALL = 0.9


def find_imbalances(
    rows: Sequence[Row],
    allocated: NDArray[np.int64],
    groups: Sequence[Grouped],
    cores: Sequence[Sequence[int]],
) -> list[Imbalance]:
    """Return the imbalance along each dimension and within each group, without odd ranks.

    Along a dimension, the smaller figure is the median peak of the ranks at the lowest place; the
    larger one adds the difference between the two places, all else being equal.

    Args:
        rows: all compared rows.
        allocated: int64, shape (n,): their peaks.
        groups: of the rows.
        cores: of each group, the rows that are not odd.
    """
    judged = sorted(member for core in cores for member in core)
    coordinates = [rows[member].coordinates for member in judged]
    found = []
    for dimension in varying(coordinates):
        effects = _effects(dimension, judged, coordinates, allocated)
        if len(effects) > 1:
            low = min(effects, key=lambda place: (effects[place], place))
            high = min(effects, key=lambda place: (-effects[place], place))
            there = [k for k, place in enumerate(coordinates) if place[dimension] == low]
            least = whole_median(allocated[[judged[k] for k in there]])
            most = least + effects[high] - effects[low]
            name = dimension_name(dimension)
            text = along_text(dimension, f"{name} {low}", f"{name} {high}", least, most)
            found.append(Imbalance(dimension, least, most, text))
    for group, core in zip(groups, cores, strict=True):
        if len(core) > 1:
            peaks = allocated[list(core)]
            least, most = int(peaks.min()), int(peaks.max())
            text = within_text(group.name, least, most, len(core) < len(group.members))
            found.append(Imbalance(group.name, least, most, text))
    return found


def _effects(
    dimension: str,
    judged: Sequence[int],
    coordinates: Sequence[Mapping[str, int]],
    allocated: NDArray[np.int64],
) -> dict[int, int]:
    """Return how far each place along a dimension is from ranks that share all other places.

    The plain median of a place's ranks would also depend on the stages that they belong to.
    """
    off: dict[int, list[int]] = {}
    for some in _beside(dimension, coordinates):
        peaks = allocated[[judged[k] for k in some]].tolist()
        middle = whole_median(peaks)
        for k, peak in zip(some, peaks, strict=True):
            off.setdefault(coordinates[k][dimension], []).append(peak - middle)
    return {at: whole_median(each) for at, each in off.items()}


def _beside(dimension: str, coordinates: Sequence[Mapping[str, int]]) -> list[list[int]]:
    """Return sets of two or more ranks that differ only in their place along a dimension."""
    sets: dict[tuple[tuple[str, int], ...], list[int]] = {}
    for k, place in enumerate(coordinates):
        others = tuple(sorted((d, p) for d, p in place.items() if d != dimension))
        sets.setdefault(others, []).append(k)
    return [members for members in sets.values() if len(members) > 1]


def find_copies(rows: Sequence[Row], table: HolderTable) -> list[Replicated]:
    """Return the roles of which all ranks along a data-parallel dimension hold the same amount.

    Equal sizes do not prove equal contents, so the text only says what copies would cost.
    """
    coordinates = [row.coordinates for row in rows]
    found = []
    for dimension in varying(coordinates):
        if dimension not in COPIES:
            continue
        full = _beside(dimension, coordinates)
        copies = len({place[dimension] for place in coordinates})
        for role in _COPIED:
            held = table.role(role)
            alike = [
                members
                for members in full
                if held[members].max() > 0
                and held[members].min() >= (1 - _EQUAL) * held[members].max()
            ]
            if not full or len(alike) < _NEARLY_ALL * len(full):
                continue
            each = whole_median(held[[member for members in alike for member in members]])
            saved = each - -(-each // copies)
            if saved >= _WORTH * whole_median(table.allocated):
                text = copies_text(dimension, copies, role, each, saved)
                found.append(Replicated(dimension, copies, role, each, saved, text))
    return found
