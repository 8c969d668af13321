"""Pickles that no snapshot is: refused before anything of them is loaded."""

from __future__ import annotations

import contextlib
import copyreg
import os
import pickle
import pickletools
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from snapreport.ground.errors import NotASnapshotError, UnsafePickleError
from snapreport.history.build import build_history
from snapreport.read import read_snapshot
from snapreport.read.unpickle import check_opcodes, load_plain_pickle
from tests.builders import MIB, read_bytes, stack, trace

ALLOWED = {
    "PROTO",
    "FRAME",
    "STOP",
    "MARK",
    "MEMOIZE",
    "BINGET",
    "LONG_BINGET",
    "EMPTY_DICT",
    "SETITEMS",
    "EMPTY_LIST",
    "APPEND",
    "APPENDS",
    "SHORT_BINUNICODE",
    "BINUNICODE",
    "BININT",
    "BININT1",
    "BININT2",
    "LONG1",
    "BINFLOAT",
    "NEWTRUE",
    "NEWFALSE",
    "TUPLE2",
    "BINPUT",
    "LONG_BINPUT",
    "EMPTY_TUPLE",
    "TUPLE1",
    "NONE",
    "BINUNICODE8",
    "SETITEM",
}
# These have messages of their own; see test_hostile_pickles.py.
OWN = {"LONG4", "TUPLE", "TUPLE3"}
REFUSED = [each for each in pickletools.opcodes if each.name not in ALLOWED | OWN]


class RunsCode:
    """Pickles to a call of ``os.system`` that would leave a file behind."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {self.marker}",)


@pytest.mark.parametrize("opcode", REFUSED, ids=lambda opcode: opcode.name)
@pytest.mark.parametrize("padding", [0, 1000])
def test_an_opcode_outside_the_list_is_refused_by_name(
    opcode: pickletools.OpcodeInfo, padding: int
) -> None:
    data = b"\x80\x04" + opcode.code.encode("latin-1") + b"0" * padding + b"."
    with pytest.raises(UnsafePickleError, match=rf"\b{opcode.name}\b at byte 2,"):
        check_opcodes(data)


def test_the_list_holds_every_opcode_of_a_snapshot_pickle() -> None:
    snapshot = trace().alloc("a", 4 * MIB, frames=stack("f")).free("a").snapshot()
    snapshot["more"] = [1.5, None, (), (1,), (1, 2), 2**64 - 1, "x" * 300]
    for protocol in (2, 3, 4, 5):
        data = pickle.dumps(snapshot, protocol)
        assert {opcode.name for opcode, _, _ in pickletools.genops(data)} <= ALLOWED
        assert load_plain_pickle(data) == snapshot


@pytest.mark.parametrize("code", [b"\x00", b"\xff", b"\x99"])
def test_a_byte_that_is_no_opcode_is_refused(code: bytes) -> None:
    with pytest.raises(UnsafePickleError, match=f"0x{code[0]:02x}"):
        check_opcodes(b"\x80\x04" + code + b".")


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickle_that_calls_os_system_is_refused_and_names_it(
    tmp_path: Path, protocol: int
) -> None:
    marker = tmp_path / "it-ran"
    snapshot = trace().alloc("a", 4).snapshot()
    snapshot["external_annotations"].append(RunsCode(marker))
    with pytest.raises(UnsafePickleError, match=rf"{os.system.__module__}\.system\b") as caught:
        read_bytes(pickle.dumps(snapshot, protocol))
    assert "\n" not in str(caught.value)
    assert not marker.exists()


def test_the_name_is_left_out_where_it_could_mislead() -> None:
    bent = b"\x80\x04\x8c\x05posix\x94\x8c\x0csys\nignored!\x93."
    with pytest.raises(UnsafePickleError, match="STACK_GLOBAL") as caught:
        check_opcodes(bent)
    assert "\n" not in str(caught.value)
    with pytest.raises(UnsafePickleError, match=r"^has the pickle opcode STACK_GLOBAL"):
        check_opcodes(b"\x80\x04h\x00h\x01\x93.")


class Thing:
    """A class of our own; pickles with NEWOBJ."""


@pytest.mark.parametrize(
    ("value", "protocol"),
    [
        (Thing(), 2),
        (Thing(), 4),
        (Thing, 2),
        (Thing, 4),
        ({1, 2}, 4),
        (b"bytes", 3),
        (bytearray(b"bytes"), 5),
        (complex(1, 2), 4),
        (frozenset(), 4),
    ],
)
def test_no_object_but_plain_data_is_loaded(value: object, protocol: int) -> None:
    with pytest.raises(UnsafePickleError, match="nothing in it was run"):
        read_bytes(pickle.dumps([value], protocol))


def test_a_registered_extension_is_refused() -> None:
    copyreg.add_extension(__name__, "Thing", 240)  # type: ignore[no-untyped-call,unused-ignore]
    try:
        data = pickle.dumps(Thing, 4)
    finally:
        copyreg.remove_extension(__name__, "Thing", 240)  # type: ignore[no-untyped-call,unused-ignore]
    with pytest.raises(UnsafePickleError, match="EXT1"):
        check_opcodes(data)


@pytest.mark.parametrize("protocol", [0, 1])
def test_protocols_before_2_are_no_snapshot(protocol: int) -> None:
    data = pickle.dumps(trace().alloc("a", 4).snapshot(), protocol)
    with pytest.raises(NotASnapshotError, match="protocol 2"):
        read_bytes(data)


@pytest.mark.parametrize("padding", [0, 1000])
def test_a_later_protocol_is_named(padding: int) -> None:
    with pytest.raises(NotASnapshotError, match="protocol 6"):
        check_opcodes(b"\x80\x06]." + b"0" * padding)


@pytest.mark.parametrize("padding", [0, 1000])
def test_a_huge_memo_index_is_refused(padding: int) -> None:
    data = b"\x80\x02]r" + struct.pack("<I", 2**31) + b"N" * padding + b"."
    with pytest.raises(UnsafePickleError, match="memo index"):
        read_bytes(data)


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b"x.",
        b"\x80\x04X" + struct.pack("<I", 2**31 - 1) + b"x.",
        b"\x80\x04\x8a\xffx.",
        b"\x80\x04\x8c\xffx.",
        b"\x80\x04\x95" + struct.pack("<Q", 2**62) + b"}.",
    ],
)
def test_a_length_beyond_the_file_is_a_damaged_pickle(data: bytes) -> None:
    with pytest.raises(NotASnapshotError):
        read_bytes(data)


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x04.",
        b"\x80\x04h\x05.",
        b"\x80\x04}K\x01s.",
        b"\x80\x04a.",
        b"\x80\x04K\x01K\x02a.",
        b"\x80\x04}(K\x01u.",
        b"\x80\x04}]K\x01s.",
        b"\x80\x04\x8c\x02\xff\xfe.",
    ],
)
def test_a_pickle_that_makes_no_sense_is_damaged(data: bytes) -> None:
    with pytest.raises(NotASnapshotError):
        read_bytes(data)


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_pickle_cut_off_at_any_byte_is_no_snapshot(tmp_path: Path, protocol: int) -> None:
    snapshot = trace().alloc("a", 4 * MIB, frames=stack("f", "g")).segment("a", 20 * MIB).snapshot()
    snapshot["allocator_settings"] = {"a": "x" * 300, "b": 2**64 - 1, "c": 1.5, "d": 70000, "e": -1}
    data = pickle.dumps(snapshot, protocol)
    path = tmp_path / "cut.pickle"
    for length in range(1, len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(NotASnapshotError) as caught:
            read_snapshot(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("tail", [b"\0", b"\0\0\0", b"anything"])
def test_what_follows_the_end_of_a_pickle_is_ignored(tail: bytes) -> None:
    whole = pickle.dumps(trace().alloc("a", 4).snapshot(), 4)
    assert len(read_bytes(whole + tail).traces[0]) == 1


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def test_deep_nesting_is_no_traceback() -> None:
    data = b"\x80\x04" + b"]" * 200_000 + b"a" * 199_999 + b"."
    with pytest.raises(NotASnapshotError):
        read_bytes(data)


@pytest.mark.parametrize(
    "place", ["external_annotations", "allocator_settings", "frames", "frame", "name", "state"]
)
def test_shared_objects_that_would_explode_when_written_out_do_not(place: str) -> None:
    bomb: Any = ["boom"]
    for _ in range(40):
        bomb = [bomb, bomb]
    builder = trace().segment("a", 20 * MIB, (4 * MIB, 4 * MIB, "live"))
    builder.alloc("b", 4, frames=stack("f"))
    snapshot = builder.snapshot()
    if place == "external_annotations":
        snapshot[place] = [{"name": bomb, "stage": bomb, "device": 0, "time_us": 1, "x": bomb}]
    elif place == "allocator_settings":
        snapshot[place] = {"x": bomb}
    elif place == "frames":
        snapshot["device_traces"][0][0]["user_metadata"] = bomb
    elif place == "frame":
        snapshot["device_traces"][0][0]["frames"] = [{"name": "f", "fx_node_op": bomb}]
    elif place == "name":
        snapshot["device_traces"][0][0]["frames"] = [{"name": bomb}]
    else:
        snapshot["segments"][0]["blocks"][0]["state"] = bomb
    # Refused or taken, it is done at once and in little memory.
    with contextlib.suppress(NotASnapshotError):
        history = build_history(read_bytes(pickle.dumps(snapshot, 4)))
        assert all(len(text) < 500 for text in history.oddities)
