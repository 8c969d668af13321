"""Writes ``run.db``: the figures of every rank as SQLite tables (see ``run_schema.sql``)."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from snapreport.bundle.table_writing import TableWriter, filled_database
from snapreport.model.history import START
from snapreport.model.run.rank_facts import Cells, DeviceFacts, HolderKind, RankFacts, Run

HOLDER_KINDS: tuple[HolderKind, ...] = get_args(HolderKind)
"""Kinds of holders, by their number in the table."""
SCHEMA = Path(__file__).with_name("run_schema.sql")


def write_run_database(run: Run) -> bytes:
    """Return the bytes of an SQLite file that holds a run; equal runs give equal bytes."""
    return filled_database(SCHEMA, lambda tables: _Writer(tables).write(run))


class _Writer:
    """Fills the tables; ids count over all ranks."""

    def __init__(self, tables: TableWriter) -> None:
        self._insert = tables.add_rows
        self._tables = tables
        self._keys: dict[str, int] = {}

    def write(self, run: Run) -> None:
        layout = dict(run.layout)
        self._tables.add_meta({"expected": run.expected, "layout": layout, "title": run.title})
        for rank in run.ranks:
            self._rank(rank)
        self._tables.add("keys", self._keys)

    def _rank(self, rank: RankFacts) -> None:
        name = rank.name
        (own,) = self._insert("ranks", [
            (rank.source, rank.label, name.host, rank.sha256, rank.error, name.rank, name.dump,
             rank.size)
        ])  # fmt: skip
        self._insert("coordinates", [(own, place, axis) for axis, place in name.coordinates])
        self._insert("warnings", [(own, text) for text in rank.warnings])
        for device in rank.devices:
            self._device(own, device)

    def _device(self, rank: int, facts: DeviceFacts) -> None:
        event = None if facts.peak_event == START else facts.peak_event
        (own,) = self._insert("devices", [
            (rank, facts.device, facts.kind, facts.place, int(facts.opens), int(facts.recorded),
             facts.events, facts.capacity, facts.allocated, facts.allocated_width, event,
             facts.peak_time_us, facts.reserved)
        ])  # fmt: skip
        axes = [("event", facts.by_event), ("time", facts.by_time)]
        self._insert("cells", [
            (own, axis, cells.first, cells.shift, _blob(cells.allocated), _reserved(cells))
            for axis, cells in axes
            if cells is not None
        ])  # fmt: skip
        self._insert("holders", [
            (own, HOLDER_KINDS.index(each.kind), self._key(each.key), each.bytes, each.count,
             each.size, each.of_size)
            for each in facts.holders
        ])  # fmt: skip
        self._insert("steps", [
            (own, each.number, each.allocated, each.left) for each in facts.steps
        ])  # fmt: skip
        self._insert("failed", [
            (own, each.event, each.time_us, each.size, self._key(each.site))
            for each in facts.failed
        ])  # fmt: skip
        self._insert("findings", [
            (own, each.code, each.severity, each.title, each.growth) for each in facts.findings
        ])  # fmt: skip

    def _key(self, text: str) -> int:
        return self._keys.setdefault(text, len(self._keys))


def _reserved(cells: Cells) -> bytes | None:
    return None if cells.reserved is None else _blob(cells.reserved)


def _blob(values: NDArray[np.int64]) -> bytes:
    return values.astype("<i8").tobytes()
