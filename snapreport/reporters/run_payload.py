"""Packs a run into the block of typed columns that its page unpacks.

The layout is that of ``reporters/payload.py``, with a header of its own;
``templates/app/run/data/run_data.ts`` reads it. A column of bytes is exact: if all its values
are multiples of 512, as PyTorch's block sizes are, it is stored in units of 512 bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.files import gzipped
from snapreport.ground.safe_text import shown
from snapreport.model.run import (
    Cells,
    DeviceFacts,
    Difference,
    Holder,
    RunFindings,
    coarser,
    smallest_shift,
)
from snapreport.reporters.payload import Columns, Strings
from snapreport.reporters.run import ODD_WORDS, PEAK_FIELDS, RunRow, difference_name, parting_text

FORMAT = 1

_MOST_CELLS = 1 << 19
"""The most cells of all ranks on one axis, about as many as the page draws at once."""
_LEAST_CELLS = 64
_HOLDERS = 12
"""The most holders of each kind for one rank; the others are added up as one."""
_BLOCK = 512

_USUAL = 0.95
"""The share of ranks, by lowest peak, that counts as usual."""
_FAR = 2
"""Peaks of more than this many times the highest usual one are above the heat map's scale."""
_FLAT = 0.5
"""If nearly all cells are above this part of the scale, it does not begin at 0."""
_COVERED = 0.15
"""The time axis is used only if ranks cover this share of it; dumps of different days do not."""


@dataclass(frozen=True)
class HeatScale:
    """What the colours of a heat map stand for; values far above the rest have their own.

    The ends of the scale (``low``, ``high``), and the lowest and highest value of any cell.
    """

    low: int
    high: int
    least: int
    most: int


def scale_of(rows: Sequence[NDArray[np.int64]]) -> HeatScale:
    """Return the scale of one curve's cells, an array for each rank; -1 is an empty cell."""
    cells = [row[row >= 0] for row in rows]
    cells = [row for row in cells if len(row)]
    if not cells:
        return HeatScale(0, 1, 0, 0)
    peaks = np.sort([int(row.max()) for row in cells])
    usual = peaks[int(_USUAL * (len(peaks) - 1))]
    high, most = int(peaks[peaks <= _FAR * usual][-1]), int(peaks[-1])
    together = np.concatenate(cells)
    low = int(np.percentile(together, 2, method="lower"))
    return HeatScale(low if low > _FLAT * high else 0, max(high, 1), int(together.min()), most)


def first_axis(devices: Sequence[DeviceFacts]) -> Literal["time", "event"]:
    """Return the axis to compare ranks on: time, if they were recorded at the same time."""
    known = [_reach(device.by_time) for device in devices if device.by_time is not None]
    if not known:
        return "event"
    span = max(end for _, end in known) - min(start for start, _ in known)
    covered = sum(end - start for start, end in known)
    return "time" if covered >= _COVERED * span * len(devices) else "event"


def _reach(cells: Cells) -> tuple[int, int]:
    return cells.first << cells.shift, (cells.first + len(cells.allocated)) << cells.shift


def pack_run(findings: RunFindings, rows: Sequence[RunRow]) -> bytes:
    """Pack what the page draws and reads, gzip-compressed; equal input gives equal bytes.

    Args:
        findings: about the run.
        rows: ``rows_of()`` the run.
    """
    columns, strings = Columns(), Strings()
    devices = [row.device for row in rows]
    names = [row.rank.name for row in rows]

    def numbers(values: Iterable[int | None]) -> dict[str, Any]:
        return columns.add([_or_none(value) for value in values])

    def texts(values: Iterable[str]) -> dict[str, Any]:
        return columns.add([strings.id(value) if value else -1 for value in values])

    by_row = {
        "label": texts(row.name for row in rows),
        "source": texts(row.rank.source for row in rows),
        "host": texts(name.host for name in names),
        "place": texts(
            " ".join(f"{key}={value}" for key, value in name.coordinates) for name in names
        ),
        "kind": texts(device.kind for device in devices),
        "link": texts(row.link for row in rows),
        "rank": numbers(name.rank for name in names),
        "group": numbers(row.group for row in rows),
        **{
            name: numbers(getattr(device, name) for device in devices)
            for name in PEAK_FIELDS.split()
        },
        "recorded": numbers(int(device.recorded) for device in devices),
        "growth": columns.add([row.growth or 0 for row in rows]),
        "growth_known": columns.add([int(row.growth is not None) for row in rows]),
    }
    header = {
        "format": FORMAT,
        "columns": by_row,
        "cells": {
            "event": _pack_cells(columns, [device.by_event for device in devices]),
            "time": _pack_cells(columns, [device.by_time for device in devices]),
        },
        "steps": _pack_steps(columns, devices),
        "holders": _pack_holders(columns, strings, devices),
        "failed": _pack_failed(columns, strings, devices),
        "findings": _pack_findings(columns, strings, devices),
        "axis": first_axis(devices),
        "scales": _scales(devices),
        "groups": [{"name": shown(group.name)} for group in findings.groups],
        "odd": [
            {
                "row": odd.row,
                "code": odd.code,
                "word": ODD_WORDS[odd.code],
                "sentence": shown(odd.sentence),
                "parting": parting_text(odd),
                "event": odd.parts_event,
                "differences": [_difference(each) for each in odd.differences[:_HOLDERS]],
            }
            for odd in findings.odd
        ],
        "strings": strings.values,
    }
    return gzipped(columns.with_header(header), 9)


def _or_none(value: int | None) -> int:
    """Return a number as a column has it: -1 where it is not known."""
    return -1 if value is None else value


def _difference(difference: Difference) -> dict[str, Any]:
    return {
        "kind": difference.kind,
        "name": shown(difference_name(difference)),
        "bytes": difference.bytes,
        "usual": difference.usual,
        "each": [difference.size, difference.of_size],
        "usual_each": [difference.usual_size, difference.usual_of_size],
    }


def _pack_cells(columns: Columns, curves: Sequence[Cells | None]) -> dict[str, Any] | None:
    """Pack the cells of all rows, one after the other; None if no row has any."""
    present = [each for each in curves if each is not None and len(each.allocated)]
    if not present:
        return None
    most = max(_MOST_CELLS // len(present), _LEAST_CELLS)
    nothing = Cells(0, 0, np.zeros(0, np.int64), None)
    fitted = [nothing if each is None else _fitted(each, most) for each in curves]
    allocated = np.concatenate([each.allocated for each in fitted])
    reserved = [
        np.full(len(each.allocated), -_BLOCK) if each.reserved is None else each.reserved
        for each in fitted
    ]
    return {
        "first": columns.add([each.first for each in fitted]),
        "shift": columns.add([each.shift for each in fitted]),
        "count": columns.add([len(each.allocated) for each in fitted]),
        "allocated": _add_bytes(columns, allocated),
        "reserved": _add_bytes(columns, np.concatenate(reserved)),
    }


def _fitted(cells: Cells, most: int) -> Cells:
    """Return the cells, merged into wider ones if there are more than ``most``."""
    last = cells.first + max(len(cells.allocated) - 1, 0)
    return coarser(cells, cells.shift + smallest_shift(cells.first, last, most))


def _add_bytes(columns: Columns, values: Any) -> dict[str, Any]:
    """Append a column of bytes; return its entry and the bytes per unit."""
    column = np.asarray(values, dtype=np.int64)
    unit = _BLOCK if not (column % _BLOCK).any() else 1
    return {"unit": unit, "column": columns.add(column // unit, delta=True)}


def _pack_steps(columns: Columns, devices: Sequence[DeviceFacts]) -> dict[str, Any]:
    steps = [step for device in devices for step in device.steps]
    return {
        "count": columns.add([len(device.steps) for device in devices]),
        "number": columns.add([step.number for step in steps], delta=True),
        "allocated": _add_bytes(columns, [step.allocated for step in steps]),
        "left": _add_bytes(columns, [step.left for step in steps]),
    }


def _pack_holders(
    columns: Columns, strings: Strings, devices: Sequence[DeviceFacts]
) -> dict[str, Any]:
    kept = [_few(device.holders) for device in devices]
    holders = [holder for each in kept for holder in each]
    return {
        "count": columns.add([len(each) for each in kept]),
        "kind": columns.add([strings.id(holder.kind) for holder in holders]),
        "key": columns.add([strings.id(holder.key) for holder in holders]),
        "bytes": _add_bytes(columns, [holder.bytes for holder in holders]),
        "allocations": columns.add([holder.count for holder in holders]),
        "size": columns.add([holder.size for holder in holders]),
        "of_size": columns.add([holder.of_size for holder in holders]),
    }


def _few(holders: Sequence[Holder]) -> list[Holder]:
    """Return the largest of each kind, with the rest as one, so that they still add up."""
    few = []
    for kind in ("site", "role", "stage"):
        those = [holder for holder in holders if holder.kind == kind]
        named = [holder for holder in those if holder.key][:_HOLDERS]
        few += named
        rest = [holder for holder in those if holder not in named]
        if rest and kind != "stage":  # stages overlap: they do not add up
            total = sum(holder.bytes for holder in rest)
            few.append(Holder(kind, "", total, sum(holder.count for holder in rest), 0, 0))
    return few


def _pack_failed(
    columns: Columns, strings: Strings, devices: Sequence[DeviceFacts]
) -> dict[str, Any]:
    failed = [request for device in devices for request in device.failed]
    return {
        "count": columns.add([len(device.failed) for device in devices]),
        "event": columns.add([request.event for request in failed]),
        "time_us": columns.add([_or_none(request.time_us) for request in failed]),
        "size": columns.add([request.size for request in failed]),
        "site": columns.add([strings.id(request.site) for request in failed]),
    }


def _pack_findings(
    columns: Columns, strings: Strings, devices: Sequence[DeviceFacts]
) -> dict[str, Any]:
    found = [finding for device in devices for finding in device.findings]
    return {
        "count": columns.add([len(device.findings) for device in devices]),
        "severity": columns.add([strings.id(finding.severity) for finding in found]),
        "title": columns.add([strings.id(finding.title) for finding in found]),
    }


def _scales(devices: Sequence[DeviceFacts]) -> dict[str, dict[str, list[int]]]:
    """Return the scale of colours (low, high, least, most) by kind of memory and curve."""
    scales = {}
    for kind in dict.fromkeys(device.kind for device in devices):
        cells = [device.by_event for device in devices if device.kind == kind]
        reserved = [each.reserved for each in cells if each.reserved is not None]
        scales[kind] = {
            name: [scale.low, scale.high, scale.least, scale.most]
            for name, scale in (
                ("allocated", scale_of([each.allocated for each in cells])),
                ("reserved", scale_of(reserved)),
            )
        }
    return scales
