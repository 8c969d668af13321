"""The native library passes over opcodes as the plain code of the tests does, on any input."""

from __future__ import annotations

import itertools
import pickle
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

import snapreport
from snapreport.ground.errors import SnapreportError
from snapreport.ground.native.library import scan
from snapreport.read import unpickle
from tests.builders import MIB, frame, stack, trace
from tests.reference.opcodes import scan as plainly
from tests.thorough import some


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


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_both_scans_end_at_the_same_byte_wherever_a_pickle_is_cut_off(protocol: int) -> None:
    data = a_pickle(protocol)
    assert scan(data) == plainly(data) == len(data) - 1
    for length in some([*range(1, 3000, 13), *range(len(data) - 150, len(data))], 100):
        assert scan(data[:length]) == plainly(data[:length])


@pytest.mark.parametrize("protocol", [2, 4])
def test_both_scans_end_at_the_same_byte_of_bent_pickles(protocol: int) -> None:
    for bent in mutated(a_pickle(protocol)[-3000:], protocol, len(some(range(1500), 300))):
        assert scan(bent) == plainly(bent), bent


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
            assert scan(data) == plainly(data), data


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
        assert scan(data) == plainly(data), number
        if scan(data) == len(data) - 1:
            taken.append(number)
    floats = [sign * 2.0**e for e in range(-63, 65) for sign in (1, -1)]
    assert taken == [2**63 - 1, 2**63, 2**64 - 1, -(2**63), *floats, 0.0, -0.0]


def test_random_bytes_end_both_scans_at_the_same_byte() -> None:
    rng = random.Random(5)
    for _ in range(3000):
        data = rng.randbytes(rng.randint(1, 60))
        assert scan(data) == plainly(data), data


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_bent_pickle_gets_the_same_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: int
) -> None:
    path = tmp_path / "bent.pickle"

    def verdict() -> str:
        try:
            return repr(snapreport.load(path))
        except SnapreportError as error:
            return f"{type(error).__name__}: {error}"

    for bent in mutated(a_pickle(protocol), 7 + protocol, len(some(range(100), 30))):
        path.write_bytes(bent)
        ours = verdict()
        with monkeypatch.context() as patched:
            patched.setattr(unpickle, "scan", plainly)
            assert verdict() == ours


def test_an_empty_file_is_no_reason_to_look_for_memory() -> None:
    with pytest.raises(SnapreportError):
        unpickle.check_opcodes(b"")
