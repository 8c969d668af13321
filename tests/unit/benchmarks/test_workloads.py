"""Recordings made to measure with are such as an allocator and PyTorch could have made."""

from __future__ import annotations

import contextlib
import gc
import io
import pickle
import pickletools
import subprocess
import sys
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dev.benchmarks import make_workload
from dev.benchmarks.make_workload import make
from dev.benchmarks.workloads import named
from dev.benchmarks.workloads.named import FULL, SMALL, STEPS, Workload
from dev.benchmarks.workloads.programs import Shape, play
from dev.benchmarks.workloads.recording import Recording, WorkloadError
from dev.simulator import AllocatorSettings, Config, layouts, simulate
from dev.simulator.invariants import violations
from dev.simulator.settings import MIB, NO_DIVISIONS
from snapreport.diagnosis.recording_warnings import find_closing
from snapreport.figures.curves import find_curves
from tests.builders import history_of
from tests.corpus import NO_CORPUS, corpus_files
from tests.thorough import small

REPOSITORY = Path(__file__).resolve().parents[3]

Snapshot = dict[str, Any]

# What PyTorch's files consist of, and nothing else.
REAL_OPCODES = """
    PROTO FRAME STOP MARK MEMOIZE BINGET LONG_BINGET EMPTY_DICT SETITEMS EMPTY_LIST APPEND APPENDS
    SHORT_BINUNICODE BINUNICODE BININT BININT1 BININT2 LONG1 BINFLOAT NEWTRUE NEWFALSE TUPLE2
"""


def written(snapshot: Snapshot, rounds: int, seed: int = 1) -> bytes:
    out = io.BytesIO()
    Recording(snapshot, rounds, seed).write(out)
    return out.getvalue()


def repeated(snapshot: Snapshot, rounds: int, seed: int = 1) -> Snapshot:
    found: Snapshot = pickle.loads(written(snapshot, rounds, seed))
    return found


def config(seed: int) -> Config:
    """Every feature in some seed, alone and with others."""
    return Config(
        seed=seed,
        operations=120,
        settings=AllocatorSettings(
            expandable_segments=seed % 3 == 1,
            max_split_size=(-1, 20 * MIB)[seed % 4 == 3],
            roundup_power2_divisions=(NO_DIVISIONS, (4,) * 16)[seed % 5 == 4],
        ),
        devices=1 + seed % 2,
        streams=1 + seed % 3,
        capacity=(80 << 30, 256 * MIB)[seed % 2],
        context=("all", "all", "alloc", None)[seed % 4],
        record_from=(0, 60)[seed // 2 % 2],
        max_entries=(1 << 40, 90)[seed % 7 == 6],
        private_pools=seed % 3 == 2,
        annotations=True,
        markers=seed % 4 == 0,
        labels=True,
    )


def assert_adds_up(snapshot: Snapshot) -> None:
    """Replayed to the end, the trace gives the final segments, to the byte."""
    for device in history_of(snapshot).devices:
        closing = find_closing(device, find_curves(device))
        if closing is not None:
            assert (closing.requested, closing.allocated, closing.active) == (0, 0, 0)


@pytest.fixture(scope="module")
def training() -> Snapshot:
    return play(Shape(layers=1, steps=1))


@pytest.mark.parametrize("seed", range(14))
def test_a_repeated_history_is_one_that_an_allocator_could_have(seed: int) -> None:
    snapshot = simulate(config(seed)).snapshot()
    assert violations(snapshot) == []
    for rounds in (1, 3):
        made = repeated(snapshot, rounds, seed)
        assert violations(made) == []
        assert_adds_up(made)


@pytest.mark.parametrize("older", [layouts.torch21, layouts.torch20, layouts.only_free_completed])
def test_layouts_of_older_versions_are_kept(older: Any) -> None:
    snapshot = older(simulate(config(0)).snapshot())
    made = repeated(snapshot, 3)
    assert list(made) == list(snapshot)
    assert [list(event) for event in made["device_traces"][0][:50]] == [
        list(event) for event in snapshot["device_traces"][0][:50]
    ]
    assert_adds_up(made)


def test_what_is_set_up_again_is_on_its_own_stream_and_in_its_own_pool() -> None:
    """As the final segments have it, where memory was never given back within a round."""
    settings = Config(
        seed=4, operations=120, streams=3, private_pools=True, empty_cache=False, record_from=60
    )
    snapshot = simulate(settings).snapshot()
    known = {
        (segment["total_size"], segment["stream"], segment["segment_pool_id"])
        for segment in snapshot["segments"]
    }
    assert len({key[1:] for key in known}) > 2
    made = repeated(snapshot, 2)["device_traces"][0]
    segments = [event for event in made if event["action"] == "segment_alloc"]
    assert {(each["size"], each["stream"], each["pool_id"]) for each in segments} == known
    owner = {}
    for event in made:
        if event["action"] == "alloc":
            owner[event["addr"]] = (event["stream"], event["pool_id"])
        elif event["action"] == "free_completed" and event["addr"] in owner:
            assert owner.pop(event["addr"]) == (event["stream"], event["pool_id"])


@pytest.mark.skipif(not corpus_files(), reason=NO_CORPUS)
def test_real_recordings_are_repeated_soundly() -> None:
    repeatable = 0
    for path in small(corpus_files()):
        snapshot = pickle.loads(path.read_bytes())
        try:
            made = repeated(snapshot, 2)
        except WorkloadError:
            continue  # without a trace
        repeatable += 1
        assert_adds_up(made)
        if "external_annotations" in snapshot:  # with all that the rules look at
            assert violations(made) == violations(snapshot) == []
    assert repeatable


def test_as_many_events_are_written_as_were_promised(tmp_path: Path, training: Snapshot) -> None:
    length = len(training["device_traces"][0])
    path = tmp_path / "long.pickle"
    events = make(path, 3 * length, training)
    assert 3 * length <= events < 5 * length
    made = pickle.loads(path.read_bytes())
    assert len(made["device_traces"][0]) == events
    assert [each.name for each in tmp_path.iterdir()] == ["long.pickle"]


def test_one_round_is_the_recording_itself_elsewhere(training: Snapshot) -> None:
    made = repeated(training, 1)
    for ours, real in zip(made["device_traces"][0], training["device_traces"][0], strict=True):
        assert ours["action"] == real["action"]
        assert ours["frames"] == real["frames"]
        assert 0 <= real["size"] - ours["size"] < 512


def test_rounds_differ_in_addresses_sizes_and_times(training: Snapshot) -> None:
    made = repeated(training, 3)["device_traces"][0]
    length = len(training["device_traces"][0])
    rounds = (made[:length], made[-length:])
    first, last = ([event for event in each if event["action"] == "alloc"] for each in rounds)
    assert [event["frames"] for event in first] == [event["frames"] for event in last]
    pairs = list(zip(first, last, strict=True))
    assert all(one["addr"] != other["addr"] for one, other in pairs)
    varied = [one["size"] != other["size"] for one, other in pairs]
    assert sum(varied) > 0.9 * len(varied)
    # Not one shift for all: then the differences between neighbours would repeat.
    assert len({other["addr"] - one["addr"] for one, other in pairs}) > 5
    gaps = [[b["time_us"] - a["time_us"] for a, b in pairwise(each)] for each in rounds]
    assert gaps[0] != gaps[1]
    assert all(gap >= 0 for gap in gaps[0] + gaps[1])


def test_what_asks_for_equal_sizes_in_a_step_does_so_in_every_round(training: Snapshot) -> None:
    recorded = training["device_traces"][0]
    made = repeated(training, 3)["device_traces"][0]
    for played in (made[: len(recorded)], made[-len(recorded) :]):
        pairs = [
            (before["size"], after["size"])
            for before, after in zip(recorded, played, strict=True)
            if before["action"] == "alloc"
        ]
        assert len(set(pairs)) == len({size for size, _ in pairs}) < len(pairs) / 3


def test_the_pickle_is_written_as_pytorch_writes_it() -> None:
    data = written(play(Shape(layers=1, steps=1, live=300, annotations=20)), 2)
    opcodes: Counter[str] = Counter()
    frames = []
    for opcode, argument, position in pickletools.genops(data):
        opcodes[opcode.name] += 1
        if opcode.name == "FRAME":
            assert position is not None
            frames.append((position, int(argument or 0)))
    assert set(opcodes) <= set(REAL_OPCODES.split())
    assert data[:2] == b"\x80\x04"
    starts = [position for position, _ in frames]
    assert starts == [2, *(position + 9 + size for position, size in frames[:-1])]
    assert all(1 << 16 <= size < 1 << 17 for _, size in frames[:-1])
    events = sum(map(len, pickle.loads(data)["device_traces"]))
    # Mostly references to frames; "N/A" anew in each event.
    assert opcodes["SHORT_BINUNICODE"] > events
    assert opcodes["BINGET"] + opcodes["LONG_BINGET"] > 10 * events
    assert len(pickletools.optimize(data)) < len(data)  # there are memos that nobody asks for


def test_what_pytorch_shares_is_shared(training: Snapshot) -> None:
    made = repeated(training, 3)
    trace = made["device_traces"][0]
    pairs = [
        (one, other)
        for one, other in pairwise(trace)
        if (one["action"], other["action"]) == ("free_requested", "free_completed")
    ]
    assert pairs
    assert all(one["frames"] is other["frames"] for one, other in pairs)
    allocs = [event for event in trace if event["action"] == "alloc"]
    assert len({id(event["frames"]) for event in allocs}) == len(allocs)
    lists = {id(event["frames"]) for event in allocs}
    blocks = [block for segment in made["segments"] for block in segment["blocks"]]
    live = [block for block in blocks if block["state"] == "active_allocated"]
    assert live
    assert all(id(block["frames"]) in lists for block in live)
    frames = {id(frame) for event in trace for frame in event["frames"]}
    original = {id(f) for event in training["device_traces"][0] for f in event["frames"]}
    assert len(frames) == len(original)


def test_memory_does_not_grow_with_the_length(training: Snapshot) -> None:
    class Nowhere(io.RawIOBase):
        def write(self, data: Any) -> int:
            return len(data)

    def most(rounds: int) -> int:
        recording = Recording(training, rounds)
        gc.collect()
        tracemalloc.start()
        recording.write(Nowhere())  # type: ignore[arg-type]
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return peak

    most(2)  # warm
    # Garbage in circles waits for the collector: up to a quarter more was seen.
    assert most(96) < 1.5 * most(12)


def test_equal_arguments_give_equal_bytes(training: Snapshot) -> None:
    assert written(training, 2, 5) == written(training, 2, 5)
    assert written(training, 2, 5) != written(training, 2, 6)


def test_a_shape_has_what_it_promises() -> None:
    shape = Shape(layers=1, steps=1, devices=3, live=400, stacks=900, depth=120, annotations=200)
    made = repeated(play(shape), 2)
    assert violations(made) == []
    assert_adds_up(made)
    assert len(made["external_annotations"]) >= 2 * 2 * 3 * 200
    assert len(made["device_traces"]) == 3
    for trace in made["device_traces"]:
        live = peak = 0
        for event in trace:
            live += {"alloc": 1, "free_completed": -1}.get(event["action"], 0)
            peak = max(peak, live)
        stacks = [
            tuple((f["name"], f["filename"], f["line"]) for f in event["frames"]) for event in trace
        ]
        assert peak >= 400
        assert len(set(stacks)) >= 900
        assert max(map(len, stacks)) >= 110


def test_a_snapshot_without_a_trace_is_refused(tmp_path: Path) -> None:
    snapshot: Snapshot = {"segments": [], "device_traces": [[]]}
    with pytest.raises(WorkloadError, match="no trace"):
        Recording(snapshot, 1)
    path = tmp_path / "empty.pickle"
    path.write_bytes(pickle.dumps(snapshot))
    command = [sys.executable, "-m", "dev.benchmarks.make_workload", str(tmp_path / "out.pickle")]
    done = subprocess.run(
        [*command, "--snapshot", str(path)], capture_output=True, text=True, cwd=REPOSITORY
    )
    assert done.returncode == 1
    assert done.stderr == "the snapshot has no trace to repeat.\n"
    assert not (tmp_path / "out.pickle").exists()


def asked(workload: Workload) -> dict[str, int]:
    """Return the shape that a workload asks for, by name."""
    words = workload.arguments
    return {
        key.removeprefix("--"): int(value)
        for key, value in zip(words[::2], words[1::2], strict=True)
    }


def test_the_full_set_has_every_shape_at_full_size_and_a_smaller_one_to_tell_growth_by() -> None:
    most: Counter[str] = Counter()
    for workload in FULL:
        for key, value in asked(workload).items():
            most[key] = max(most[key], value)
    assert most["live"] == most["stacks"] == 100_000
    assert most["depth"] >= 1000
    assert most["devices"] >= 8
    assert most["annotations"] >= 50_000
    assert max(each.events for each in FULL if each.series == STEPS) >= 10_000_000
    sizes = Counter(each.series for each in FULL)
    assert "" not in sizes
    assert min(sizes.values()) >= 2


def made_here(command: Sequence[str], **_: object) -> None:
    """Do what a new process would be started for, which imports us for longer than that takes."""
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()):
        patch.setattr(sys, "argv", command[2:])
        make_workload.main()


@pytest.mark.parametrize("workload", SMALL, ids=lambda each: each.name)
def test_a_workload_is_as_hard_as_its_name_says(
    workload: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if workload is not SMALL[0]:
        here = SimpleNamespace(run=made_here, DEVNULL=subprocess.DEVNULL)
        monkeypatch.setattr(named, "subprocess", here)
    file = history_of(pickle.loads(workload.make(tmp_path).read_bytes()))
    wanted = asked(workload)
    assert len(file.devices) == wanted.get("devices", 1)
    assert sum(device.events for device in file.devices) >= workload.events
    assert len(file.stacks) >= wanted.get("stacks", 0)
    # Not all are equally deep.
    assert int(file.stacks.node_depth.max()) >= wanted.get("depth", 0) - 7
    for device in file.devices:
        rows = device.allocations
        born = np.bincount(np.maximum(rows.alloc_event, 0), minlength=device.events + 1)
        freed = np.bincount(rows.free_event, minlength=device.events + 1)
        assert np.cumsum(born - freed).max() >= wanted.get("live", 0)
        assert len(device.stages) >= wanted.get("annotations", 0) * 0.99
