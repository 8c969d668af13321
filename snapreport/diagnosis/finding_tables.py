"""What several findings say alike: tables of rows, call sites and holders, and of kept segments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from snapreport.figures.callsites import label_sites, short_site
from snapreport.figures.grouping import group_up
from snapreport.figures.segments import Heap, KeptSegment, kept_segments
from snapreport.ground.records import dataclass
from snapreport.ground.units import format_bytes, format_count
from snapreport.model.diagnoses import Column, Figure, Suggestion, Table, Unit, Value
from snapreport.model.findings import MISSING_REASONS, DeviceFigures
from snapreport.model.history import DeviceHistory, History

TOP = 8
"""Rows shown in a table: the first few call sites mostly hold nearly all of the memory."""
HOLDERS = 12
"""Rows shown in a table of what held the memory: more, because these rows are the answer."""


def top_table(
    title: str, columns: Mapping[str, Unit], rows: Sequence[tuple[Value, ...]], most: int = TOP
) -> Table:
    """Return a table of the first rows, which says how many more there are.

    Args:
        title: of the table.
        columns: the title of each, with its unit.
        rows: the most important first.
        most: how many are shown.
    """
    headings = tuple(Column(name, unit) for name, unit in columns.items())
    return Table(title, headings, tuple(rows[:most]), max(len(rows) - most, 0))


def site_table(
    tables: History,
    history: DeviceHistory,
    rows: NDArray[np.int64],
    title: str,
    heading: str = "allocated",
) -> Table:
    """Return a table of the call sites of some allocations, those with most block bytes first.

    Args:
        rows: int64, shape (n,), rows of the history's allocations.
        title: of the table.
        heading: of the bytes column.
    """
    number, names = label_sites(history, tables.stacks)
    held = group_up(history.allocations, rows, number[rows], names, "allocated")
    return top_table(
        title,
        {"call site": "text", heading: "bytes", "allocations": "count"},
        [(each.name, each.bytes, each.count) for each in held],
    )


def held_tables(
    tables: History, device: DeviceFigures, event: int, title: str
) -> tuple[Table, Table]:
    """Return tables of the call sites and the categories that held the memory after an event.

    Args:
        event: -1 for the start.
        title: the beginning of both titles.
    """
    rows = device.history.allocations
    live = np.flatnonzero(rows.live_at(event))
    total = int(rows.block_size[live].sum())

    def table(what: str, number: NDArray[np.integer], names: Sequence[str], most: int) -> Table:
        held = group_up(rows, live, number[live], names, "allocated")
        return top_table(
            f"{title} by {what}",
            {"bytes": "bytes", "share": "share", "allocations": "count", what: "text"},
            [
                (each.bytes, each.bytes / total if total else 0.0, each.count, each.name)
                for each in held
            ],
            most,
        )

    categories = [category.name for category in device.categories]
    return (
        table("call site", *label_sites(device.history, tables.stacks), HOLDERS),
        table("category", device.category, categories, len(categories)),
    )


# Findings about small blocks that keep whole segments from going back to the driver.


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
