"""What blocks keep from going back to the driver, in any recording."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import snapreport
from snapreport.diagnosis.conclude import find
from snapreport.figures.segments import (
    FEW,
    SMALL_PART,
    Heap,
    KeptSegment,
    allocator_of,
    find_holes,
    find_returnables,
    heap_at,
    kept_segments,
    returnable_bytes,
)
from snapreport.model.findings import DeviceFigures, Findings
from snapreport.model.history import History
from tests.corpus import every_corpus_file
from tests.property.simulated import Simulated, for_simulations, some_events


def brute(heap: Heap) -> list[KeptSegment]:
    """Each segment or page by itself, block by block."""
    found = []
    for k in range(len(heap.address)):
        low, high = int(heap.address[k]), int(heap.address[k] + heap.size[k])
        part = int(heap.granule[k]) if heap.expandable[k] else high - low
        for start in range(low, high, part):
            end = min(start + part, high)
            inside = [
                (
                    int(heap.row[b]),
                    min(int(heap.start[b] + heap.bytes[b]), end) - max(int(heap.start[b]), start),
                )
                for b in np.flatnonzero(heap.segment == k).tolist()
                if heap.start[b] < end and heap.start[b] + heap.bytes[b] > start
            ]
            used = sum(size for _, size in inside)
            whole = sum(int(heap.bytes[np.flatnonzero(heap.row == row)[0]]) for row, _ in inside)
            few = 0 < len(inside) <= FEW and whole <= SMALL_PART * (end - start)
            if few and not heap.private[k]:
                rows = tuple(row for row, _ in inside)
                found.append(KeptSegment(start, end - start, end - start - used, rows))
    return sorted(found, key=lambda each: -each.kept)


def check(tables: History, device: DeviceFigures, event: int, *, slowly: bool) -> None:
    use = allocator_of(device)
    if use.fragmentation[event + 1] < 0:
        return
    heap = heap_at(tables, device, event)
    found, holes = find_returnables(heap), find_holes(heap)
    used = np.zeros(len(heap.size), np.int64)
    np.add.at(used, heap.segment, heap.bytes)
    in_use = (used > 0)[holes.segment] & ~heap.private[holes.segment]
    pages = int(returnable_bytes(heap, holes)[in_use].sum())
    plain = ~heap.private[found.segment]
    kept = int(found.kept[plain].sum())
    private = int((heap.size - used)[heap.private & (used > 0)].sum())
    # What is kept, and pages that could go back, are all that is free in segments partly in use.
    assert kept + pages + private == use.fragmentation[event + 1]
    few = kept_segments(heap)
    assert sum(each.kept for each in few) <= kept
    if slowly:
        assert list(few) == brute(heap)


def check_all(tables: History, found: Findings, *, slowly: bool = True) -> None:
    for device in found.devices:
        if "reserved" in device.curves and not device.history.anomalies:
            for event in some_events(device.history.events):
                check(tables, device, event, slowly=slowly)


@for_simulations(80)
def test_what_blocks_keep_and_free_pages_are_the_fragmentation(simulation: Simulated) -> None:
    check_all(simulation.history, find(simulation.history))


@every_corpus_file
def test_that_holds_of_real_recordings(path: Path) -> None:
    file = snapreport.load(path)
    check_all(file.history, file.findings(), slowly=path.stat().st_size < 1_000_000)
