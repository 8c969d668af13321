"""Small files made to take long, or much memory, or to run something; each by what it tries."""

from __future__ import annotations

import gzip
import os
import pickle
import struct
from collections.abc import Callable, Iterator
from typing import Any

import zstandard

from tests.builders import MIB, frame, stack, trace

PROTO = b"\x80\x04"
MODULUS = 2**61 - 1
"""All multiples of it have the same hash in Python."""


def short(text: str) -> bytes:
    """Return the opcode for a short text."""
    return b"\x8c" + bytes([len(text)]) + text.encode()


def long_text(data: bytes) -> bytes:
    """Return the opcode for a text of any length."""
    return b"X" + struct.pack("<I", len(data)) + data


def integer(number: int) -> bytes:
    """Return the opcode for an integer of any length."""
    data = number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True)
    if len(data) < 256:
        return b"\x8a" + bytes([len(data)]) + data
    return b"\x8b" + struct.pack("<I", len(data)) + data


def snapshot(traces: bytes = b"]", segments: bytes = b"]", more: bytes = b"") -> bytes:
    """Return a pickle of a snapshot from the opcodes of its parts; more keys and values follow."""
    return b"".join(
        (PROTO, b"}(", short("segments"), segments, short("device_traces"), traces, more, b"u.")
    )


def tuples(depth: int) -> bytes:
    """Return the opcodes of a tuple of two tuples, the same one twice, and so on."""
    level = b"".join(b"h%ch%c\x86\x94" % (i, i) for i in range(depth))
    return b"K\x01\x94" + level


def lists(depth: int) -> Any:
    """Return a list of a list twice, and so on."""
    value: Any = ["boom"]
    for _ in range(depth):
        value = [value, value]
    return value


def pickles(scale: int = 1) -> Iterator[tuple[str, bytes]]:
    """Yield names and pickles.

    Args:
        scale: how many times as large those are to be whose work grows with their size.
    """
    yield "memo index of 2**31", PROTO + b"]r" + struct.pack("<I", 2**31) + b"."
    yield "memo index of 2**32 - 1", PROTO + b"]r\xff\xff\xff\xff."
    yield "memo index of 2**26 - 1", PROTO + b"]r\xff\xff\xff\x03."
    for name, opcode in {"text": b"\x8d", "frame": b"\x95", "bytes": b"\x8e"}.items():
        for length in (2**40, 2**60, 2**63, 2**64 - 1):
            yield f"{name} of {length} bytes", PROTO + opcode + struct.pack("<Q", length) + b"x."
    yield "integer of 2**31 - 1 bytes", PROTO + b"\x8b\xff\xff\xff\x7fx."
    yield "integer of -1 bytes", PROTO + b"\x8b\xff\xff\xff\xffx."
    huge = integer(1 << (8_000_000 * scale))
    yield "integer of a megabyte", PROTO + huge + b"."
    yield (
        "integer of a megabyte as a key again and again",
        PROTO + b"}" + huge + b"\x94Ns" + b"h\x00Ns" * 100_000 * scale + b".",
    )
    yield "integer of a megabyte as an action", snapshot(b"](](}" + short("action") + huge + b"see")
    same = b"".join(integer(MODULUS * i) + b"N" for i in range(1, 50_000 * scale))
    yield "integers of the same hash as keys", PROTO + b"}(" + same + b"u."
    same = b"".join(integer(MODULUS * i) + b"N" for i in range(-900, 900)) * 20 * scale
    yield "integers of 9 bytes and the same hash as keys", PROTO + b"}(" + same + b"u."
    text = b"a" * 200_000
    yield (
        "two equal texts as a key again and again",
        PROTO + b"}" + (long_text(text) + b"\x94Ns") * 2 + b"h\x01Ns" * 50_000 * scale + b".",
    )
    yield "a text that is no UTF-8", snapshot(more=b"\x8c\x04\xff\xfe\xed\xa0" + b"N")
    yield "half a surrogate", snapshot(more=b"\x8c\x03\xed\xa0\x80" + b"N")
    yield "a tuple of tuples as a key", PROTO + b"}" + tuples(60) + b"Ns."
    yield (
        "a tuple of tuples as an action",
        snapshot(b"](](}" + short("action") + tuples(60) + b"see"),
    )
    yield "a tuple of tuples as a frame's name", snapshot(
        b"](](}(" + short("action") + short("alloc") + short("frames")
        + b"](}" + short("name") + tuples(60) + b"se" + b"uee"
    )  # fmt: skip
    yield (
        "a marked tuple of tuples as a key",
        PROTO
        + b"}K\x01\x94"
        + b"".join(b"(" + b"h%c" % i * 9 + b"t\x94" for i in range(30))
        + b"Ns.",
    )
    yield "lists in lists", PROTO + b"]" * 200_000 * scale + b"a" * (200_000 * scale - 1) + b"."
    yield "dicts in dicts", PROTO + b"}" + (b"N}" * 99_999 + b"s" * 99_999) * scale + b"."
    yield "tuples in tuples", PROTO + b")" + b"\x85" * 200_000 * scale + b"."
    yield "a list in itself", PROTO + b"]\x94h\x00a."
    yield "a list of events in itself", snapshot(b"]\x94h\x00a")
    yield "segments that are the snapshot", PROTO + b"}\x94" + short("segments") + b"h\x00s."
    yield "empty lists", PROTO + b"](" + b"]" * 400_000 * scale + b"e."
    yield "empty dicts", PROTO + b"](" + b"}" * 400_000 * scale + b"e."
    yield "dicts of one", PROTO + b"](" + b"}NNs" * 100_000 * scale + b"e."
    yield "marks", PROTO + b"(" * 400_000 * scale + b"."
    yield "memo entries", PROTO + b"N" + b"\x94" * 400_000 * scale + b"."
    yield "devices", snapshot(b"](" + b"]" * 100_000 * scale + b"e")
    event = b"}" + short("action") + short("oom") + b"s\x94"
    many = 50_000 * scale
    yield (
        "one trace for many devices",
        snapshot(b"](](" + event + b"h\x00" * 20_000 + b"e\x94" + b"h\x01" * 200 + b"e"),
    )
    yield "one event again and again", snapshot(b"](](" + event + b"h\x00" * many + b"ee")
    fields = b"".join(short(f"k{i}") + b"N" for i in range(5000))
    yield (
        "one event of many fields again and again",
        snapshot(
            b"](](}(" + short("action") + short("oom") + fields + b"u\x94" + b"h\x00" * many + b"ee"
        ),
    )
    segment = short("address") + b"K\x00" + short("total_size") + b"K\x00"
    block = b"}(" + short("size") + b"K\x00" + short("address") + b"K\x00u\x94"
    yield "one segment of many blocks again and again", snapshot(
        segments=b"](}(" + segment + short("blocks") + b"](" + block + b"h\x00" * 20_000
        + b"eu\x94" + b"h\x01" * 20_000 + b"e"
    )  # fmt: skip
    mark = (
        short("stage") + short("START") + short("device") + b"K\x00" + short("time_us") + b"K\x05"
    )
    yield "one annotation of many fields again and again", snapshot(
        more=short("external_annotations")
        + b"](}(" + mark + fields + b"u\x94" + b"h\x00" * many + b"e"
    )  # fmt: skip
    noted = b"}(" + short("device") + long_text(b"d" * 9000) + b"\x94"
    noted += short("stats_before") + b"}(" + fields.replace(b"N", b"K\x01") + b"u"
    noted += short("kind") + b"h\x00" + short("name") + b"h\x00"
    noted += short("address") + b"K\x00" + short("size") + b"K\x00" + short("time_us") + b"K\x00"
    yield "one noted row again and again", snapshot(
        more=short("snapreport") + b"}(" + short("devices") + b"](" + noted + b"u\x94"
        + b"h\x01" * many + b"e\x94" + short("storages") + b"h\x02" + short("marks") + b"h\x02u"
    )  # fmt: skip
    for place in ("external_annotations", "allocator_settings", "event", "frame", "name", "state"):
        yield f"a billion lists in {place}", pickle.dumps(with_lists(place), 4)
    yield "stacks that are alike but for a billion lists", pickle.dumps(alike_stacks(), 4)
    yield "two long stacks in turn", pickle.dumps(long_stacks(200 * scale), 4)
    pools = trace()
    for i in range(11_000):
        pools.alloc(f"a{i}", 512, pool_id=(i, i))
    yield "memory pools", pickle.dumps(pools.snapshot(), 4)
    yield "sizes whose sum has over 64 bits", pickle.dumps(largest(), 4)
    yield "segments that every event covers", pickle.dumps(covered(2000 * scale), 4)
    yield "segments that lie in one another", pickle.dumps(in_one_another(2000 * scale), 4)


class Calls:
    """Pickles to a call of a function."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.function, self.arguments = function, arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.function, self.arguments


MARKER = "it-ran"
"""The file that all of ``running()`` would leave in the current folder."""


def running() -> Iterator[tuple[str, bytes]]:
    """Yield names and pickles that would run something, were they loaded by anything else."""
    call = Calls(os.system, f"touch {MARKER}")
    code = f"open({MARKER!r}, 'w').close()"
    for protocol in range(6):
        for thing in (call, Calls(eval, code), Calls(exec, code), Calls(open, MARKER, "w")):
            yield f"top, protocol {protocol}", pickle.dumps(thing, protocol)
            for place in ("segments", "device_traces", "snapreport", "allocator_settings"):
                for value in (thing, [thing], {"a": thing}, {thing: 1}):
                    whole = {"segments": [], "device_traces": [[{"action": "oom"}]]}
                    whole[place] = value  # type: ignore[assignment]
                    yield f"{place}, protocol {protocol}", pickle.dumps(whole, protocol)
    touch = b"touch " + MARKER.encode()
    system = b"cposix\nsystem\n"
    for name, opcodes in {
        "REDUCE": system + b"(" + short(touch.decode()) + b"tR",
        "INST": b"(" + short(touch.decode()) + b"iposix\nsystem\n",
        "OBJ": b"(" + system + short(touch.decode()) + b"o",
        "NEWOBJ": system + short(touch.decode()) + b"\x85\x81",
        "NEWOBJ_EX": system + short(touch.decode()) + b"\x85}\x92",
        "STACK_GLOBAL": short("posix")
        + short("system")
        + b"\x93"
        + short(touch.decode())
        + b"\x85R",
        "BUILD": b"cbuiltins\nobject\n)\x81}" + short("a") + b"Nsb",
        "PERSID": b"Pposix\n",
        "BINPERSID": short("posix") + b"Q",
        "EXT1": b"\x82\x01",
        "EXT4": b"\x84\x01\0\0\0",
        "BUFFER": b"\x97",
        "DUP": b"N2",
        "POP": b"NN0",
    }.items():
        yield name, PROTO + opcodes + b"."
        yield f"{name} as segments", snapshot(segments=opcodes)
        yield f"{name} within an event", snapshot(b"](](}(" + short("action") + opcodes + b"uee")
        yield f"{name} behind the end", snapshot() + opcodes + b"."
        yield f"{name} in a long text", snapshot(more=short("a") + long_text(opcodes * 30))


def with_lists(place: str) -> dict[str, Any]:
    """Return a snapshot that refers to a list of lists in one of its places."""
    bomb = lists(40)
    builder = trace().segment("a", 20 * MIB, (4 * MIB, 4 * MIB, "live"))
    builder.alloc("b", 4, frames=stack("f"))
    whole = builder.snapshot()
    event = whole["device_traces"][0][0]
    if place == "external_annotations":
        whole[place] = [{"name": bomb, "stage": bomb, "device": 0, "time_us": 1, "x": bomb}]
    elif place == "allocator_settings":
        whole[place] = {"x": bomb}
    elif place == "event":
        event["user_metadata"] = bomb
    elif place == "frame":
        event["frames"] = [{"name": "f", "fx_node_op": bomb}]
    elif place == "name":
        event["frames"] = [{"name": bomb}]
    else:
        whole["segments"][0]["blocks"][0]["state"] = bomb
    return whole


def alike_stacks() -> dict[str, Any]:
    """Return a snapshot with two stacks that differ, if at all, at the bottom of two bombs."""
    same = frame("f")
    builder = trace()
    for i in range(2):
        odd = frame("g") | {"fx_node_op": lists(40)}
        builder.alloc(f"a{i}", 512, frames=[same, odd, same, same, same])
    return builder.snapshot()


def long_stacks(length: int) -> dict[str, Any]:
    """Return a snapshot in which events have long stacks in turn."""
    stacks = [[frame(f"f{i}")] * (length + i) for i in range(1100)]
    builder = trace()
    for i in range(4400):
        builder.alloc(f"a{i}", 512, frames=stacks[i % len(stacks)], odd=[i])
    return builder.snapshot()


def largest() -> dict[str, Any]:
    """Return a snapshot whose allocations are as large as each may be."""
    builder = trace()
    for i in range(40_000):
        builder.event("alloc", addr=i << 40, size=2**48)
    return builder.snapshot()


def covered(length: int) -> dict[str, Any]:
    """Return a snapshot in which all memory is mapped again and again, segments and all."""
    builder = trace()
    for i in range(length):
        builder.event("segment_map", addr=0, size=2**44)
        builder.segment(2 * MIB * (i + 1), MIB)
    return builder.snapshot()


def in_one_another(length: int) -> dict[str, Any]:
    """Return a snapshot whose segments share their ends, of which each event cuts a bit off."""
    builder = trace()
    for i in reversed(range(length)):
        builder.event("segment_map", addr=length + i, size=2)
    builder.event("segment_map", addr=0, size=length + 1)
    for i in range(length):
        builder.segment(i + 1, 2**44, is_expandable=True)
    return builder.snapshot()


def fields() -> Iterator[tuple[str, bytes]]:
    """Yield names and pickles of snapshots with a wrong value in each field in turn."""
    odd: list[Any] = [
        None, True, -1, 0, 2**31, 2**48, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**70, -(2**63),
        1.5, float("nan"), float("inf"), -0.0, "", "x", "\x00", "é", [], {}, (), [[]], (1, 2),
        {"a": 1}, [None], "9" * 5000,
    ]  # fmt: skip
    for path in _paths(sample()):
        for value in odd:
            whole = sample()
            inner: Any = whole
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = value
            yield f"{path} = {value!r:.20}", pickle.dumps(whole, 4)


def sample() -> dict[str, Any]:
    """Return a small snapshot with something of everything."""
    builder = trace().alloc("a", 4 * MIB, frames=stack("f"), pool_id=(0, 1)).free("a")
    builder.alloc("a", 3 * MIB, category="x", user_metadata="m", compile_context="c")
    builder.segment("a", 20 * MIB, (3 * MIB, 3 * MIB, "live"), frames=stack("g"))
    return builder.settings(max_split_size=-1).start("step", 5).end("step", 25).snapshot()


def _paths(value: Any) -> Iterator[tuple[Any, ...]]:
    if not isinstance(value, (dict, list)):
        return
    for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield (key,)
        for rest in _paths(item):
            yield (key, *rest)


def jsons(scale: int = 1) -> Iterator[tuple[str, bytes]]:
    """Yield names and files of JSON."""
    for name, one, other in (("lists", b"[", b"]"), ("dicts", b'{"a":', b"}")):
        yield f"{name} in {name}", one * 100_000 * scale + b"1" + other * 100_000 * scale
        yield f"{name} without an end", one * 100_000 * scale
    yield "empty lists", b"[" + b"[]," * 200_000 * scale + b"[]]"
    yield "empty dicts", b"[" + b"{}," * 200_000 * scale + b"{}]"
    yield "digits", b'{"segments":[' + b"9" * 1_000_000 * scale + b"]}"
    yield "numbers beyond any", b'{"segments":[{"address":1e400,"total_size":1e308}]}'
    yield "not a number", b'{"segments":[{"address":NaN,"total_size":Infinity}]}'
    yield "a key again and again", b'{"segments":[],' + b'"a":1,' * 200_000 * scale + b'"a":1}'
    yield "half a surrogate", b'{"segments":[],"\\ud800":1}'
    yield "no UTF-8", b'{"segments":[],"\xff\xfe":1}'
    yield "zero bytes", b'{"segments":[' + b"\0" * 100_000
    yield "devices", b'{"device_traces":[' + b"[]," * 100_000 * scale + b"[]]}"


def packed(scale: int = 1) -> Iterator[tuple[str, bytes]]:
    """Yield names and files that unpack to far more than they are."""
    zeros = bytes(MIB)
    size = 100 * scale
    packer = zstandard.ZstdCompressor(level=1)

    def pieces(pack: Callable[[bytes], bytes], piece: bytes, count: int) -> bytes:
        return pack(piece) * count

    yield "gzip of zeros in many parts", pieces(gzip.compress, zeros, size)
    one = zstandard.ZstdCompressor(level=1).compressobj()
    data = b"".join([*(one.compress(zeros) for _ in range(size)), one.flush()])
    yield "zstd of zeros that does not say how many", data
    yield "zstd of zeros in many frames", pieces(packer.compress, zeros, size)
    yield "zstd that says it is short", pieces(packer.compress, b"\x80\x04", 1) + data
    inner = gzip.compress(gzip.compress(zeros * 10))
    yield "gzip in gzip", inner
    yield "empty gzip parts", gzip.compress(b"") * 20_000 * scale
    yield "empty zstd frames", packer.compress(b"") * 50_000 * scale
    yield "skipped zstd frames", b"\x28\xb5\x2f\xfd" + b"\x50\x2a\x4d\x18\0\0\0\0" * 1000
    yield "zstd frame of an exabyte", b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 2**60) + b"\1\0\0"
    yield "zstd window of 2 TiB", b"\x28\xb5\x2f\xfd\x00\xf8" + b"\1\0\0"
    lists_of_lists = PROTO + b"](" + b"]" * (40 << 20) * scale + b"e."
    yield "gzip of empty lists", gzip.compress(lists_of_lists, 6)
    yield "zstd of empty lists", packer.compress(lists_of_lists)
