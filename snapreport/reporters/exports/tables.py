"""Writes tables: allocations as CSV and Parquet, and the ranks of a run as Parquet."""

from __future__ import annotations

import csv
import io
from typing import Any, BinaryIO

from snapreport.ground.errors import ExportError
from snapreport.ground.safe_text import csv_cell
from snapreport.model.run import DeviceFacts, RankFacts, Run
from snapreport.reporters.exports.stack_weights import Column, Export, tables


def write_csv(export: Export, out: BinaryIO) -> None:
    """Write a heading and a row for each allocation; an unknown value is an empty field.

    A text that a spreadsheet would read as a formula gets an apostrophe in front.
    """
    text = io.TextIOWrapper(out, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text, lineterminator="\n")
    for number, columns in enumerate(tables(export)):
        if number == 0:
            writer.writerow(column.name for column in columns)
        writer.writerows(zip(*map(_cells, columns), strict=True))
    text.flush()
    text.detach()


def _cells(column: Column) -> list[int | str]:
    values = column.values.tolist()
    if column.texts is None:
        found: list[int | str] = values
    else:
        texts = list(map(csv_cell, column.texts))
        found = [texts[i] if i >= 0 else "" for i in values]
    if column.known.all():
        return found
    return [v if known else "" for v, known in zip(found, column.known.tolist(), strict=True)]


# Writes allocations as Parquet, for pandas, Polars, DuckDB and the like.


def write_parquet(export: Export, out: BinaryIO) -> None:
    """Write a row for each allocation; texts are dictionary-encoded, each stored once.

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

    def array(column: Column) -> Any:
        absent = ~column.known
        if column.texts is None:
            return pa.array(column.values, pa.int64(), mask=absent)
        places = pa.array(column.values.astype("int32"), pa.int32(), mask=absent)
        return pa.DictionaryArray.from_arrays(places, pa.array(column.texts, pa.string()))

    parts = [
        pa.table({column.name: array(column) for column in columns}) for columns in tables(export)
    ]
    table = pa.concat_tables(parts).unify_dictionaries()
    about = {"curve": export.curve, "source": export.history.source.name}
    pq.write_table(table.replace_schema_metadata(about), out, compression="zstd")


# Writes the figures of all ranks of a run as Parquet, a row for each device of each rank.


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
    dimensions = dict.fromkeys(
        name for rank in run.ranks for name, _ in rank.name.coordinates
    )  # fmt: skip
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
