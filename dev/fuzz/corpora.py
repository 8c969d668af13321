"""Make the files that the harnesses begin with: python -m dev.fuzz.corpora [HARNESS ...].

They are small snapshots and tables, hostile ones, and what a run finds from there; of all those, as
few and as small ones as reach every place. Make them anew when a harness takes its input otherwise.
"""

from __future__ import annotations

import io
import pickle
import random
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import apsw

from dev.fuzz import CRASHES, SAMPLES
from dev.fuzz.native import HARNESSES, archive_of, corpus, harness, run, write_files
from snapreport.bundle import database_reader
from snapreport.bundle.database import write_database
from snapreport.bundle.database_reader import read_database, read_rows
from snapreport.ground.native.library import read_leaves, scan
from snapreport.history.build import build_history
from snapreport.read import read_snapshot
from tests import bombs

_LARGEST = 8192
_RUNS = 100_000
_SMALL = 64


def make(name: str) -> str:
    """Write the archive of a harness; return what it has."""
    program = harness(name)
    with tempfile.TemporaryDirectory() as folder:
        seeds = [each for each in SEEDS.get(name, lambda: iter(()))() if len(each) <= _LARGEST]
        found = write_files(Path(folder, "found"), seeds + corpus(name))
        least = write_files(Path(folder, "least"), [])
        for arguments in ([f"-runs={_RUNS}", str(found)], ["-merge=1", str(least), str(found)]):
            options = ("-seed=1", f"-max_len={_LARGEST}", f"-artifact_prefix={CRASHES}/{name}-")
            status, said = run(program, *options, *arguments)
            if status:
                raise RuntimeError(said[-4000:])
        # What is outside by one byte reaches no other place, so the smallest stay.
        write_files(least, [each for each in seeds if len(each) <= _SMALL])
        files = sorted(least.iterdir(), key=lambda path: (path.stat().st_size, path.name))
        with tarfile.open(archive_of(name), "w:xz") as archive:
            for path in files:
                info = tarfile.TarInfo(path.name)
                info.size = path.stat().st_size
                archive.addfile(info, io.BytesIO(path.read_bytes()))
    size = archive_of(name).stat().st_size
    return f"{name}: {len(files)} files, {size:,} bytes"


def _pickles() -> Iterator[bytes]:
    snapshots = [bombs.sample(), _crowded(), *map(_shortened, sorted(SAMPLES.glob("*.pickle")))]
    for snapshot in snapshots:
        for protocol in (2, 3, 4):
            yield pickle.dumps(snapshot, protocol)
    for _, data in (*bombs.pickles(), *bombs.fields()):
        yield data
    for opcode in range(256):
        if scan(bytes([opcode]) + bytes(16)):
            for before in (b"", b"(", b"K\1", b"](", b"}(", b"]N", b"}X\1\0\0\0aN", b"K\1q\1"):
                yield bombs.PROTO + before + bytes([opcode])
    for n in range(1, 8):
        yield bombs.PROTO + b"N" + b"".join(b"q%c" % i for i in range(n)) + b"h%c" % n
    for lead in (b"\xc3", b"\xe1\x80", b"\xf1\x80\x80", b"\xed\xa0\x80"):
        yield bombs.PROTO + b"}" + b"\x8c" + bytes([len(lead)]) + lead
    yield b"}(X\1\0\0\0au."
    for path in CRASHES.glob("snapshot-*"):
        yield path.read_bytes()


def _crowded() -> dict[str, Any]:
    """Return a snapshot with so many texts and stacks that their tables grow, some used twice."""
    frames = [{"name": str(i), "filename": "f", "line": i} for i in range(8)]
    stacks = [frames[i % 8 :] + frames[: i // 8] for i in range(30)]
    events = [{"action": "alloc", "addr": i, "frames": stacks[i % 30]} for i in range(40)]
    own = {"compile_context": "N/A", "pool_id": (0, 1)}  # and a list of its own
    events += [own | events[0] | {"frames": [*stacks[i % 3]]} for i in range(12)]
    freed = [
        {"action": "free", "device_free": 1, "addr": 2},
        {"action": "a", "addr": 1, "x": 2**60},
    ]
    texts = [chr(i) for i in range(512, 1030)]
    segments = [{"frames": stacks[0]}, texts]
    return {"segments": segments, "device_traces": [events, freed]}


def _shortened(path: Path) -> dict[str, Any]:
    """Return a snapshot with few events, and few frames of each."""
    snapshot: dict[str, Any] = pickle.loads(path.read_bytes())
    traces = [trace[-6:] for trace in snapshot["device_traces"]]
    for event in (event for trace in traces for event in trace):
        event["frames"] = event.get("frames", [])[:2]
    segments = snapshot["segments"][:1]
    for holder in (*segments, *(block for segment in segments for block in segment["blocks"])):
        holder["frames"] = holder.get("frames", [])[:1]
    segments = [segment | {"blocks": segment["blocks"][:2]} for segment in segments]
    return {**snapshot, "device_traces": traces, "segments": segments, "external_annotations": []}


def _pages() -> Iterator[bytes]:
    chance = random.Random(1)
    numbers = [None, 0, 1, -1, *(sign << bits for sign in (1, -1) for bits in (7, 15, 23, 31, 47))]
    for width, count in ((1, 9), (2, 0), (3, 20), (4, 60), (2, 99)):
        for text in (None, width - 1) if width > 1 else (None,):
            connection = apsw.Connection(":memory:")
            columns = "".join(f", c{i}" for i in range(1, width))
            connection.execute(
                f"PRAGMA page_size = 512; CREATE TABLE t (id INTEGER PRIMARY KEY{columns})"
            )
            for row in range(count):
                cells: list[Any] = [row, *(chance.choice(numbers) for _ in range(width - 1))]
                if text:
                    cells[text] = chance.choice(["", "alloc", "oom"]) if count < 99 else str(row)
                marks = ",".join("?" * width)
                connection.execute(f"INSERT INTO t VALUES ({marks})", cells)
            data = connection.serialize("main")
            yield from _tables(partial(read_rows, data, 2, width, text))

    for kind in (*range(10), 13, 15):
        for length in range(8 + 5):
            cell = bytes([length, 1, 3, 0, kind]) + bytes(length)
            for less in range(3):  # bytes at the end of the page, which is that of the file
                page = bytes([13, 0, 0, 0, 1, 0, 0, 0, 0, 14, *b"free"]) + cell[: len(cell) - less]
                text = 1 if kind > 9 else 2
                yield bytes([2, text, len(page), 0, 0, 0, 1, 0, 0, 0]) + page


def _tables(read: Callable[[], object]) -> list[bytes]:
    """Return what the harness of pages takes for each table that is read meanwhile."""
    found = []

    def note(
        data: Any, page_size: int, leaves: Any, shape: tuple[int, int], text: int | None
    ) -> Any:
        numbers = (leaves // page_size).astype("<u2").tobytes()
        header = [shape[0], shape[0] if text is None else text, *page_size.to_bytes(2, "little")]
        count = len(leaves).to_bytes(2, "little")
        found.append(bytes([*header, 0, 0]) + count + numbers + data.tobytes())
        return read_leaves(data, page_size, leaves, shape, text)

    with mock.patch.object(database_reader, "read_leaves", note):
        read()
    return found


def _numbering() -> Iterator[bytes]:
    """Yield numbers that all meet in one place of a table of 256."""
    inverse = pow(0x9E3779B97F4A7C15, -1, 1 << 64)
    values = b"".join((k * inverse % (1 << 64)).to_bytes(8, "little") for k in range(100))
    yield bytes([3, 8, 200, 0, 100, 0]) + values


SEEDS = {"pickles": _pickles, "pages": _pages, "numbering": _numbering}


def large(name: str) -> list[bytes]:
    """Return files to begin with for the search among large ones."""
    if name == "pickles":
        return [path.read_bytes() for path in sorted(SAMPLES.glob("*.pickle"))]
    if name != "pages":
        return [random.Random(seed).randbytes(1 << 18) for seed in range(12)]
    history = build_history(read_snapshot(SAMPLES / "training_step.pickle"))
    return _tables(lambda: read_database(write_database(history), history.source))


if __name__ == "__main__":
    for each in sys.argv[1:] or HARNESSES:
        print(make(each), flush=True)
