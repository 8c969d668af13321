"""Makes the columns of a table of allocations, for CSV and Parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapreport.exporters.export_input import DeviceExport, Export
from snapreport.exporters.stack_weights import site_names, stack_nodes, stack_texts
from snapreport.model.history import START
from snapreport.model.roles import ROLES
from snapreport.model.snapshot import NO_ID, NO_TIME


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a table: integers, or texts by their places in a list."""

    name: str
    values: NDArray[Any]
    """Integers; for texts, places in ``texts``."""
    known: NDArray[np.bool_]
    """False where there is no value."""
    texts: list[str] | None = None


def tables(export: Export) -> Iterator[list[Column]]:
    """Yield the columns of each device's allocations, in birth order; all have the same columns.

    If a moment was named, the rows are the allocations live then.
    """
    for device in export.devices:
        yield _columns(export, device)


def _columns(export: Export, device: DeviceExport) -> list[Column]:
    found, history = device.found, export.history
    rows, never = found.history.allocations, found.history.events
    chosen = np.sort(device.live.rows) if export.at_moment else np.arange(len(rows))
    everyone = np.ones(len(chosen), np.bool_)

    def integers(name: str, values: NDArray[Any], *none: int) -> Column:
        return Column(name, values[chosen].astype(np.int64), ~np.isin(values[chosen], none))

    def texts(name: str, ids: NDArray[Any], named: Callable[[list[int]], list[str]]) -> Column:
        used, place = np.unique(ids[chosen], return_inverse=True)
        begin = int((used < 0).sum())  # NO_ID, the only one below zero, has no text
        names = named(used[begin:].tolist())
        return Column(name, place.astype(np.int64) - begin, place >= begin, names)

    def strings(ids: list[int]) -> list[str]:
        return [history.strings[i] for i in ids]

    def pools(ids: list[int]) -> list[str]:
        return ["{}:{}".format(*history.pools[i]) for i in ids]

    seen = found.roles.seen
    sure = np.array([round(each.confidence * 100) for each in seen])
    sites, site = site_names(export, found)
    behind, lines = export.forward
    forward = behind[rows.stack] - 1
    return [
        Column("device", np.zeros(len(chosen), np.int64), everyone, [str(found.device)]),
        integers("allocation", np.arange(len(rows))),
        integers("address", rows.addr),
        integers("version", rows.version),
        integers("requested_bytes", rows.size),
        integers("block_bytes", rows.block_size),
        integers("block_bytes_max", rows.block_size_max),
        integers("alloc_event", rows.alloc_event, START),
        integers("free_requested_event", rows.free_requested_event, never, START),
        integers("free_completed_event", rows.free_event, never),
        integers("alloc_time_us", rows.alloc_time_us, NO_TIME),
        integers("free_requested_time_us", rows.free_requested_time_us, NO_TIME),
        integers("free_completed_time_us", rows.free_time_us, NO_TIME),
        integers("stream", rows.stream),
        texts("pool", rows.pool, pools),
        texts("category", np.where(rows.category == NO_ID, -1, rows.category), strings),
        texts("role", found.roles.role, lambda ids: [ROLES[i] for i in ids]),
        texts("role_evidence", found.roles.evidence, lambda ids: [seen[i].text for i in ids]),
        integers("role_confidence_percent", sure[found.roles.evidence]),
        texts("compile_context", rows.compile_context, strings),
        texts("metadata", rows.metadata, strings),
        texts("forward_line", forward, lambda ids: [lines[i + 1] for i in ids]),
        texts("call_site", site, lambda ids: [sites[i] for i in ids]),
        texts(
            "stack", stack_nodes(export, found), lambda nodes: stack_texts(history.stacks, nodes)
        ),
    ]
