"""List every string in a table: CSV, and Parquet if pyarrow is installed."""

from __future__ import annotations

import csv
import io
from collections import Counter
from pathlib import Path

from snapreport.ground.errors import InputError
from snapreport.names.tally import Tally, is_number

_LONGEST_CELL = 1 << 26


def csv_strings(text: str, tally: Tally) -> None:
    """Count the headings and the cells of a table, each cell by its column's heading.

    Raises:
        InputError: it is not a table.
    """
    before = csv.field_size_limit(_LONGEST_CELL)
    try:
        rows = csv.reader(io.StringIO(text, newline=""))
        heading = next(rows, [])
        for name in heading:
            tally.add("column", name)
        cells: Counter[tuple[int, str]] = Counter()
        for row in rows:
            cells.update((i, cell) for i, cell in enumerate(row) if not is_number(cell))
    except csv.Error as error:
        raise InputError(f"is damaged CSV ({error}); write it again.") from error
    finally:
        csv.field_size_limit(before)
    for (i, cell), count in cells.items():
        tally.add(heading[i] if i < len(heading) else "cell", cell, count)


def parquet_strings(path: Path, tally: Tally) -> None:
    """Count the names of columns, their texts, and the notes about the file.

    Raises:
        InputError: it is damaged, or pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq
    except ImportError as error:
        raise InputError(
            "is Parquet, which needs pyarrow; install it with pip install pyarrow."
        ) from error
    try:
        with pq.ParquetFile(path) as file:
            tally.add("made by", file.metadata.created_by or "")
            notes = dict(file.metadata.metadata or {})
            notes.pop(b"ARROW:schema", None)  # the schema once more, encoded
            table = file.read()
        notes.update(table.schema.metadata or {})
        for key, value in notes.items():
            tally.add("key", key.decode("utf-8", "replace"))
            tally.add("note", value.decode("utf-8", "replace"))
        for name, column in zip(table.column_names, table.columns, strict=True):
            tally.add("column", name)
            if pa.types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
            if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
                continue
            for row in pc.value_counts(column.cast(pa.string())).to_pylist():
                tally.add(name, row["values"] or "", row["counts"])
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"is damaged Parquet ({error}); export it again.") from error
