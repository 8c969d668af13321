"""A made run as files, as PyTorch writes them, and the truth beside them."""

from __future__ import annotations

import gzip
import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from dev.benchmarks.runs.facts import CAPACITY
from dev.benchmarks.runs.plan import Plan, Varied, vary
from dev.simulator.allocator import OutOfMemoryError
from dev.simulator.blocks import Block
from dev.simulator.simulator import Simulator

TRUTH = "truth.json"


def write_run(plan: Plan, folder: Path) -> int:
    """Write a file for each rank that is not missing, and what is planted; return the bytes.

    Args:
        plan: of the run.
        folder: made if there is none.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = 0
    for rank in range(plan.ranks):
        if plan.of("missing", rank):
            continue
        data = pickle.dumps(play(plan, vary(plan, rank), rank), protocol=4)
        if plan.of("broken", rank):
            data = data[: len(data) // 2]
        packed = gzip.compress(data, 1, mtime=0)
        path = folder / plan.host(rank) / f"rank{rank}_memory_snapshot.pickle.gz"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(packed)
        written += len(packed)
    (folder / TRUTH).write_bytes(orjson.dumps(plan.truth(), option=orjson.OPT_INDENT_2))
    return written


def play(plan: Plan, varied: Varied, rank: int) -> dict[str, Any]:
    """Let an allocator do what a rank does, and return the snapshot that it leaves."""
    simulator = Simulator(capacity=CAPACITY, seed=plan.seed * 100_003 + rank)
    clock = simulator.recorder.clock
    stacks = plan.pattern.stacks
    live: dict[int, Block] = {}
    for number in varied.baseline.tolist():
        live[number] = simulator.malloc(int(varied.size[number]))
    simulator.start_recording()
    clock.now_us = int(varied.time_us[0]) - 10
    step = -1
    turns = zip(
        varied.turn_of.tolist(),
        varied.turn_sign.tolist(),
        varied.turn_step.tolist(),
        varied.time_us.tolist(),
        strict=True,
    )
    for number, sign, now, time in turns:
        clock.now_us = max(clock.now_us, time)
        if now != step:
            _annotate(simulator, step, now)
            step = now
        simulator.recorder.frames = stacks[int(varied.site[number])]
        if sign > 0:
            live[number] = simulator.malloc(int(varied.size[number]))
        else:
            simulator.free(live.pop(number))
    if varied.failed is None:
        _annotate(simulator, step, None)
    else:
        _fail(simulator, stacks[varied.failed_site], varied.failed)
    return _shared(simulator.snapshot())


def _shared(snapshot: dict[str, Any]) -> dict[str, Any]:
    """Let equal stacks be one list, of allocations and of frees: so the pickle has each once."""
    known: dict[tuple[bool, int], list[dict[str, Any]]] = {}
    for event in snapshot["device_traces"][0]:
        frames = event.get("frames")
        if frames:
            freed = event["action"].startswith("free")
            event["frames"] = known.setdefault((freed, id(frames[0])), frames)
    for segment in snapshot["segments"]:
        for holder in (segment, *segment["blocks"]):
            if holder["frames"]:
                holder["frames"] = known.setdefault(
                    (False, id(holder["frames"][0])), holder["frames"]
                )
    return snapshot


def _annotate(simulator: Simulator, ended: int, begun: int | None) -> None:
    if ended >= 0:
        simulator.recorder.annotate(f"ProfilerStep#{ended}", "END", 0)
    if begun is not None:
        simulator.recorder.annotate(f"ProfilerStep#{begun}", "START", 0)


def _fail(simulator: Simulator, frames: list[dict[str, Any]], size: int) -> None:
    """Ask for memory on a card that others have filled."""
    allocator = simulator.allocators[0]
    allocator.driver.leave_free(0)
    simulator.recorder.frames = frames
    cached = allocator.counters.reserved - allocator.counters.allocated
    with suppress(OutOfMemoryError):
        simulator.malloc(size + cached)
