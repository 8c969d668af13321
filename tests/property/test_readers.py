"""Every reader takes what is nearly right, or refuses it with an expected error."""

from __future__ import annotations

import pickle
from typing import Any
from unittest import mock

import orjson
from hypothesis import given
from hypothesis import strategies as st

from dev.fuzz.seeds import seeds
from dev.fuzz.targets import run
from snapreport.ground.errors import SnapreportError
from snapreport.read import read_bytes, unpickle
from tests.builders import differences
from tests.thorough import tried

bounded = tried(100)

NAMES = [
    "segments",
    "device_traces",
    "allocator_settings",
    "external_annotations",
    "host_traces",
    "host_segments",
    "traces",
    "categories",
    "snapreport",
    "action",
    "addr",
    "device_free",
    "size",
    "stream",
    "time_us",
    "frames",
    "pool_id",
    "category",
    "user_metadata",
    "compile_context",
    "internal_metadata",
    "forward_frames",
    "fx_original_trace",
    "name",
    "filename",
    "line",
    "address",
    "total_size",
    "blocks",
    "state",
    "history",
    "real_size",
    "requested_size",
    "segment_type",
    "segment_pool_id",
    "is_expandable",
    "device",
    "stage",
    "recorder",
    "devices",
    "storages",
    "marks",
    "failure",
    "kind",
    "format",
]
WORDS = [
    "alloc",
    "free_requested",
    "free_completed",
    "segment_alloc",
    "segment_map",
    "oom",
    "annotate",
    "START",
    "END",
    "large",
]
keys = st.sampled_from(NAMES) | st.text(max_size=4)
numbers = st.integers() | st.sampled_from([0, 1, 512, 2**48, 2**62, 2**63 - 1, 2**64])
scalars = (
    st.none() | st.booleans() | numbers | st.floats() | st.sampled_from(WORDS) | st.text(max_size=5)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(keys, inner, max_size=5)
        | st.tuples(numbers, numbers)
    ),
    max_leaves=12,
)


def record(**known: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Give dicts with most of these keys, now and then with another value in one."""
    usual = st.fixed_dictionaries({}, optional=known)
    return st.builds(lambda one, other: {**one, **other}, usual, st.just({}) | near(known))


def near(known: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(sorted(known)) | keys, values, max_size=1)


small = st.integers(0, 8).map(lambda n: n * 512)
tracebacks = st.just('File "a.py", line 1, in f\n') | st.text(max_size=3)
frames = st.lists(
    record(
        name=st.text(max_size=3),
        filename=st.just("a.py"),
        line=numbers,
        fx_original_trace=tracebacks,
    )
)
said = st.sampled_from(["", "x", '{"layer": 1}', "{"])
events = st.builds(
    lambda base, other: {**base, **other},
    st.fixed_dictionaries({"action": st.sampled_from(WORDS), "addr": small, "size": small}),
    st.just({})
    | record(frames=frames, time_us=numbers, stream=numbers, pool_id=values)
    | record(forward_frames=st.lists(tracebacks), internal_metadata=said, user_metadata=said),
)
blocks = record(address=small, size=small, state=st.just("inactive"), requested_size=small)
segments = st.builds(
    lambda base, other: {**base, **other},
    st.fixed_dictionaries({"address": small, "total_size": small}),
    record(device=st.integers(0, 2), stream=numbers, blocks=st.lists(blocks), frames=frames),
)
marks = record(stage=st.sampled_from(WORDS), name=st.text(), device=numbers, time_us=numbers)
snapshots = record(
    segments=st.lists(segments, max_size=4),
    device_traces=st.lists(st.lists(events, max_size=6), max_size=3),
    host_traces=st.lists(st.lists(events, max_size=3), max_size=2) | st.lists(events, max_size=3),
    host_segments=st.lists(segments, max_size=2),
    external_annotations=st.lists(marks, max_size=3),
    allocator_settings=st.dictionaries(keys, values, max_size=3),
    snapreport=st.dictionaries(keys, values, max_size=5),
)


@bounded
@given(snapshots, st.sampled_from([2, 4]))
def test_pickles(snapshot: dict[str, Any], protocol: int) -> None:
    data = pickle.dumps(snapshot, protocol)
    run("snapshot", data)
    ours = verdict(data)
    with mock.patch.object(unpickle, "parse", return_value=None):
        generally = verdict(data)
    if isinstance(ours, str) or isinstance(generally, str):
        assert ours == generally
    else:
        assert differences(ours, generally, "raw") == []


def verdict(data: bytes) -> Any:
    try:
        return read_bytes(data, "x")
    except SnapreportError as error:
        return f"{type(error).__name__}: {error}"


@bounded
@given(snapshots)
def test_json(snapshot: dict[str, Any]) -> None:
    try:
        data = orjson.dumps(snapshot)
    except TypeError:  # an integer or text that JSON does not have
        return
    run("snapshot", data)


BITS = st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), min_size=1, max_size=4)


@bounded
@given(st.sampled_from(["bundle", "packed"]), st.integers(0, 9), BITS)
def test_bent_zips_and_packed_files(target: str, which: int, bits: list[tuple[int, int]]) -> None:
    found = SEEDS[target]
    bent = bytearray(found[which % len(found)])
    for place, value in bits:
        bent[place % len(bent)] = value
    run(target, bytes(bent))


SEEDS = {target: seeds(target) for target in ("bundle", "packed")}

SYNTAX = [
    *"[]{}()<>:,-#&*!|>'\"%@`~^=.?\\/\n\t 0a",
    *("<<: ", "- ", "category: ", "file: ", "[tool.snapreport.check]\n", "base = ", "0x", "1e9"),
    *("2026-01-01", "```", "\n\n", "!!int "),
]
texts = st.lists(st.sampled_from(SYNTAX) | st.text(max_size=2), max_size=40).map("".join)


@bounded
@given(st.sampled_from(["rules", "budget", "notes"]), texts)
def test_rules_budgets_and_notes(target: str, text: str) -> None:
    run(target, text.encode("utf-8", "replace"))


@bounded
@given(st.dictionaries(keys, values, max_size=4) | st.lists(st.dictionaries(keys, values)))
def test_rules_of_any_shape(rules: Any) -> None:
    try:
        data = orjson.dumps(rules)
    except TypeError:
        return
    run("rules", data)
