"""Small blocks that keep whole segments from going back to the driver, in findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from snapreport.diagnosis.finding_tables import top_table
from snapreport.figures.callsites import label_sites, short_site
from snapreport.figures.heap import Heap
from snapreport.figures.segments.kept_segments import KeptSegment, kept_segments
from snapreport.ground.units import format_bytes, format_count
from snapreport.model.diagnoses import Figure, Suggestion, Table
from snapreport.model.findings import MISSING_REASONS, DeviceFigures
from snapreport.model.history import History

_LEAST = 8 << 20
_PART = 0.05
"""Of what lies in pieces: what small blocks keep is named where it is at least this much."""
_ADVICE = 0.25
"""Likewise what long-lived ones keep, to be advised to make them at another time."""
_LONG = 0.25
"""The part of a recording's events from which on a block lives long."""


@dataclass(frozen=True)
class _Keeper:
    """Call sites whose blocks keep segments together."""

    sites: tuple[str, ...]
    kept: int
    segments: int
    held: int
    """Bytes of the blocks."""
    life: int
    """Events for which each of them lives, at the least."""


@dataclass(frozen=True)
class KeptBySmall:
    """What a finding says of segments that small blocks keep; nothing where that is little."""

    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    suggestions: tuple[Suggestion, ...] = ()


def tell_of_kept(
    tables: History,
    device: DeviceFigures,
    heap: Heap,
    pieces: int,
    among: NDArray[np.bool_] | None = None,
) -> KeptBySmall:
    """Say which small blocks keep segments, as far as that is much of what lies in pieces.

    Args:
        heap: its segments and blocks at the moment that the finding is about.
        pieces: the free bytes in segments partly in use that it is about.
        among: bool, shape (n_segments,): the segments that these lie in; None for all.
    """
    kept = kept_segments(heap, among)
    total = sum(each.kept for each in kept)
    if total < max(_LEAST, _PART * pieces):
        return KeptBySmall()
    keepers = _keepers(tables, device, kept)
    figure = Figure(
        "kept by small blocks",
        total,
        meaning="the part of it in segments that one or two small blocks alone keep",
    )
    table = top_table(
        "Segments that one or two small blocks keep from going back to the driver",
        {"kept": "bytes", "segments": "count", "blocks": "bytes", "made by": "text"},
        [(each.kept, each.segments, each.held, " + ".join(each.sites)) for each in keepers],
    )
    return KeptBySmall((figure,), (table,), _advice(device, keepers, pieces))


def _keepers(tables: History, device: DeviceFigures, kept: Sequence[KeptSegment]) -> list[_Keeper]:
    number, names = label_sites(device.history, tables.stacks)
    table = device.history.allocations
    lives = table.free_event - table.alloc_event
    sums: dict[tuple[str, ...], tuple[int, int, set[int]]] = {}
    for each in kept:
        sites = tuple(sorted({names[int(number[row])] for row in each.rows}))
        bytes_, count, rows = sums.get(sites, (0, 0, set()))
        sums[sites] = (bytes_ + each.kept, count + 1, rows | set(each.rows))
    found = [
        _Keeper(
            sites,
            bytes_,
            count,
            held=int(table.block_size[sorted(rows)].sum()),
            life=int(lives[sorted(rows)].min()),
        )
        for sites, (bytes_, count, rows) in sums.items()
    ]
    return sorted(found, key=lambda each: (-each.kept, each.sites))


def _advice(
    device: DeviceFigures, keepers: Sequence[_Keeper], pieces: int
) -> tuple[Suggestion, ...]:
    """Advise to make long-lived blocks at another time: others are gone soon."""
    if not device.recorded:
        return ()
    long = [
        each
        for each in keepers
        if each.life >= _LONG * device.history.events and not set(each.sites) & set(MISSING_REASONS)
    ]
    total, count = sum(each.kept for each in long), sum(each.segments for each in long)
    if total < max(_ADVICE * pieces, _LEAST):
        return ()
    named = tuple(dict.fromkeys(site for each in long for site in each.sites))
    others = f" and {format_count(len(named) - 1)} more" if len(named) > 1 else ""
    segments = "a segment that holds" if count == 1 else f"{format_count(count)} segments that hold"
    return (
        Suggestion(
            "kept-segments",
            f"Make the small blocks of {short_site(named[0])}{others} that live long before the"
            " large ones around them, so that they come to lie together."
            f" They keep {format_bytes(total)} from going back to the driver, in {segments} little"
            " else. torch.cuda.empty_cache() cannot give that back while they live.",
            sites=named,
        ),
    )
