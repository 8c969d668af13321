"""Writes allocations as CSV, for spreadsheets and scripts."""

from __future__ import annotations

import csv
import io
from typing import BinaryIO

from snapreport.exporters.export_input import Export
from snapreport.exporters.export_rows import Column, tables
from snapreport.ground.safe_text import csv_cell


def write(export: Export, out: BinaryIO) -> None:
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
