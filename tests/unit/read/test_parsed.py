"""Events that are read straight into columns are those of the general way, to the last message."""

from __future__ import annotations

import pickle
import pickletools
import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import snapreport
from snapreport.ground.errors import SnapreportError
from snapreport.model.snapshot import RawSnapshot
from snapreport.read import read_bytes, unpickle
from snapreport.read.parsed import ParsedTrace, compress, parse, renumber
from tests.builders import MIB, differences, frame, stack, trace
from tests.corpus import every_corpus_file
from tests.property.simulated import Simulated, for_simulations
from tests.thorough import some


def verdict(data: bytes) -> RawSnapshot | str:
    try:
        return read_bytes(data, "a.pickle")
    except SnapreportError as error:
        return f"{type(error).__name__}: {error}"


def is_taken(data: bytes) -> bool:
    """Say whether the native library takes a pickle."""
    return parse(data, unpickle._load) is not None


def alone(data: bytes) -> RawSnapshot | str:
    """Read in the general way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unpickle, "parse", lambda *_: None)
        return verdict(data)


def assert_same(data: bytes) -> None:
    ours, theirs = verdict(data), alone(data)
    if isinstance(ours, str) or isinstance(theirs, str):
        assert ours == theirs
        return
    assert differences(ours, theirs, "raw") == []
    assert list(ours.oddities.items()) == list(theirs.oddities.items())


def rich(events: int = 40) -> dict[str, Any]:
    """A snapshot with something of everything that PyTorch writes."""
    rng = random.Random(events)
    frames = [frame(f"f{i % 7}", f"file{i % 3}.py", i % 5) for i in range(12)]
    frames += [frame("c++", "??", 2**64 - 1), frame("h") | {"fx_node_op": "call", "fx_x": None}]
    frames.append(frame("train.py(43): step", "none", 0))
    builder = trace(1)
    forward = [
        '  File "m.py", line 3, in run\n    y = f(x)\n',
        '  File "m.py", line 9, in f\n',
        "é",
    ]
    shared: list[Any] = []
    for i in range(events):
        own: Any = rng.choices(frames, k=rng.randint(0, 5))
        shared.append(own)
        kind = rng.random()
        extra: dict[str, Any] = {}
        if kind < 0.2:
            extra = {
                "forward_frames": forward[i % 2 :],
                f"new{i % 3}": {"x": [None, True], "y": (2,)},
            }
        elif kind < 0.4:
            extra = {"user_metadata": f"m{i % 4}", "compile_context": rng.choice(["N/A", "R 1"])}
        elif kind < 0.5:
            extra = {"internal_metadata": "mallocWithAddress", "forward_frames": None}
        elif kind < 0.6:
            extra = {"category": rng.choice(["parameter", None]), "pool_id": (0, i % 3)}
        elif kind < 0.7:
            own = rng.choice([None, rng.choice(shared)])
        builder.alloc(f"a{i}", 512 * (i + 1), frames=own, **extra)
        if rng.random() < 0.7:
            builder.free(f"a{i}", frames=own if rng.random() < 0.5 else None)
    builder.event("oom", addr=None, size=2**62, device_free=7)
    builder.event("snapshot", stream=2**63 - 1, time_us=-(2**63))
    builder.segment("a0", 20 * MIB, (4 * MIB, 4 * MIB, "live"), frames=stack("s"))
    builder.segments[0]["blocks"][0]["frames"] = shared[0]
    builder.segments[0]["blocks"][0]["forward_frames"] = forward
    builder.start("stage é", 5).end("stage é", 90).settings(conf="ü", big=2**64 - 1, share=0.5)
    snapshot = builder.snapshot()
    first = trace().alloc("x", 512, frames=shared[1]).free("x", frames=stack("s"))
    snapshot["device_traces"] = [first.events, builder.events, []]
    snapshot["host_traces"] = [{"action": "alloc", "addr": 1, "size": 2, "frames": shared[2]}]
    return snapshot


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_rich_snapshot_is_taken_and_the_same(protocol: int) -> None:
    data = pickle.dumps(rich(), protocol)
    assert is_taken(data)
    assert_same(data)
    assert_same(data + b"\0\0\0")


@pytest.mark.parametrize("protocol", [2, 4])
def test_thousands_of_events_are_written_in_batches(protocol: int) -> None:
    data = pickle.dumps(rich(2500), protocol)
    assert is_taken(data)
    assert_same(data)


def test_a_stack_of_thousands_of_frames_is_one_stack() -> None:
    deep = stack(*[f"f{i}" for i in range(2500)])
    builder = trace().alloc("a", 4, frames=deep).alloc("b", 4, frames=list(deep))
    data = pickle.dumps(builder.segment("a", 20 * MIB, frames=deep).snapshot(), 4)
    assert is_taken(data)
    assert_same(data)
    raw = read_bytes(data, "x")
    assert len(set(raw.traces[0].stack.tolist())) == 1


def test_every_event_of_a_trace_is_a_row() -> None:
    top = parse(pickle.dumps(rich(), 4), unpickle._load)
    first, second, third = top["device_traces"]
    assert all(isinstance(each, ParsedTrace) for each in top["device_traces"])
    assert (len(first), len(second), len(third)) == (3, len(rich()["device_traces"][1]), 0)
    assert first.first_keys == {"time_us"}


def repeated(events: int) -> dict[str, Any]:
    """A snapshot whose lists of frames differ, but have the same frames as lists before them."""
    rng = random.Random(events)
    frames = [frame(f"f{i}", "m.py", i) for i in range(30)]
    lists = [frames[: 2 * k] + frames[-k:] for k in range(1, 8)]
    builder = trace()
    for i in range(events):
        own = lists[i % 5] if rng.random() < 0.7 else rng.choice(lists)
        builder.alloc(f"a{i}", 512, frames=list(own), compile_context="N/A", pool_id=(0, i % 2))
    return builder.snapshot()


@pytest.mark.parametrize("protocol", [2, 4])
def test_lists_of_the_same_frames_are_one_stack(protocol: int) -> None:
    snapshot = repeated(300)
    data = pickle.dumps(snapshot, protocol)
    assert is_taken(data)
    assert_same(data)
    assert len(set(read_bytes(data, "x").traces[0].stack.tolist())) == 7
    lone = snapshot | {"more": snapshot["device_traces"][0][250]["frames"]}
    assert_same(pickle.dumps(lone, protocol))


def test_a_memo_place_that_gets_another_value_makes_another_stack() -> None:
    # The fourth list is written as the second, but its memo place has another frame by then.
    data = b"\x80\x04}(X\x08\0\0\0segmentsq\x00]q\x01X\x0d\0\0\0device_tracesq\x02]q\x03](}q\x04("
    data += b"X\x06\0\0\0actionq\x05X\x05\0\0\0allocq\x06X\x06\0\0\0framesq\x07]\x94(}q\x09("
    data += b"X\x04\0\0\0nameq\x0aX\x01\0\0\0fq\x0bueu"
    again = b"}\x94(h\x05h\x06h\x07]\x94(h\x09h\x09h\x09h\x09eu"
    other = b"}\x94(h\x05h\x06h\x07](}q\x09(h\x0ah\x06ueu"
    data += again + again + other + again + b"eau."
    assert is_taken(data)
    assert_same(data)
    stacks = read_bytes(data, "x").traces[0].stack.tolist()
    assert [stacks.index(stack) for stack in stacks] == [0, 1, 1, 3, 4]


def test_a_list_of_frames_that_has_itself_in_it_is_no_stack() -> None:
    # MEMOIZE takes place 13, which has a frame so far: what the list has from there is the list.
    data = b"\x80\x04}(X\x08\0\0\0segmentsq\x00]q\x01X\x0d\0\0\0device_tracesq\x02]q\x03](}q\x04("
    data += b"X\x06\0\0\0actionq\x05X\x05\0\0\0allocq\x06X\x06\0\0\0framesq\x07]\x94(}q\x09q\x0d("
    data += b"X\x04\0\0\0nameq\x0aX\x01\0\0\0fq\x0bueu"
    data += b"}(h\x05h\x06h\x07]\x94(h\x09h\x0deueau."
    frames = pickle.loads(data)["device_traces"][0][1]["frames"]
    assert frames[1] is frames
    assert not is_taken(data)
    assert_same(data)


@pytest.mark.parametrize("protocol", [2, 4])
def test_fields_may_come_in_any_order(protocol: int) -> None:
    snapshot, rng = rich(300), random.Random(5)
    for events in snapshot["device_traces"]:
        for i, event in enumerate(events):
            keys = list(event)
            if rng.random() < 0.3:
                rng.shuffle(keys)
            events[i] = {key: event[key] for key in keys}
    data = pickle.dumps(snapshot, protocol)
    assert is_taken(data)
    assert_same(data)


def test_a_field_that_is_set_again_later_has_its_last_value() -> None:
    snapshot = trace().alloc("a", 4).alloc("b", 4).alloc("c", 4).snapshot()
    opcodes = opcodes_of(pickle.dumps(snapshot, 4))
    size = opcodes[opcodes.index(b"K\x04") + 2 :]
    size = size[size.index(b"K\x04") - 1 :]  # of the second event: its key was met before
    last = len(opcodes) - 1 - opcodes[::-1].index(b"K\x04")
    end = last + opcodes[last:].index(b"u") + 1
    data = b"".join([*opcodes[:end], size[0], b"K\x08s", *opcodes[end:]])
    assert [event["size"] for event in pickle.loads(data)["device_traces"][0]] == [4, 4, 8]
    assert_same(data)


def with_event(**values: Any) -> dict[str, Any]:
    snapshot = trace().alloc("a", 4, frames=stack("f")).alloc("b", 4).snapshot()
    snapshot["device_traces"][0][1].update(values)
    return snapshot


def without(key: str) -> dict[str, Any]:
    snapshot = with_event()
    del snapshot["device_traces"][0][1][key]
    return snapshot


SHARED_EVENT = trace().alloc("a", 4).events[0]
LOOP: list[Any] = []
LOOP.append(LOOP)
LOOP_FRAME: dict[str, Any] = frame("f")
LOOP_FRAME["x"] = LOOP_FRAME

NO_INTEGERS: list[Any] = [None, "7", 1.5, True, [7], 2**63, -(2**63) - 1, -1, 2**62, 2**48 + 1]
NO_TEXTS: list[Any] = [None, "", "N/A", 7, True, 1.5, ["x"], {}, (), "lone \ud800", "\0", LOOP]
NO_PAIRS: list[Any] = [(1,), (1, 2, 3), (1, True), (1, 2**70), (-5, 2**62), [0, 1], 5, "x", LOOP]
NO_FRAMES: list[Any] = [None, 1, "x", [], {}, (1, 2), LOOP_FRAME]
NO_FRAME_FIELDS: list[Any] = [None, 1, True, 1.0, 2**70, ["x"], {}, ()]
INTEGER_KEYS = ["addr", "size", "stream", "time_us", "device_free"]
TEXT_KEYS = ["action", "category", "compile_context", "user_metadata", "frames"]
FRAME_KEYS = ["name", "filename", "line", "fx_node_op", "\ud800"]

ODD: list[Any] = [
    *(with_event(**{key: value}) for key in INTEGER_KEYS for value in NO_INTEGERS),
    *(with_event(**{key: value}) for key in TEXT_KEYS for value in NO_TEXTS),
    *(with_event(pool_id=value) for value in NO_PAIRS),
    *(with_event(frames=[value]) for value in NO_FRAMES),
    *(
        with_event(frames=[frame("f") | {key: value}, frame("g")])
        for key in FRAME_KEYS
        for value in NO_FRAME_FIELDS
    ),
    with_event(frames=tuple(stack("f"))),
    with_event(frames=[{}]),
    with_event(frames=[{1: 2}]),
    with_event(**{f"new {i}": i for i in range(70)}),
    *(without(key) for key in ("action", "addr", "size", "stream", "time_us")),
    {"device_traces": [[{}]], "segments": []},
    {"device_traces": [[SHARED_EVENT, SHARED_EVENT]], "segments": []},
    {"device_traces": [[SHARED_EVENT], [SHARED_EVENT]], "segments": []},
    {"device_traces": [[SHARED_EVENT]], "host_traces": [[SHARED_EVENT]], "segments": []},
    {"device_traces": [trace().alloc("a", 4).events] * 2, "segments": []},
    {"device_traces": [[3]], "segments": []},
    {"device_traces": [3], "segments": []},
    {"device_traces": [{}], "segments": []},
    {"device_traces": [None], "segments": []},
    {"device_traces": ([SHARED_EVENT],), "segments": []},
    {"device_traces": [(SHARED_EVENT,)], "segments": []},
    {"device_traces": {}, "segments": []},
    {"device_traces": None, "segments": []},
    {"device_traces": "x", "segments": []},
    {"device_traces": []},
    {"segments": [], "x": {"device_traces": [[SHARED_EVENT]]}},
    {"segments": {"device_traces": [[SHARED_EVENT]]}},
    {"segments": [], "device_traces": [[SHARED_EVENT]], 5: 6},
    {"segments": [3], "device_traces": [[SHARED_EVENT]]},
    {"segments": None, "device_traces": [[SHARED_EVENT]]},
    {"device_traces": [[{"action": "alloc", "category": "x"}]], "segments": []},
    {"device_traces": [[], [{"action": "alloc", "category": "x"}]], "segments": []},
    {"device_traces": [[{"category": "x", "action": "alloc", "time_us": 5}]], "segments": []},
    {"device_traces": [[SHARED_EVENT]], "segments": [], "allocator_settings": {"x": LOOP}},
    {"device_traces": LOOP, "segments": []},
    [{"address": 0, "total_size": 2}],
    [[SHARED_EVENT]],
    [],
    {},
    None,
    "device_traces",
]


@pytest.mark.parametrize("protocol", [2, 4])
def test_whatever_is_odd_is_read_as_without(protocol: int) -> None:
    for snapshot in ODD:
        assert_same(pickle.dumps(snapshot, protocol))


@every_corpus_file
def test_real_snapshots_are_the_same(path: Path) -> None:
    data = path.read_bytes()
    assert is_taken(data) or not isinstance(pickle.loads(data), dict)
    assert_same(data)


def test_samples_are_the_same_and_taken(samples: Path) -> None:
    paths = sorted(samples.glob("*.pickle"))
    assert len(paths) >= 6
    for path in paths:
        data = path.read_bytes()
        assert is_taken(data)
        assert_same(data)


@pytest.mark.parametrize("name", ["training_step", "three_devices", "cpu_profile"])
def test_the_bundle_is_the_same_to_the_byte(
    samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = samples / f"{name}.pickle"
    ours = snapreport.convert(path, tmp_path / "with.zip").read_bytes()
    monkeypatch.setattr(unpickle, "parse", lambda *_: None)
    assert snapreport.convert(path, tmp_path / "without.zip").read_bytes() == ours


@for_simulations(60)
def test_simulated_snapshots_are_the_same(simulation: Simulated) -> None:
    for protocol in (2, 4):
        data = pickle.dumps(simulation.snapshot(), protocol)
        assert is_taken(data)
        assert_same(data)


def opcodes_of(data: bytes) -> list[bytes]:
    starts = [position for _, _, position in pickletools.genops(data)] + [len(data)]
    return [data[i:j] for i, j in pairwise(starts)]


MADE_UP = [
    b"N",
    b"]",
    b"}",
    b"(",
    b"a",
    b"e",
    b"s",
    b"u",
    b")",
    b"t",
    b"\x85",
    b"\x86",
    b"\x87",
    b"\x94",
    b"\x88",
    b"h\x00",
    b"h\x05",
    b"h\x30",
    b"K\x01",
    b"q\x07",
    b"\x8c\x01x",
    b".",
    b"\x8a\x00",
    b"\x8c\x06action",
    b"\x8c\x0ddevice_traces",
    b"j\x90\0\0\0",
    b"J\xff\xff\xff\xff",
]


def rearranged(data: bytes, seed: int, count: int) -> Iterator[bytes]:
    """Yield the pickle with opcodes left out, doubled, swapped, replaced or made up."""
    rng = random.Random(seed)
    framed = opcodes_of(data)
    unframed = [opcode for opcode in framed if opcode[:1] != b"\x95"]
    for _ in range(count):
        # Opcodes that lie across the end of a frame are read in a way of their own.
        bent = list(rng.choice([framed, unframed, unframed]))
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            place, other = rng.randrange(1, len(bent)), rng.randrange(1, len(bent))
            kind = rng.random()
            if kind < 0.2:
                del bent[place : place + rng.choice([1, 1, 2, 5])]
            elif kind < 0.4:
                bent[place], bent[other] = bent[other], bent[place]
            elif kind < 0.6:
                bent.insert(place, rng.choice(bent))
            elif kind < 0.8:
                bent.insert(place, rng.choice(MADE_UP))
            else:
                width = rng.choice([1, 3, 8])
                bent[place:place] = bent[other : other + width]
        yield b"".join(bent)


def mutated(data: bytes, seed: int, count: int) -> Iterator[bytes]:
    """Yield the data cut off, or with bytes changed."""
    rng = random.Random(seed)
    for _ in range(count):
        bent = bytearray(data)
        if rng.random() < 0.1:
            bent = bent[: rng.randrange(1, len(bent))]
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(bent))
            bent[place] = rng.choice([rng.randrange(256), ord(rng.choice("hjqr.()]}aesutKMJGX"))])
        yield bytes(bent)


MUTATIONS = len(some(range(600), 150))


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("bend", [rearranged, mutated])
def test_bent_pickles_are_the_same(
    bend: Callable[[bytes, int, int], Iterator[bytes]], protocol: int
) -> None:
    taken = 0
    for snapshot in (rich(6), repeated(20)):
        for bent in bend(pickle.dumps(snapshot, protocol), protocol, MUTATIONS):
            assert_same(bent)
            taken += is_taken(bent)
    assert 0 < taken < 2 * MUTATIONS


def test_values_are_numbered_in_the_order_of_their_first_appearance() -> None:
    values, column = compress(np.array([7, -1, 3, 7, 0, -1, 3], np.int32))
    assert values == [7, 3, 0]
    assert column.tolist() == [0, -1, 1, 0, 2, -1, 1]
    asked: list[int] = []

    def number(value: int) -> int:
        asked.append(value)
        return 10 * value

    assert renumber(np.array([7, -1, 3, 7], np.int32), number).tolist() == [70, -1, 30, 70]
    assert asked == [7, 3]
    for empty in (np.empty(0, np.int32), np.full(3, -1, np.int32)):
        assert compress(empty)[0] == []
        assert renumber(empty, lambda _: 1).tolist() == [-1] * len(empty)
