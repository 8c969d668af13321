"""Writes and reads the zip of a run: ``manifest.json``, and every rank's figures in ``run.db``.

The file may be a stranger's, so everything in it is checked as it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, get_args

import numpy as np
import orjson
from numpy.typing import NDArray

from snapreport.bundle.archive import Packer, checked_members
from snapreport.bundle.database import TableWriter, filled_database, whole_of
from snapreport.bundle.members import FORMAT, MANIFEST, MOST_MANIFEST, parse_manifest
from snapreport.bundle.tables import Tables, device_rows, open_tables
from snapreport.ground.errors import BundleError, SnapreportError
from snapreport.ground.files import is_zip
from snapreport.ground.safe_text import plain_json
from snapreport.ground.version import __version__
from snapreport.model.diagnoses import CODES, SEVERITIES
from snapreport.model.history import START
from snapreport.model.run import (
    Cells,
    DeviceFacts,
    FailedRequest,
    Holder,
    HolderKind,
    RankFacts,
    RankFinding,
    RankName,
    Run,
    StepPeak,
)
from snapreport.model.snapshot import DEVICE_KINDS, LATEST_US, MOST_TOTAL

_HOLDER_KINDS: tuple[HolderKind, ...] = get_args(HolderKind)
"""Kinds of holders, by their number in the table."""
_DATABASE = "run.db"
_SCHEMA = Path(__file__).with_name("run_schema.sql")


def is_run_bundle(path: Path) -> bool:
    """Say whether a file is the zip of a run; False for a damaged one, which its reader reports."""
    if not is_zip(path):
        return False
    try:
        with checked_members(path) as members:
            return _DATABASE in members.names
    except SnapreportError:
        return False


def write_run_bundle(run: Run, out: BinaryIO) -> None:
    """Write a run; equal runs give equal bytes."""
    manifest = {"format": FORMAT, "kind": "run", "snapreport": __version__, **_facts(run)}
    with Packer() as packer:
        text = plain_json(orjson.dumps(manifest, option=orjson.OPT_INDENT_2))
        packer.add(MANIFEST, [text], 9)
        packer.add(_DATABASE, [write_run_database(run)], 6)
        packer.write(out, [MANIFEST, _DATABASE])


def read_run_bundle(path: Path) -> Run:
    """Read a run back.

    Raises:
        InputError: the file cannot be read.
        BundleError: it is damaged, not a run, or of a newer format.
    """
    with checked_members(path) as members:
        manifest = parse_manifest(members.unpack(MANIFEST, MOST_MANIFEST))
        if manifest.get("kind") != "run":
            raise BundleError("is not the bundle of a run.")
        run = read_run_database(members.unpack(_DATABASE))
        for key, fact in _facts(run).items():
            if manifest.get(key) != fact:
                raise BundleError(
                    f"has a {MANIFEST} that disagrees with its {_DATABASE} ({key}); one of them was"
                    " changed: make it again from the snapshots."
                )
        return run


def _facts(run: Run) -> dict[str, Any]:
    """Return the facts that the database also holds."""
    return {
        "title": run.title,
        "ranks": len(run.ranks),
        "expected": run.expected,
        "layout": dict(run.layout),
        "files": [
            {"source": each.source, "size": each.size, "sha256": each.sha256, "error": each.error}
            for each in run.ranks
        ],
    }


def write_run_database(run: Run) -> bytes:
    """Return the bytes of an SQLite file that holds a run; equal runs give equal bytes."""
    return whole_of(filled_database(_SCHEMA, lambda tables: _Writer(tables).write(run)))


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
            (rank.source, rank.label, name.host, rank.sha256, rank.error, rank.forecast,
             name.rank, name.dump, rank.size)
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
            (own, axis, cells.first, cells.shift, _blob(cells.allocated),
             None if cells.reserved is None else _blob(cells.reserved))
            for axis, cells in axes
            if cells is not None
        ])  # fmt: skip
        self._insert("holders", [
            (own, _HOLDER_KINDS.index(each.kind), self._key(each.key), each.bytes, each.count,
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


def _blob(values: NDArray[np.int64]) -> bytes:
    return values.astype("<i8").tobytes()


_MOST_RANKS = 100_000
_HIGHEST_SHIFT = 62
_NONE = -1
"""What NULL becomes; no figure is negative."""

_Row = tuple[Any, ...]


def read_run_database(data: bytes) -> Run:
    """Read a run out of the bytes of an SQLite file.

    Raises:
        BundleError: the database is damaged, or not one of ours.
    """
    with open_tables(data, _SCHEMA, _DATABASE) as tables:
        return _Reader(tables).read()


class _Reader:
    """Reads the tables one by one, and gives each rank and device its own rows."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def read(self) -> Run:
        rows = self._tables.rows("meta", "key", "value")
        meta = {key: orjson.loads(value) for key, value in rows}
        title, layout, expected = _meta(meta)
        self._keys = self._tables.texts("keys", "text")
        _check_texts(self._keys)
        numbers = self._numbers("ranks")
        texts = self._texts("ranks", "source label host sha256 error forecast")
        count = len(texts)
        if count > _MOST_RANKS:
            raise ValueError(f"there are {count:,} ranks")
        coordinates = self._of("coordinates", count, lambda row, text: (text[0], row[0]), "name")
        warnings = self._of("warnings", count, lambda _, text: text[0], "text")
        devices = self._devices(count)
        ranks = []
        for place, (source, label, host, sha256, error, forecast) in enumerate(texts):
            size, rank, dump = (numbers[name][place] for name in ("size", "rank", "dump"))
            name = RankName(_known(rank), _known(dump), host, tuple(coordinates[place]))
            ranks.append(
                RankFacts(
                    source, label, name, size, sha256, tuple(devices[place]),
                    tuple(warnings[place]), error, forecast,
                )
            )  # fmt: skip
        return Run(title, tuple(ranks), layout, expected)

    def _devices(self, ranks: int) -> list[list[DeviceFacts]]:
        numbers = self._numbers("devices")
        texts = self._texts("devices", "device kind")
        count = len(texts)
        cells = self._cells(count)
        holders = self._of("holders", count, self._holder)
        steps = self._of("steps", count, lambda row, _: StepPeak(*row))
        failed = self._of("failed", count, self._failed)
        findings = self._of("findings", count, _finding, "code severity title")
        made = []
        for k, (device, kind) in enumerate(texts):
            row = {name: column[k] for name, column in numbers.items()}
            if kind not in DEVICE_KINDS:
                raise ValueError("a device has an unknown kind")
            if "event" not in cells[k] or not {row["opens"], row["recorded"]} <= {0, 1}:
                raise ValueError("a device has no cells, or a flag that is neither 0 nor 1")
            made.append(
                DeviceFacts(
                    device=device,
                    kind=kind,
                    place=row["place"],
                    opens=bool(row["opens"]),
                    recorded=bool(row["recorded"]),
                    events=row["events"],
                    capacity=_known(row["capacity"]),
                    allocated=row["allocated"],
                    allocated_width=row["allocated_width"],
                    peak_event=START if row["peak_event"] == _NONE else row["peak_event"],
                    peak_time_us=_time(row["peak_time_us"]),
                    reserved=_known(row["reserved"]),
                    by_event=cells[k]["event"],
                    by_time=cells[k].get("time"),
                    holders=tuple(holders[k]),
                    steps=tuple(steps[k]),
                    failed=tuple(failed[k]),
                    findings=tuple(findings[k]),
                )
            )
        owners = np.array(numbers["rank"], np.int64)
        return [made[rows] for rows in device_rows(owners, ranks)]

    def _cells(self, devices: int) -> list[dict[str, Cells]]:
        numbers = zip(*self._numbers("cells").values(), strict=True)
        curves = self._tables.rows("cells", "axis", "allocated", "reserved")
        found: list[dict[str, Cells]] = [{} for _ in range(devices)]
        rows = zip(numbers, curves, strict=True)
        for (device, first, shift), (axis, allocated, reserved) in rows:
            if device >= devices or axis not in ("event", "time") or axis in found[device]:
                raise ValueError("cells have no known device and axis, or share one")
            if shift > _HIGHEST_SHIFT:
                raise ValueError("cells are too wide")
            values = _column(allocated)
            others = None if reserved is None else _column(reserved)
            if (first + len(values)) << shift >= MOST_TOTAL:
                raise ValueError("cells lie beyond any axis")
            if others is not None and len(others) != len(values):
                raise ValueError("two curves have different numbers of cells")
            found[device][axis] = Cells(first, shift, values, others)
        return found

    def _holder(self, row: _Row, _: _Row) -> Holder:
        kind, key, *figures = row
        return Holder(_HOLDER_KINDS[kind], self._keys[key], *figures)

    def _failed(self, row: _Row, _: _Row) -> FailedRequest:
        event, time, size, site = row
        return FailedRequest(event, _time(time), size, self._keys[site])

    def _of(self, table: str, count: int, make: Any, texts: str = "") -> list[list[Any]]:
        """Return a table's rows for each rank or device, made from its numbers and texts."""
        owner, *columns = self._numbers(table).values()
        rows: Sequence[_Row] = list(zip(*columns, strict=True)) or [()] * len(owner)
        words: Sequence[_Row] = self._texts(table, texts) if texts else [()] * len(owner)
        made = [make(row, text) for row, text in zip(rows, words, strict=True)]
        return [made[part] for part in device_rows(np.array(owner, np.int64), count)]

    def _numbers(self, table: str) -> dict[str, list[int]]:
        """Return the columns of numbers except the id; only NULL is negative."""
        found = self._tables.numbers(table)
        del found["id"]
        for column in self._tables.columns[table]:
            values = found.get(column.name, np.zeros(0, np.int64))
            least = _NONE if column.null else 0
            if len(values) and not least <= int(values.min()) <= int(values.max()) < MOST_TOTAL:
                raise ValueError(f"a number in the table {table} is out of range")
        return {name: values.tolist() for name, values in found.items()}

    def _texts(self, table: str, names: str) -> list[_Row]:
        rows = [tuple(row) for row in self._tables.rows(table, *names.split())]
        for row in rows:
            _check_texts(row)
        return rows


def _meta(meta: dict[str, Any]) -> tuple[str, tuple[tuple[str, int], ...], int | None]:
    title, layout, expected = meta["title"], meta["layout"], meta["expected"]
    if not isinstance(title, str) or not isinstance(layout, dict):
        raise TypeError("the title or the layout has the wrong type")
    _check_texts((title, *layout))
    sizes = [*layout.values(), *(() if expected is None else (expected,))]
    if not all(type(size) is int and 0 < size < 1 << 31 for size in sizes) or len(sizes) > 32:
        raise ValueError("the sizes in the layout are not valid")
    return title, tuple(layout.items()), expected


def _finding(row: _Row, texts: _Row) -> RankFinding:
    code, severity, title = texts
    if code not in CODES or severity not in SEVERITIES:
        raise ValueError("a finding has an unknown kind")
    return RankFinding(code, severity, title, row[0])


_MOST_CELLS = 8192


def _column(data: bytes) -> NDArray[np.int64]:
    if not data or len(data) % 8 or len(data) > 8 * _MOST_CELLS:
        raise ValueError("the number of cells is not valid")
    values = np.frombuffer(data, "<i8").astype(np.int64)
    if int(values.min()) < 0 or int(values.max()) >= MOST_TOTAL:
        raise ValueError("a cell has a number of bytes that no memory has")
    return values


_LONGEST = 65_536


def _check_texts(texts: Sequence[str]) -> None:
    if any(len(text) > _LONGEST for text in texts):
        raise ValueError("a text is far too long")


def _known(number: int) -> int | None:
    return None if number == _NONE else number


def _time(number: int) -> int | None:
    if number > LATEST_US:
        raise ValueError("a time is later than any date")
    return _known(number)
