"""Findings about small blocks that keep whole segments from going back to the driver."""

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
"""What small blocks keep is mentioned if it is at least this part of the fragmented bytes."""
_ADVICE = 0.25
"""Advice is given if long-lived small blocks keep at least this part of the fragmented bytes."""
_LONG = 0.25
"""A block is long-lived if it lives for at least this part of the recording's events."""


@dataclass(frozen=True)
class _Keeper:
    """Call sites whose blocks together keep segments."""

    sites: tuple[str, ...]
    kept: int
    segments: int
    held: int
    """Bytes of the blocks."""
    life: int
    """The shortest life of these blocks, in events."""


@dataclass(frozen=True)
class KeptBySmall:
    """What a finding says about segments kept by small blocks; empty if they are few."""

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
    """Say which small blocks keep segments, if they keep much of the fragmented bytes.

    Args:
        heap: segments and blocks at the moment of the finding.
        pieces: the free bytes in segments partly in use.
        among: bool, shape (n_segments,): the segments that these bytes are in; None for all.
    """
    kept = kept_segments(heap, among)
    total = sum(each.kept for each in kept)
    if total < max(_LEAST, _PART * pieces):
        return KeptBySmall()
    keepers = _keepers(tables, device, kept)
    figure = Figure(
        "kept by small blocks",
        total,
        meaning="the part of it in segments kept only by one or two small blocks",
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
    """Advise on when to make long-lived blocks; short-lived ones are gone soon anyway."""
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
            f"Make the small, long-lived blocks of {short_site(named[0])}{others} before the large"
            " ones around them, so that they end up side by side."
            f" They keep {format_bytes(total)} from going back to the driver, in {segments} little"
            " else. torch.cuda.empty_cache() cannot give that back while they live.",
            sites=named,
        ),
    )
