"""The call site without which the peak would be lowest, and the line of the program behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from snapreport.figures.callsites import label_sites, short_site, site_text
from snapreport.figures.curves import live_at
from snapreport.frames.frame_kinds import is_own_file
from snapreport.ground.units import format_bytes
from snapreport.model.diagnoses import Frees, Suggestion
from snapreport.model.findings import MISSING_REASONS, DeviceFigures
from snapreport.model.history import History
from snapreport.model.what_if import WhatIf
from snapreport.native.sorting import is_among

_WORTH = 0.05
"""Below this part of the peak it is not worth a look."""


def begin_with(
    tables: History, device: DeviceFigures, by_site: Sequence[WhatIf]
) -> Iterator[Suggestion]:
    """Yield the call site to begin with, where one raises the peak enough.

    Args:
        tables: the file.
        device: the device's figures.
        by_site: the peak without each call site, the lowest first.
    """
    best = next((each for each in by_site if each.name not in MISSING_REASONS), None)
    if best is None or best.falls < max(_WORTH * device.peak.allocated, 1):
        return
    caller = _own_caller(tables, device, best.name)
    called = f", called from {short_site(caller)}" if caller else ""
    yield Suggestion(
        "largest-site",
        f"Of all call sites, begin with {short_site(best.name)}{called}: without all that is made"
        f" there the peak would be {format_bytes(best.falls)} lower, more than without any other.",
        frees=Frees.exactly(best.falls),
        sites=(best.name,),
    )


def _own_caller(tables: History, device: DeviceFigures, site: str) -> str:
    """Name the nearest line of the user's own project above a call site, ``""`` if it is one."""
    stacks, rows = tables.stacks, device.history.allocations
    number, names = label_sites(device.history, stacks)
    mine = np.flatnonzero(live_at(device.history, device.peak.event, "allocated"))
    mine = mine[is_among(number[mine], [i for i, name in enumerate(names) if name == site])]
    if not len(mine):
        return ""
    held = np.bincount(rows.stack[mine], weights=rows.block_size[mine])
    path = stacks.path(int(held.argmax()))
    own = next((each for each in path if is_own_file(stacks.frames.filenames[each])), None)
    caller = "" if own is None else site_text(stacks, own)
    return "" if caller == site else caller
