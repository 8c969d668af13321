"""The compiled parts say the same as the Python beside them, on any input."""

from __future__ import annotations

import ctypes
import itertools
import pickle
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import snapreport
from snapreport import libraries
from snapreport.ground.clean_texts import CleanTexts
from snapreport.ground.errors import SnapreportError
from snapreport.model.stacks import NO_STACK
from snapreport.read import compiled, fields, opcodes
from snapreport.read.interner import StackInterner
from tests.builders import MIB, frame, stack, trace

PARTS = ("scan", "take_integers", "group_lists", "events")

needs_opcodes = pytest.mark.skipif(
    compiled.scan(b"\x80\x04.") is None, reason="opcodes.c was not compiled"
)
needs_columns = pytest.mark.skipif(
    compiled.take_integers([], "x") is None, reason="columns.c was not compiled"
)


@pytest.fixture
def no_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PARTS:
        monkeypatch.setattr(compiled, name, lambda *_: None)


def a_pickle(protocol: int) -> bytes:
    builder = trace().alloc("a", 4 * MIB, frames=stack("f", "g"), pool_id=(0, 300))
    builder.segment("a", 20 * MIB)
    for i in range(300):  # enough for long memo references
        builder.alloc(f"b{i}", 512 + i, frames=[frame(f"name {i}")])
    snapshot = builder.snapshot()
    snapshot["allocator_settings"] = {"a": "é" * 300, "b": 2**64 - 1, "c": 1.5, "d": 70000, "e": -1}
    return pickle.dumps(snapshot, protocol)


TELLING = b"\x8a\x8b\x8c\x8d\x95Xrj.h\xff\x00\x85\x86\x87t()\x94NGKMJ"


def mutated(data: bytes, seed: int, count: int) -> Iterator[bytes]:
    """Yield the data with a few bytes changed, removed or repeated."""
    rng = random.Random(seed)
    for _ in range(count):
        bent = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(bent))
            kind = rng.random()
            if kind < 0.6:
                bent[place] = rng.choice([rng.randrange(256), *TELLING])
            elif kind < 0.8:
                del bent[place : place + rng.randint(1, 9)]
            else:
                bent[place:place] = bent[place : place + rng.randint(1, 9)]
            if not bent:
                bent = bytearray(b"\x80")
        yield bytes(bent)


@needs_opcodes
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_both_scans_end_at_the_same_byte_wherever_a_pickle_is_cut_off(protocol: int) -> None:
    data = a_pickle(protocol)
    assert compiled.scan(data) == opcodes.scan(data) == len(data) - 1
    for length in [*range(1, 3000), *range(len(data) - 2000, len(data))]:
        assert compiled.scan(data[:length]) == opcodes.scan(data[:length])


@needs_opcodes
@pytest.mark.parametrize("protocol", [2, 4])
def test_both_scans_end_at_the_same_byte_of_bent_pickles(protocol: int) -> None:
    for bent in mutated(a_pickle(protocol)[-3000:], protocol, 4000):
        assert compiled.scan(bent) == opcodes.scan(bent), bent


@needs_opcodes
def test_both_scans_end_at_the_same_byte_of_every_opcode_and_length() -> None:
    tails = [b"", *(bytes([n]) * k for n in (0, 1, 2, 3, 4, 5, 6, 255) for k in (1, 2, 4, 5, 8, 9))]
    tails += [struct.pack("<Q", n) + b"N" * 9 for n in (0, 8, 9, 10, 2**32, 2**63, 2**64 - 1)]
    tails += [struct.pack("<I", n) + b"N" * 9 for n in (8, 9, 10, 2**26 - 1, 2**26, 2**32 - 1)]
    before = [
        b"",
        b"K\x01",
        b"K\x01M\x01\x00\x94",
        b"J\x01\x00\x00\x00K\x01\x94\x94\x94\x94",
        b"K\x01N",
    ]
    for opcode, first in itertools.product(range(256), before):
        for tail in tails:
            data = first + bytes([opcode]) + tail
            assert compiled.scan(data) == opcodes.scan(data), data


@needs_opcodes
def test_both_scans_take_the_same_numbers() -> None:
    numbers: list[float] = [
        2**63 - 1,
        2**63,
        2**64 - 1,
        2**64,
        -(2**63),
        -(2**63) - 1,
        -(2**71),
        2**71 - 1,
    ]
    numbers += [sign * 2.0**e for e in range(-70, 70) for sign in (1, -1)]
    numbers += [0.0, -0.0, 5e-324, 1e300, float("inf"), float("-inf"), float("nan")]
    taken: list[float] = []
    for number in numbers:
        data = pickle.dumps(number, 4)
        assert compiled.scan(data) == opcodes.scan(data), number
        if compiled.scan(data) == len(data) - 1:
            taken.append(number)
    floats = [sign * 2.0**e for e in range(-63, 65) for sign in (1, -1)]
    assert taken == [2**63 - 1, 2**63, 2**64 - 1, -(2**63), *floats, 0.0, -0.0]


@needs_opcodes
def test_random_bytes_end_both_scans_at_the_same_byte() -> None:
    rng = random.Random(5)
    for _ in range(3000):
        data = rng.randbytes(rng.randint(1, 60))
        assert compiled.scan(data) == opcodes.scan(data), data


@needs_opcodes
@pytest.mark.parametrize("protocol", [2, 4])
def test_a_bent_pickle_gets_the_same_message_either_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: int
) -> None:
    path = tmp_path / "bent.pickle"

    def verdict() -> str:
        try:
            return repr(snapreport.load(path))
        except SnapreportError as error:
            return f"{type(error).__name__}: {error}"

    for bent in mutated(a_pickle(protocol), 7 + protocol, 300):
        path.write_bytes(bent)
        with_them = verdict()
        with monkeypatch.context() as without:
            for name in PARTS:
                without.setattr(compiled, name, lambda *_: None)
            assert verdict() == with_them


ODD: list[Any] = [None, 1.5, "1", [], {}, (), 2**63, -(2**63) - 1, b"x"]


@needs_columns
def test_integers_of_64_bits_are_taken_and_all_else_is_left() -> None:
    numbers = [0, 1, -1, 2**63 - 1, -(2**63), True, False, 10**12]
    rows: list[Any] = [{"x": number, "y": None} for number in numbers]
    taken = compiled.take_integers(rows, "x")
    assert taken is not None
    assert taken.dtype == np.int64
    assert taken.tolist() == [int(number) for number in numbers]
    for odd in ODD:
        assert compiled.take_integers([*rows, {"x": odd}], "x") is None
    for row in ({"y": 1}, {}, None, 3, "x", ["x"], {("x",): 1, 1: 2}):
        assert compiled.take_integers([*rows, row], "x") is None
    assert compiled.take_integers(tuple(rows), "x") is None


@needs_columns
def test_integers_are_the_same_either_way(no_compiled: None, samples: Path) -> None:
    with (samples / "training_step.pickle").open("rb") as file:
        events = pickle.load(file)["device_traces"][0]
    without = {key: fields.integers(events, key, "event") for key in ("addr", "size", "time_us")}
    for key, column in without.items():
        assert column.tolist() == [event[key] for event in events]


@needs_columns
def test_lists_are_grouped_by_the_objects_in_them() -> None:
    one, other = {"name": "f"}, {"name": "f"}
    shared = [one, other]
    lists = [shared, [one, other], [other, one], [one], [], shared, [one, other, one], []]
    rows: list[Any] = [{"frames": each} for each in lists]
    rows.insert(3, {"name": "no frames"})
    grouped = compiled.group_lists(rows, "frames")
    assert grouped is not None
    assert grouped[0].tolist() == [0, 0, 1, -1, 2, 3, 0, 4, 3]
    assert grouped[1].tolist() == [0, 2, 4, 5, 7]
    lists_no_more: list[Any] = [None, (), "x", {}, 3]
    for odd in lists_no_more:
        assert compiled.group_lists([*rows, {"frames": odd}], "frames") is None
    assert compiled.group_lists([*rows, None], "frames") is None
    assert compiled.group_lists(tuple(rows), "frames") is None


@needs_columns
def test_thousands_of_lists_are_grouped_as_by_value() -> None:
    rng = random.Random(3)
    frames = [frame(f"f{i}") for i in range(9)]
    rows = [{"frames": rng.choices(frames, k=rng.randint(0, 4))} for _ in range(20_000)]
    grouped = compiled.group_lists(rows, "frames")
    assert grouped is not None
    group, first = grouped
    ids: dict[tuple[str, ...], int] = {}
    names = [tuple(each["name"] for each in row["frames"]) for row in rows]
    assert group.tolist() == [ids.setdefault(name, len(ids)) for name in names]
    assert first.tolist() == [names.index(name) for name in ids]


def test_stacks_get_the_same_ids_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(4)
    frames = [frame(f"f{i % 7}", line=i % 3) for i in range(30)]  # equal ones among them
    rows: list[Any] = [{"frames": rng.choices(frames, k=rng.randint(0, 3))} for _ in range(3000)]
    rows += [{}, {"frames": None}, {"frames": tuple(frames[:2])}, *rows[:50]]
    for part in (rows[:3000], rows):
        with_it = StackInterner(CleanTexts())
        found = with_it.intern_field(part, "frames").tolist()
        with monkeypatch.context() as without:
            without.setattr(compiled, "group_lists", lambda *_: None)
            alone = StackInterner(CleanTexts())
            assert alone.intern_field(part, "frames").tolist() == found
        assert alone.table().stack_node.tolist() == with_it.table().stack_node.tolist()
    assert found[3000:3002] == [NO_STACK, NO_STACK]


@pytest.mark.parametrize("name", ["training_step.pickle", "three_devices.pickle"])
def test_the_bundle_is_the_same_to_the_byte_either_way(
    samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with_them = snapreport.convert(samples / name, tmp_path / "with.zip")
    for function in PARTS:
        monkeypatch.setattr(compiled, function, lambda *_: None)
    without = snapreport.convert(samples / name, tmp_path / "without.zip")
    assert with_them.read_bytes() == without.read_bytes()


def test_a_library_that_cannot_be_loaded_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "_opcodes.so").write_bytes(b"no library")
    monkeypatch.delenv(libraries.OFF, raising=False)
    monkeypatch.setattr(compiled, "__file__", str(tmp_path / "compiled.py"))
    compiled._opcodes.cache_clear()
    try:
        assert compiled.scan(b"\x80\x04.") is None
        opcodes.check_opcodes(b"\x80\x04N.")
    finally:
        monkeypatch.undo()
        compiled._opcodes.cache_clear()
    assert "is not used" in caplog.text


def test_a_library_without_a_function_that_is_needed_is_done_without(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv(libraries.OFF, raising=False)
    path = Path(compiled.__file__).with_name("_opcodes.so")
    version = "snapreport_scan_version"
    assert libraries.open_library(ctypes.CDLL, path, version, {}) is not None
    assert libraries.open_library(ctypes.CDLL, path, version, {"missing": (None,)}) is None
    assert "is not used" in caplog.text


def test_an_empty_file_is_no_reason_to_look_for_memory() -> None:
    with pytest.raises(SnapreportError):
        opcodes.check_opcodes(b"")
