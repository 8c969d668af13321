"""Each question about lifetimes equals a walk in plain Python, on every real snapshot and sample.

One walk goes through the trace of the pickle, and knows nothing of how we read it; the other goes
through ``elements.db``, which has what a trace alone does not say: blocks, roles, stages.
"""

from __future__ import annotations

import pickle
import random
import sqlite3
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import snapreport
from snapreport.api.device import Asked, Device
from snapreport.model.findings import MISSING_REASONS
from tests.conftest import REPOSITORY
from tests.corpus import corpus_files, loaded
from tests.golden.conftest import Make
from tests.thorough import IN_FULL

NEVER = 1 << 62
DRAWS = 12 if IN_FULL else 3
CURVES = ("allocated", "requested")
SAMPLES = [
    REPOSITORY / "sample_snapshots" / f"{name}.pickle"
    for name in ("three_devices", "training_step", "truncated_ring", "two_streams")
]


@dataclass
class Life:
    """One allocation as a walk finds it; its events are those of one curve."""

    born: int
    died: int
    bytes: int
    groups: dict[str, object] = field(default_factory=dict)


Answers = Callable[[Life], bool]


def questions(a: int, b: int, c: int) -> dict[str, tuple[dict[str, Any], Answers]]:
    """Name each question; with what ``Device.ask()`` takes, and what says it of one allocation."""
    return {
        "live": ({"alive": a}, lambda x: x.born <= a < x.died),
        "made": ({"made": (a, b)}, lambda x: a < x.born <= b),
        "stayed": (
            {"made": (a, b), "alive": c},
            lambda x: a < x.born <= b and x.born <= c < x.died,
        ),
        "passing": (
            {"made": (a, b), "freed": (a, b)},
            lambda x: a < x.born and x.died <= b,
        ),
        "freed": ({"freed": (a, b)}, lambda x: a < x.died <= b),
        "throughout": ({"alive": (a, b)}, lambda x: x.born <= a and x.died > b),
        "limited": (
            {"made": (a, b), "freed": (b, c)} if b <= c else {"made": (a, b), "freed": (c, b)},
            lambda x: a < x.born <= b and min(b, c) < x.died <= max(b, c),
        ),
    }


def markers(events: int, seed: str) -> Iterator[tuple[int, int, int]]:
    """Draw A, B and C; C is anywhere after A, B included. The first ones are special."""
    draw = random.Random(seed)
    end = events - 1
    yield -1, end, end
    yield end // 2, end // 2, end
    for _ in range(DRAWS):
        a, b = sorted(draw.randrange(-1, events) for _ in range(2))
        yield a, b, draw.randrange(a, events)


def sums(lives: Iterable[Life], by: str) -> Counter[tuple[object, int, int]]:
    """Return what each group holds: its name, bytes and count."""
    held: dict[object, list[int]] = {}
    for each in lives:
        total = held.setdefault(each.groups[by], [0, 0])
        total[0] += each.bytes
        total[1] += 1
    return Counter((name, total[0], total[1]) for name, total in held.items())


def told(asked: Asked, by: str) -> Counter[tuple[object, int, int]]:
    return Counter((each.name, each.bytes, each.count) for each in asked.by(by))


def without_names(groups: Counter[tuple[object, int, int]]) -> Counter[tuple[int, int]]:
    """Leave out names, and the groups of what has no call stack."""
    found: Counter[tuple[int, int]] = Counter()
    for (name, held, count), often in groups.items():
        if name is not None and name not in MISSING_REASONS:
            found[held, count] += often
    return found


# Through the pickle


class _Plain(pickle.Unpickler):
    """Reads numbers, texts, lists and mappings; a real file is a stranger's."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name}")


def walk_trace(trace: list[dict[str, Any]], segments: list[dict[str, Any]]) -> list[Life]:
    """Return what counts in the requested curve, event by event."""
    live: dict[int, Life] = {}
    found = []
    for event, entry in enumerate(trace):
        address = entry.get("addr", 0)
        if entry["action"] == "alloc":
            live[address] = Life(event, NEVER, entry["size"], {"stream": entry["stream"]})
            found.append(live[address])
        elif entry["action"] == "free_completed":
            if address not in live:
                found.append(Life(-1, NEVER, entry["size"], {"stream": entry["stream"]}))
                live[address] = found[-1]
            live.pop(address).died = event
    for segment in segments:
        at = segment["address"]
        for block in segment["blocks"]:
            if block["state"].startswith("active") and block.get("address", at) not in live:
                found.append(
                    Life(-1, NEVER, block["requested_size"], {"stream": segment["stream"]})
                )
            at += block["size"]
    return found


def traces_of(path: Path) -> Iterator[tuple[str, list[dict[str, Any]], list[dict[str, Any]]]]:
    """Yield the name, the trace and the segments of each device that has two events or more."""
    with path.open("rb") as file:
        snapshot = _Plain(file).load()
    if not isinstance(snapshot, dict):
        return
    for ordinal, trace in enumerate(snapshot.get("device_traces", ())):
        if len(trace) > 1:
            segments = [each for each in snapshot["segments"] if each["device"] == ordinal]
            yield f"cuda:{ordinal}", trace, segments


_files = pytest.mark.parametrize("path", [*SAMPLES, *corpus_files()], ids=lambda path: path.name)


@_files
def test_questions_equal_a_walk_through_the_trace(path: Path) -> None:
    for name, trace, segments in traces_of(path):
        device = loaded(path).device(name)
        lives = walk_trace(trace, segments)
        for a, b, c in markers(len(trace), path.name):
            for what, (asked, fits) in questions(a, b, c).items():
                found = device.ask(**asked, curve="requested")
                expected = [each for each in lives if fits(each)]
                where = (name, what, a, b, c)
                held = sorted((each.bytes for each in expected), reverse=True)
                assert found.allocations.bytes.tolist() == held, where
                ours, theirs = told(found, "stream"), sums(expected, "stream")
                assert without_names(ours) == without_names(theirs), where
            change = device.changed(a, b, curve="requested")
            came = sum(each.bytes for each in lives if a < each.born <= b < each.died)
            went = sum(each.bytes for each in lives if each.born <= a < each.died <= b)
            assert (change.came.bytes, change.went.bytes) == (came, went)


# Through elements.db


def walk_database(path: Path, device: Device, curve: str) -> dict[int, Life]:
    """Return the allocations of a device by their rows, with their groups."""
    connection = sqlite3.connect(path)
    first, last = ("free_requested_event", "block_size"), ("free_event", "size")
    end, weight = first if curve == "allocated" else last
    (ordinal,) = connection.execute(
        "SELECT id FROM devices WHERE kind || ':' || ordinal = ?1 OR kind = ?1", (device.name,)
    ).fetchone()
    stages = connection.execute(
        "SELECT name, depth, coalesce(start_event, -1), coalesce(end_event, -1) FROM annotations"
        " WHERE device = ? ORDER BY depth, id", (ordinal,),
    ).fetchall()  # fmt: skip
    pending = {
        row for (row,) in connection.execute(
            "SELECT allocation FROM blocks WHERE state = 'active_pending_free'"
        )
    }  # fmt: skip
    empty = {
        row for (row,) in connection.execute("SELECT id FROM stacks WHERE node IS NULL")
    }  # fmt: skip
    found = {}
    lowest: int | None = None
    for row, born, died, freed, size, requested, stack, pool, role in connection.execute(
        f"SELECT a.id, alloc_event, {end}, free_event, {weight}, size, stack, pool, role"
        " FROM allocations AS a WHERE device = ? ORDER BY a.id", (ordinal,),
    ):  # fmt: skip
        lowest = row if lowest is None else lowest
        born = -1 if born is None else born
        if died is None:  # never, or before the recording
            before = end == "free_requested_event" and (freed is not None or row in pending)
            died = -1 if before else NEVER
        inside = [name for name, _, start, stop in stages if max(start, 0) <= born < max(stop, 0)]
        found[row - lowest] = Life(born, died, size, {
            "stack": None if stack in empty else stack,
            "pool": f"pool {pool}",
            "role": role,
            "size": max(requested, 1).bit_length(),
            "stage": "before recording" if born < 0 else (inside or ["outside stages"])[-1],
        })  # fmt: skip
    connection.close()
    return found


@pytest.fixture
def database(path: Path, made: Make, tmp_path: Path) -> Path:
    bundle = made(path, "zip") if path in corpus_files() else tmp_path / "made.zip"
    if path not in corpus_files():
        snapreport.convert(path, bundle)
    with zipfile.ZipFile(bundle) as archive:
        return Path(archive.extract("elements.db", tmp_path))


@_files
def test_questions_equal_a_walk_through_the_database(path: Path, database: Path) -> None:
    snapshot = loaded(path)
    for history in snapshot.devices:
        device = snapshot.device(str(history.device))
        if not device.figures.recorded:
            continue
        for curve in CURVES:
            lives = walk_database(database, device, curve)
            for a, b, c in markers(device.events, f"{path.name} {curve}"):
                for what, (asked, fits) in questions(a, b, c).items():
                    found = device.ask(**asked, curve=curve)
                    where = (device.name, curve, what, a, b, c)
                    rows = [row for row, each in lives.items() if fits(each)]
                    assert sorted(found.allocations.rows.tolist()) == rows, where
                    expected = [lives[row] for row in rows]
                    assert found.bytes == sum(each.bytes for each in expected), where
                    for by in ("role", "stage"):
                        assert told(found, by) == sums(expected, by), (*where, by)
                    for by in ("stack", "pool", "size"):
                        ours, theirs = told(found, by), sums(expected, by)
                        assert without_names(ours) == without_names(theirs), (*where, by)
                _check_change(device, curve, (a, b), lives)


def _check_change(
    device: Device, curve: str, span: tuple[int, int], lives: dict[int, Life]
) -> None:
    a, b = span
    found = device.changed(a, b, curve=curve)
    signed = {
        row: each.bytes * (1 if each.born > a else -1)
        for row, each in lives.items()
        if a < each.born <= b < each.died or each.born <= a < each.died <= b
    }
    rows = found.allocations.rows.tolist()
    assert dict(zip(rows, found.allocations.bytes.tolist(), strict=True)) == signed
    values = device.curve(curve)
    assert sum(signed.values()) == int(values[b + 1] - values[a + 1])
    for by in ("role", "stage"):
        totals: dict[object, list[int]] = {}
        for row, change in signed.items():
            total = totals.setdefault(lives[row].groups[by], [0, 0])
            total[0 if change > 0 else 1] += abs(change)
        ours = {each.name: [each.came, each.went] for each in found.by(by)}
        assert ours == totals
