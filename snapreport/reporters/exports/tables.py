"""Writes tables: allocations as CSV and Parquet, and the ranks of a run as Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.errors import ExportError
from snapreport.ground.records import dataclass
from snapreport.ground.safe_text import csv_cell
from snapreport.model.history import START
from snapreport.model.roles import ROLES
from snapreport.model.run import DeviceFacts, RankFacts, Run
from snapreport.model.snapshot import NO_ID, NO_TIME
from snapreport.reporters.exports.stack_weights import (
    DeviceExport,
    Export,
    site_names,
    stack_nodes,
    stack_texts,
)


def write_csv(export: Export, out: BinaryIO) -> None:
    """Write a heading and a row for each allocation; an unknown value is an empty field.

    A text that a spreadsheet would read as a formula gets an apostrophe in front.
    """
    text = io.TextIOWrapper(out, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text, lineterminator="\n")
    for number, columns in enumerate(_tables(export)):
        if number == 0:
            writer.writerow(column.name for column in columns)
        writer.writerows(zip(*map(_cells, columns), strict=True))
    text.flush()
    text.detach()


def _cells(column: _Column) -> list[int | str]:
    values = column.values.tolist()
    if column.texts is None:
        found: list[int | str] = values
    else:
        texts = list(map(csv_cell, column.texts))
        found = [texts[i] if i >= 0 else "" for i in values]
    if column.known.all():
        return found
    return [v if known else "" for v, known in zip(found, column.known.tolist(), strict=True)]


def write_parquet(export: Export, out: BinaryIO) -> None:
    """Write a row for each allocation, for pandas, Polars, DuckDB and the like.

    Texts are dictionary-encoded, each stored once.

    Raises:
        ExportError: pyarrow, an extra, is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ExportError(
            "Parquet needs pyarrow; install it with pip install pyarrow, or export csv."
        ) from error

    def array(column: _Column) -> Any:
        absent = ~column.known
        if column.texts is None:
            return pa.array(column.values, pa.int64(), mask=absent)
        places = pa.array(column.values.astype("int32"), pa.int32(), mask=absent)
        return pa.DictionaryArray.from_arrays(places, pa.array(column.texts, pa.string()))

    parts = [
        pa.table({column.name: array(column) for column in columns}) for columns in _tables(export)
    ]
    table = pa.concat_tables(parts).unify_dictionaries()
    about = {"curve": export.curve, "source": export.history.source.name}
    pq.write_table(table.replace_schema_metadata(about), out, compression="zstd")


@dataclass(frozen=True, eq=False)
class _Column:
    """One column of a table: integers, or texts by their places in a list."""

    name: str
    values: NDArray[Any]
    """Integers; for texts, places in ``texts``."""
    known: NDArray[np.bool_]
    """False where there is no value."""
    texts: list[str] | None = None


def _tables(export: Export) -> Iterator[list[_Column]]:
    """Yield the columns of each device's allocations, in birth order; all have the same columns.

    If a moment was named, the rows are the allocations live then.
    """
    for device in export.devices:
        yield _columns(export, device)


def _columns(export: Export, device: DeviceExport) -> list[_Column]:
    found, history = device.found, export.history
    rows, never = found.history.allocations, found.history.events
    chosen = np.sort(device.live.rows) if export.at_moment else np.arange(len(rows))
    everyone = np.ones(len(chosen), np.bool_)

    def integers(name: str, values: NDArray[Any], *none: int) -> _Column:
        return _Column(name, values[chosen].astype(np.int64), ~np.isin(values[chosen], none))

    def texts(name: str, ids: NDArray[Any], named: Callable[[list[int]], list[str]]) -> _Column:
        used, place = np.unique(ids[chosen], return_inverse=True)
        begin = int((used < 0).sum())  # NO_ID, the only one below zero, has no text
        names = named(used[begin:].tolist())
        return _Column(name, place.astype(np.int64) - begin, place >= begin, names)

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
        _Column("device", np.zeros(len(chosen), np.int64), everyone, [str(found.device)]),
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


# The ranks of a run.


_NUMBERS = (
    "place", "events", "capacity", "allocated", "allocated_width", "peak_event", "peak_time_us",
    "reserved",
)  # fmt: skip


def write_run_table(run: Run, out: BinaryIO) -> None:
    """Write a row for each device; a file without figures has one row, with only its error.

    Places in the layout are separate columns: ``at_tp``, ``at_pp``.

    Raises:
        ExportError: pyarrow, an extra, is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ExportError("Parquet needs pyarrow; install it with pip install pyarrow.") from error
    dimensions = dict.fromkeys(name for rank in run.ranks for name, _ in rank.name.coordinates)
    rows = [
        _row(rank, device, list(dimensions))
        for rank in run.ranks
        for device in rank.devices or (None,)
    ]
    texts = ("source", "label", "host", "error", "device", "kind", "findings")
    columns = {
        name: pa.array(
            [row.get(name) for row in rows], pa.string() if name in texts else pa.int64()
        )
        for name in (rows[0] if rows else ())
    }
    table = pa.table(columns).replace_schema_metadata({"title": run.title})
    pq.write_table(table, out, compression="zstd")


def _row(rank: RankFacts, device: DeviceFacts | None, dimensions: list[str]) -> dict[str, Any]:
    places = dict(rank.name.coordinates)
    row: dict[str, Any] = {
        "source": rank.source,
        "label": rank.label,
        "rank": rank.name.rank,
        "dump": rank.name.dump,
        "host": rank.name.host,
        "file_size": rank.size,
        "error": rank.error,
        "device": None if device is None else device.device,
        "kind": None if device is None else device.kind,
        **{name: getattr(device, name, None) for name in _NUMBERS},
        "steps": None if device is None else len(device.steps),
        "failed": None if device is None else len(device.failed),
        "first_failed_us": device.failed[0].time_us if device and device.failed else None,
        "growth": None if device is None else sum(each.growth for each in device.findings),
        "findings": None if device is None else " ".join(each.code for each in device.findings),
    }
    return row | {f"at_{name}": places.get(name) for name in dimensions}
