"""Writes the figures of all ranks of a run as Parquet, a row for each device of each rank."""

from __future__ import annotations

from typing import Any, BinaryIO

from snapreport.ground.errors import ExportError
from snapreport.model.run.rank_facts import DeviceFacts, RankFacts, Run

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
