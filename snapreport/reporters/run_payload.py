"""Packs a run into the block of typed columns that its page unpacks.

The layout is that of ``reporters/payload.py``, with a header of its own;
``templates/app/run/data/run_data.ts`` reads it. A column of bytes is exact: if all its values
are multiples of 512, as PyTorch's block sizes are, it is stored in units of 512 bytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.files import gzipped
from snapreport.ground.records import dataclass
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
_AT_ONCE = 1 << 15
_LOWEST = 0.02
"""The share of cells, the lowest, that count as unusual at the other end of the scale."""
_FLAT = 0.5
"""If nearly all cells are above this part of the scale, it does not begin at 0."""
_COVERED = 0.15
"""The time axis is used only if ranks cover this share of it; dumps of different days do not."""


Given = TypeVar("Given")
Taken = TypeVar("Taken")


@dataclass(frozen=True)
class HeatScale:
    """What the colours of a heat map stand for; values far above the rest have their own.

    The ends of the scale (``low``, ``high``), and the lowest and highest value of any cell.
    """

    low: int
    high: int
    least: int
    most: int


class Each(Iterable[Taken]):
    """What a function gives for each of some items, one at a time; nothing where it is None."""

    def __init__(self, items: Iterable[Given], take: Callable[[Given], Taken | None]) -> None:
        """Take them anew each time that this is gone through."""
        self._taken: Callable[[], Iterator[Taken | None]] = lambda: map(take, items)

    def __iter__(self) -> Iterator[Taken]:
        """Take the first one."""
        return (each for each in self._taken() if each is not None)


def scale_of(rows: Iterable[NDArray[np.int64]]) -> HeatScale:
    """Return the scale of one curve's cells, an array for each rank; -1 is an empty cell.

    ``rows`` is gone through twice, and has to be the same each time.
    """
    of_rows = [(int(row.max()), np.count_nonzero(row >= 0)) for row in rows if len(row)]
    peaks = np.sort([most for most, count in of_rows if count])
    if not len(peaks):
        return HeatScale(0, 1, 0, 0)
    usual = peaks[int(_USUAL * (len(peaks) - 1))]
    high, most = int(peaks[peaks <= _FAR * usual][-1]), int(peaks[-1])
    place = int(_LOWEST * (sum(count for _, count in of_rows) - 1))
    lowest = np.zeros(0, np.int64)
    for row in rows:
        lowest = np.concatenate([lowest, row[row >= 0]])
        if len(lowest) > 2 * place + _AT_ONCE:
            lowest = np.partition(lowest, place)[: place + 1]
    lowest.sort()
    low = int(lowest[place])
    return HeatScale(low if low > _FLAT * high else 0, max(high, 1), int(lowest[0]), most)


def first_axis(devices: Sequence[DeviceFacts]) -> Literal["time", "event"]:
    """Return the axis to compare ranks on: time, if they were recorded at the same time."""
    known = [_reach(cells) for device in devices if (cells := device.by_time) is not None]
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
            "event": _pack_cells(columns, devices, lambda device: device.by_event),
            "time": _pack_cells(columns, devices, lambda device: device.by_time),
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


def _pack_cells(
    columns: Columns,
    devices: Sequence[DeviceFacts],
    take: Callable[[DeviceFacts], Cells | None],
) -> dict[str, Any] | None:
    """Pack the cells of all rows, one after the other; None if no row has any."""
    present = sum(each is not None and len(each.allocated) > 0 for each in map(take, devices))
    if not present:
        return None
    most = max(_MOST_CELLS // present, _LEAST_CELLS)
    nothing = Cells(0, 0, np.zeros(0, np.int64), None)

    def fitted() -> Iterator[Cells]:
        for each in map(take, devices):
            yield nothing if each is None else _fitted(each, most)

    def joined(reserved: bool) -> NDArray[np.int64]:
        values, end = np.full(sum(count), -_BLOCK), 0
        for each in fitted():
            begin, end = end, end + len(each.allocated)
            if not reserved:
                values[begin:end] = each.allocated
            elif each.reserved is not None:
                values[begin:end] = each.reserved
        return values

    about = [(each.first, each.shift, len(each.allocated)) for each in fitted()]
    first, shift, count = zip(*about, strict=True)
    return {
        "first": columns.add(first),
        "shift": columns.add(shift),
        "count": columns.add(count),
        "allocated": _add_bytes(columns, joined(reserved=False)),
        "reserved": _add_bytes(columns, joined(reserved=True)),
    }


def _fitted(cells: Cells, most: int) -> Cells:
    """Return the cells, merged into wider ones if there are more than ``most``."""
    last = cells.first + max(len(cells.allocated) - 1, 0)
    return coarser(cells, cells.shift + smallest_shift(cells.first, last, most))


def _add_bytes(columns: Columns, values: Any) -> dict[str, Any]:
    """Append a column of bytes; return its entry and the bytes per unit."""
    column = np.asarray(values, dtype=np.int64)
    unit = _BLOCK if not np.bitwise_or.reduce(column, initial=0) % _BLOCK else 1
    return {"unit": unit, "column": columns.add(column // unit, delta=True)}


def _numbers(values: Iterable[int]) -> NDArray[np.int64]:
    return np.fromiter(values, np.int64)


def _pack_steps(columns: Columns, devices: Sequence[DeviceFacts]) -> dict[str, Any]:
    def of(name: str) -> NDArray[np.int64]:
        return _numbers(getattr(step, name) for device in devices for step in device.steps)

    return {
        "count": columns.add([len(device.steps) for device in devices]),
        "number": columns.add(of("number"), delta=True),
        "allocated": _add_bytes(columns, of("allocated")),
        "left": _add_bytes(columns, of("left")),
    }


def _pack_holders(
    columns: Columns, strings: Strings, devices: Sequence[DeviceFacts]
) -> dict[str, Any]:
    names = "bytes", "count", "size", "of_size"
    kept: dict[str, array[int]] = {name: array("q") for name in ("kind", "key", *names)}
    counts = []
    for few in Each(devices, lambda device: _few(device.holders)):
        counts.append(len(few))
        kept["kind"].extend(strings.id(holder.kind) for holder in few)
    for few in Each(devices, lambda device: _few(device.holders)):
        kept["key"].extend(strings.id(holder.key) for holder in few)
        for name in names:
            kept[name].extend(getattr(holder, name) for holder in few)
    return {
        "count": columns.add(counts),
        "kind": columns.add(kept["kind"]),
        "key": columns.add(kept["key"]),
        "bytes": _add_bytes(columns, kept["bytes"]),
        "allocations": columns.add(kept["count"]),
        "size": columns.add(kept["size"]),
        "of_size": columns.add(kept["of_size"]),
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
        some = [device for device in devices if device.kind == kind]
        allocated = scale_of(Each(some, lambda device: device.by_event.allocated))
        reserved = scale_of(Each(some, lambda device: device.by_event.reserved))
        scales[kind] = {
            name: [scale.low, scale.high, scale.least, scale.most]
            for name, scale in (("allocated", allocated), ("reserved", reserved))
        }
    return scales
