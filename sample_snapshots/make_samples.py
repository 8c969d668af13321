"""Makes the simulated samples in this folder; the same bytes every time.

    python -m sample_snapshots.make_samples [FOLDER]

Every sample is one function below, named as its file. ``simulator`` plays PyTorch's allocator.
"""

from __future__ import annotations

import gzip
import json
import pickle
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import zstandard

from dev.simulator.allocator import OutOfMemoryError
from dev.simulator.settings import MIB, AllocatorSettings
from dev.simulator.simulator import GIB, Simulator
from dev.simulator.training import TrainingRun, Transformer

FOLDER = Path(__file__).resolve().parent
KEYS = ("compile_context", "user_metadata")
"""Optional keys of the events, as PyTorch 2.10 writes them."""
COPY_STREAM, REDUCE_STREAM = 0x55D0_4A20, 0x55D0_7B80
SMALL_MODEL = Transformer(layers=2, width=512, heads=8, vocabulary=16_000)


def training_step(batch: int = 8) -> Simulator:
    """Two training steps of a transformer whose parameters were there before recording."""
    simulator = Simulator(optional_keys=KEYS, seed=1)
    run = TrainingRun(simulator, Transformer(batch=batch))
    run.build()
    simulator.start_recording()
    run.train(2)
    return simulator


def expandable_segments() -> Simulator:
    """Expandable segments, in which ``empty_cache()`` punches holes."""
    settings = AllocatorSettings(expandable_segments=True)
    simulator = Simulator(settings, optional_keys=KEYS, seed=2)
    run = TrainingRun(simulator, replace(SMALL_MODEL, layers=1))
    simulator.start_recording()
    run.build()
    run.train(1)
    simulator.empty_cache()
    with run.call("<module>", "train.py", 88), run.call("evaluate", "train.py", 49):
        hidden = run.new(210 * MIB, "at::_ops::linear::call")
        run.new(30 * MIB, "at::_ops::clone::call")  # stays, and keeps the end of the segment mapped
        run.drop(hidden)
    simulator.empty_cache()
    run.model = replace(run.model, length=384)
    run.train(1, first=1)
    simulator.empty_cache()
    simulator.mark_snapshot()
    with run.call("<module>", "train.py", 88), run.call("evaluate", "train.py", 49):
        run.new(55 * MIB, "at::_ops::linear::call")
    return simulator


def two_streams() -> Simulator:
    """Batches and gradients that other streams use: frees wait, three still at the end."""
    simulator = Simulator(optional_keys=KEYS, seed=3)
    allocator = simulator.allocators[0]
    run = TrainingRun(simulator, SMALL_MODEL)
    simulator.start_recording()
    with run.call("<module>", "train_ddp.py", 61), run.call("main", "train_ddp.py", 44):
        weights = run.new(96 * MIB, "at::_ops::empty_memory_format::call")
        for number in range(8):
            with simulator.annotation(f"ProfilerStep#{number}"):
                with run.call("prefetch", "data/loader.py", 23):
                    run.stream = COPY_STREAM
                    batch = run.new(24 * MIB + 4096 * number, "at::_ops::_to_copy::call")
                    allocator.record_stream(batch, 0)
                    run.stream = 0
                with run.call("training_step", "train_ddp.py", 31):
                    kept = [
                        run.new((6 + layer) * MIB + 1000, "at::_ops::linear::call")
                        for layer in range(4)
                    ]
                    allocator.pass_events(REDUCE_STREAM)
                with run.call("reduce_gradients", "parallel/reducer.py", 58):
                    bucket = run.new(25 * MIB, "at::_ops::cat::call")
                    allocator.record_stream(bucket, REDUCE_STREAM)
                    run.drop(*reversed(kept), bucket)
                with run.call("training_step", "train_ddp.py", 35):
                    run.drop(batch)
                    if number % 3 == 2:
                        allocator.pass_events(0)
                    total = run.new(4, "at::_ops::sum::call")
                    run.drop(total)
        with run.call("save", "train_ddp.py", 55):
            run.new(weights.requested // 16, "at::_ops::clone::call")
    return simulator


def out_of_memory() -> Simulator:
    """A longer batch than usual does not fit; returning cached segments does not help."""
    simulator = Simulator(capacity=3 * GIB, others=600 * MIB, optional_keys=KEYS, seed=4)
    model = Transformer(layers=3, width=512, heads=8, vocabulary=32_000, batch=6)
    run = TrainingRun(simulator, model)
    run.build()
    simulator.start_recording()
    run.train(1)
    run.model = replace(model, length=896)
    try:
        run.train(1, first=1)
    except OutOfMemoryError:
        return simulator
    raise RuntimeError("the sample was to run out of memory")


def private_pool() -> Simulator:
    """A captured CUDA graph's pool, and a pool for the buffers of a communication library."""
    simulator = Simulator(optional_keys=(*KEYS, "pool_id"), seed=5)
    allocator = simulator.allocators[0]
    run = TrainingRun(simulator, SMALL_MODEL)
    simulator.start_recording()
    with run.call("<module>", "serve.py", 40):
        with run.call("load", "serve.py", 12):
            for size in (40 * MIB, 8 * MIB, 700_000, 512):
                run.new(size, "at::_ops::_to_copy::call")
        allocator.begin_pool((0, 1))
        with run.call("register", "parallel/buffers.py", 17):
            run.new(16 * MIB, "at::_ops::empty_memory_format::call")
        allocator.end_pool()
        with simulator.annotation("capture"), run.call("capture", "serve.py", 21):
            allocator.begin_pool((1, 0))
            state = run.new(12 * MIB, "at::_ops::embedding::call")
            for _ in range(4):
                wide = run.new(30 * MIB, "at::_ops::linear::call")
                following = run.new(12 * MIB, "at::_ops::linear::call")
                run.drop(wide, state)
                state = following
            allocator.end_pool()
        with run.call("answer", "serve.py", 33):
            for _ in range(3):
                request = run.new(2 * MIB + 100, "at::_ops::_to_copy::call")
                run.drop(request)
            simulator.empty_cache()
    return simulator


def truncated_ring() -> Simulator:
    """The last 500 of 1,855 events; a stage lost its START, and many blocks their stack."""
    simulator = Simulator(optional_keys=KEYS, seed=6)
    run = TrainingRun(simulator, Transformer())
    with simulator.annotation("epoch 0"):
        simulator.start_recording(max_entries=500)
        run.build()
        run.train(3)
    return simulator


def three_devices() -> Simulator:
    """Two GPUs train with batches of different sizes; the third has nothing to do."""
    simulator = Simulator(devices=3, optional_keys=KEYS, seed=7)
    simulator.start_recording()
    for device in range(2):
        model = replace(SMALL_MODEL, layers=1, batch=8 + 4 * device)
        run = TrainingRun(simulator, model, device)
        run.build()
        run.train(1)
    return simulator


def state_only() -> Simulator:
    """History was not recorded, only who holds what: ``enabled="state"``."""
    simulator = Simulator(optional_keys=KEYS, seed=8)
    simulator.start_recording(enabled="state")
    run = TrainingRun(simulator, SMALL_MODEL)
    run.build()
    run.train(1)
    return simulator


def as_pickle(snapshot: dict[str, Any], protocol: int = 4) -> bytes:
    """Return the bytes that ``_dump_snapshot()`` writes."""
    return pickle.dumps(snapshot, protocol=protocol)


def as_gzip(snapshot: dict[str, Any]) -> bytes:
    """Return a compressed pickle without a date."""
    return gzip.compress(as_pickle(snapshot), mtime=0)


def as_zstd(snapshot: dict[str, Any]) -> bytes:
    """Return a compressed pickle."""
    return zstandard.ZstdCompressor(level=12).compress(as_pickle(snapshot))


def as_json(snapshot: dict[str, Any]) -> bytes:
    """Return JSON, in which tuples are lists."""
    return json.dumps(snapshot, separators=(",", ":")).encode()


SAMPLES: dict[str, tuple[Callable[[], Simulator], Callable[[dict[str, Any]], bytes]]] = {
    "training_step.pickle": (training_step, as_pickle),
    "expandable_segments.pickle.zst": (expandable_segments, as_zstd),
    "two_streams.pickle": (two_streams, lambda snapshot: as_pickle(snapshot, protocol=2)),
    "out_of_memory.pickle.gz": (out_of_memory, as_gzip),
    "private_pool.json": (private_pool, as_json),
    "truncated_ring.pickle": (truncated_ring, as_pickle),
    "three_devices.pickle": (three_devices, as_pickle),
    "state_only.pickle": (state_only, as_pickle),
}
"""File name, what happens in it, and how it is written."""


def main() -> None:
    """Write every sample into this folder, or the one that the command line names."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    for name, (make, write) in SAMPLES.items():
        data = write(make().snapshot())
        (target / name).write_bytes(data)
        print(f"{name}: {len(data):,} bytes")


if __name__ == "__main__":
    main()
