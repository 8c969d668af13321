"""Findings about memory allocated more often, or kept longer, than needed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from snapreport.diagnosis.churn.churn_measure import (
    find_held_through,
    find_pending,
    find_remade,
    find_transients,
)
from snapreport.diagnosis.finding_tables import site_table, top_table
from snapreport.ground.units import format_bytes, format_count, rounded_share
from snapreport.model.diagnoses import Figure, Finding, Frees, Suggestion, Table, View
from snapreport.model.findings import DeviceFigures
from snapreport.model.history import History
from snapreport.native.sorting import distinct

MIB = 1 << 20
_OFTEN, _SHARE = 200, 0.1
"""Allocations made again at once are worth a note if there are at least so many, and this part of
all allocations: fewer cost no time that anyone would notice."""
_TRANSIENT = 0.2
"""Short-lived memory is worth a note if it is this part of the peak, and the peak would fall by
this part without it: below that there is more to gain elsewhere."""
_HELD, _HELD_COSTS = 0.05, 0.1
"""Memory held through an optimizer step is worth a note from this part of the peak on, and a
warning if the peak would fall by the second part without it."""
_PENDING, _PENDING_COSTS = 0.02, 0.25
"""The same for memory waiting for another stream, as parts of the active peak. Some waiting is the
price of working on two streams at once."""


def find_churn(tables: History, device: DeviceFigures) -> Iterator[Finding]:
    """Yield the findings about a device's churn."""
    if not device.recorded:
        return
    yield from _remade(tables, device)
    yield from _transients(tables, device)
    yield from _held_through(tables, device)
    yield from _pending(tables, device)


def _remade(tables: History, device: DeviceFigures) -> Iterator[Finding]:
    found, made = find_remade(tables, device), device.sizes.made
    count, rows = len(found), device.history.allocations
    if count < _OFTEN or count < _SHARE * made:
        return
    share = count / made
    one = int(rows.alloc_event[found[count // 2]])
    turned_over = int(rows.block_size[found].sum())
    yield Finding(
        "churn",
        "note",
        f"{format_count(count)} allocations ({rounded_share(share)}) were made just after one like"
        " them was freed",
        "The same line freed a tensor and at once made another of the same size. The allocator"
        " reuses the memory, so none is lost. But each allocation costs a little time on the CPU:"
        " many of them show where many small operations run one after the other.",
        evidence=(
            Figure("made again at once", count, "count"),
            Figure("share of allocations", round(share, 4), "share"),
            Figure("bytes turned over", turned_over, meaning="their blocks, added up"),
            Figure("allocations in the recording", made, "count"),
        ),
        tables=(site_table(tables, device.history, found, "Who made them", heading="in all"),),
        view=View("events", event=one),  # the list of events shows the free just before it
    )


def _transients(tables: History, device: DeviceFigures) -> Iterator[Finding]:
    peak = device.peak.allocated
    found = find_transients(tables, device)
    if min(found.bytes, found.peak_falls) < max(_TRANSIENT * peak, MIB):
        return
    yield Finding(
        "transient-peak",
        "note",
        f"{format_bytes(found.bytes)} of the {format_bytes(peak)} at the peak is short-lived",
        f"At the peak {rounded_share(found.bytes, peak)} of what is allocated is freed within"
        f" {format_count(found.longest)} events of its allocation. Without the short-lived memory"
        f" of these call sites the peak would be {format_bytes(found.peak_falls)} lower.",
        evidence=(
            Figure("short-lived at the peak", found.bytes),
            Figure("share of the peak", round(found.bytes / peak, 4), "share"),
            Figure("allocations", len(found.rows), "count"),
            Figure(
                "live for at most", found.longest, "event", "events from its allocation to its free"
            ),
            Figure("peak falls by", found.peak_falls, meaning="added up again without them"),
            Figure("peak at event", device.peak.event, "event"),
        ),
        tables=(site_table(tables, device.history, found.rows, "Short-lived at the peak"),),
        suggestions=(
            Suggestion(
                "ask-for-less",
                "Do these operations in parts (chunks of the batch or the vocabulary), or use fused"
                " or in-place ones: less of their temporary memory is then live at once. If they"
                f" needed none, the peak would be {format_bytes(found.peak_falls)} lower.",
            ),
        ),
        view=View("stacks", event=device.peak.event, curve="allocated"),
        bytes=found.peak_falls,
    )


def _held_through(tables: History, device: DeviceFigures) -> Iterator[Finding]:
    found = find_held_through(tables, device)
    peak = device.peak.allocated
    if found is None or found.most < max(_HELD * peak, MIB):
        return
    costs = found.frees.expected >= max(_HELD_COSTS * peak, MIB)
    yield Finding(
        "held-across-stages",
        "warning" if costs else "note",
        f"{format_bytes(found.most)} made before an optimizer step stays live all through it",
        "An optimizer needs parameters, gradients and its own state. As far as its call stacks"
        " show, this memory is none of these, and it is freed only after the optimizer step. It may"
        " be the loss, the model's outputs or the batch, held by a variable."
        + (
            f" Without it the peak would be {format_bytes(found.frees.expected)} lower."
            if found.frees.expected
            else " It does not raise the peak."
        ),
        evidence=(
            Figure(
                "held through an optimizer step", found.most, meaning="the most of any such step"
            ),
            Figure("that optimizer step, from event", found.event, "event"),
            Figure("optimizer steps", found.stages, "count"),
            Figure("peak falls by", found.frees.expected, meaning="added up again without it"),
        ),
        tables=(site_table(tables, device.history, found.rows, "What was held, over all steps"),),
        suggestions=(
            Suggestion(
                "free-earlier",
                "Delete these variables after loss.backward() and before optimizer.step(). The"
                f" peak would be {format_bytes(found.frees.expected)} lower, added up again without"
                " them.",
                "del outputs, loss",
                frees=found.frees,
            ),
        )
        if costs
        else (),
        view=View("live", event=found.event),
        bytes=found.most,
    )


def _pending(tables: History, device: DeviceFigures) -> Iterator[Finding]:
    found = find_pending(device)
    active = int(device.curves["active"].max())
    if found.most < max(_PENDING * active, MIB):
        return
    yield Finding(
        "pending-free",
        "warning" if found.peak_falls >= max(_PENDING_COSTS * active, MIB) else "note",
        f"Up to {format_bytes(found.most)} of freed memory waited for another stream",
        "Memory that was used on another stream (record_stream()) cannot be used again until that"
        " stream is done with it. Until then it counts as active, though the program has freed it."
        f" {format_count(len(found.rows))} allocations waited, the longest for"
        f" {format_count(found.longest)} events.",
        evidence=(
            Figure("waiting at most", found.most),
            Figure("at event", found.event, "event"),
            Figure("active peak falls by", found.peak_falls, meaning="had nothing waited"),
            Figure("allocations that waited", len(found.rows), "count"),
            Figure(
                "longest wait", found.longest, "count", "events from the free to its completion"
            ),
        ),
        tables=(
            site_table(tables, device.history, found.rows, "Whose memory waited", heading="in all"),
            _streams(device, found.rows, found.byte_events),
        ),
        suggestions=(
            Suggestion(
                "wait-for-stream",
                "Let the stream that made the memory wait for the other one"
                " (stream.wait_stream(other)) before the tensors are dropped, instead of calling"
                " record_stream(): then they are free at once. The active peak would be"
                f" {format_bytes(found.peak_falls)} lower, added up again without what waits.",
                "torch.cuda.current_stream().wait_stream(other)",
                frees=Frees.exactly(found.peak_falls),
            ),
        )
        if found.peak_falls
        else (),
        view=View("allocator", event=found.event),  # other views leave out what only waits
        bytes=found.most,
    )


def _streams(device: DeviceFigures, rows: np.ndarray, byte_events: np.ndarray) -> Table:
    """Add up the waiting memory by the stream that allocated it."""
    allocations = device.history.allocations
    streams, place = distinct(allocations.stream[rows])
    held, waited = np.zeros((2, len(streams)), np.int64)
    np.add.at(held, place, allocations.block_size[rows])
    np.add.at(waited, place, byte_events)
    columns = zip(streams.tolist(), held.tolist(), waited.tolist(), strict=True)
    return top_table(
        "By the stream that made it",
        {"stream": "text", "in all": "bytes", "bytes times events": "count"},
        [
            (hex(stream) if stream else "default", size, wait)
            for stream, size, wait in sorted(columns, key=lambda each: -each[-1])
        ],
    )
