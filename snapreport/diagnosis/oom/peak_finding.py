"""The finding about the peak, where no request for memory failed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from snapreport.diagnosis.advice.alike_layers import layers_sentence
from snapreport.diagnosis.advice.program_advice import situation_of, suggest
from snapreport.diagnosis.finding_tables import HOLDERS, held_tables, top_table
from snapreport.diagnosis.oom.largest_site import begin_with, look_into_compiled
from snapreport.figures.what_if_peaks import Members, find_members, find_what_if
from snapreport.ground.units import format_bytes, format_count, plural
from snapreport.model.diagnoses import Figure, Finding, Table, View
from snapreport.model.findings import Amounts, DeviceFigures
from snapreport.model.history import History
from snapreport.model.what_if import WhatIf


def peak_finding(tables: History, device: DeviceFigures) -> Finding:
    """Say what held the memory at the allocated peak, and what would lower it.

    Without a history, the finding is about the state when the snapshot was written.
    """
    peak = device.peak
    size = format_bytes(peak.allocated)
    live = plural(peak.live, "allocation was", "allocations were")
    view = View(event=peak.event, curve="allocated")
    if not device.recorded:
        return Finding(
            "peak",
            "note",
            f"{size} allocated when the snapshot was written",
            f"{live} live. No history was recorded, so it is not known how high the peak was, nor"
            " whether a request for memory failed.",
            evidence=_figures(peak, peak.allocated_width),
            tables=held_tables(tables, device, peak.event, "Held"),
            view=view,
            bytes=peak.allocated,
        )
    curve = device.curves["allocated"]
    by_site = find_what_if(device.history, find_members(tables, device.history, "site"), curve)
    situation = situation_of(tables, device)
    layers = layers_sentence(situation, peak.event) if situation is not None else ""
    where = "at the start" if peak.event < 0 else f"at event {format_count(peak.event)}"
    return Finding(
        "peak",
        "note",
        f"{size} allocated at the peak, {where}",
        f"{live} live then. {layers}{_no_failure(tables, device)}The tables show how far the peak"
        " would fall without each part: by less than the part held if another moment then becomes"
        " the peak.",
        evidence=_figures(peak, device.peaks["allocated"].width),
        tables=(
            _what_if(by_site, "call site"),
            _what_if(find_what_if(device.history, _categories(device), curve), "category"),
        ),
        suggestions=(
            *(suggest(situation) if situation is not None else ()),
            *look_into_compiled(tables, device, situation, peak.event),
            *begin_with(tables, device, by_site),
        ),
        view=view,
        bytes=peak.allocated,
    )


def _no_failure(tables: History, device: DeviceFigures) -> str:
    """Say that no request failed, as far as that is known: profilers record no failures."""
    noted = tables.recorder
    if noted is not None and noted.cpu_failure is not None:
        return (
            "It was not a request for this device's memory that ended the program, but one for the"
            " CPU's, which is not in this recording. "
        )
    if device.history.device.kind == "cpu":
        return ""
    lost = any(each.code == "ring-overflowed" for each in device.warnings)
    where = "the part that was recorded" if lost else "this recording"
    return f"No request for memory failed on this device in {where}. "


def _figures(peak: Amounts, width: int) -> tuple[Figure, ...]:
    most = peak.allocated + width
    figures = [
        Figure("allocated", peak.allocated, meaning="in use by the program", most=most),
        Figure("requested", peak.requested, meaning="what the program asked for"),
        Figure("slack", peak.slack, meaning="what blocks hold beyond what was asked for"),
    ]
    if peak.reserved is not None:
        figures.append(Figure("reserved", peak.reserved, meaning="got from the driver by PyTorch"))
    if peak.inactive is not None:
        figures.append(
            Figure("inactive", peak.inactive, meaning="reserved, and free for later requests")
        )
    return tuple(figures)


def _what_if(found: Sequence[WhatIf], what: str) -> Table:
    rows = [each for each in found if each.falls]
    return top_table(
        f"The peak without a {what}",
        {"held": "bytes", "lower by": "bytes", "peak then": "bytes", "at event": "event",
         what: "text"},
        [(each.held, each.falls, each.peak_bytes, each.peak_event, each.name) for each in rows],
        HOLDERS,
    )  # fmt: skip


def _categories(device: DeviceFigures) -> Members:
    """Group allocations by the device's categories, which a user's rules may have defined."""
    number = device.category.astype(np.int64)
    return np.arange(len(number)), number, [category.name for category in device.categories]
