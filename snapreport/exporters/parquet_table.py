"""Writes allocations as Parquet, for pandas, Polars, DuckDB and the like."""

from __future__ import annotations

from typing import Any, BinaryIO

from snapreport.exporters.export_input import Export
from snapreport.exporters.export_rows import Column, tables
from snapreport.ground.errors import ExportError


def write(export: Export, out: BinaryIO) -> None:
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
