"""Name sets of ranks by their places in the parallel layout.

Ranks are numbered as in Megatron-LM: the first dimension of a layout varies fastest, so with
``tp=8,pp=4,dp=2`` rank 8 is the first of pipeline stage 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, combinations

from snapreport.compare.among_ranks.rank_words import number_ranges
from snapreport.ground.units import list_of

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
