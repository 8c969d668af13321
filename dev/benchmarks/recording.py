"""Measure what recording on the CPU costs a training loop, in time and in memory.

Each way runs in a process of its own, several times in turn. Needs PyTorch.

    python dev/benchmarks/recording.py [--steps 20] [--layers 4] [--width 256] [--runs 3]
"""

from __future__ import annotations

import argparse
import pickle
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass

from snapreport.ground.units import format_bytes

WAYS = ("nothing", "torch.profiler", "torch.profiler with stacks", "snapreport")


@dataclass(frozen=True)
class Cost:
    """What one process measured of itself."""

    first: float
    """Seconds that it took to begin."""
    loop: float
    """Seconds of the loop."""
    last: float
    """Seconds from the loop's end to a snapshot, where there is one."""
    peak: int
    """Resident bytes at the most."""
    events: int
    size: int
    """Bytes of the snapshot as a pickle."""


def train(steps: int, layers: int, width: int, way: str) -> Cost:
    """Train a small transformer in this process, recorded in one of the WAYS."""
    import resource

    import torch

    from snapreport.recorders.cpu import CpuRecorder

    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
    net = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    optimizer = torch.optim.AdamW(net.parameters())
    batch = torch.randn(8, 64, width)

    def step() -> None:
        net(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    profile = torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        profile_memory=True,
        with_stack=way.endswith("stacks"),
    )
    recorder = CpuRecorder()
    # The profiler's first start in a process takes a second, whoever starts it.
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        pass
    began = time.perf_counter()
    if way.startswith("torch"):
        profile.start()
    elif way == "snapreport":
        recorder.start()
    loop = time.perf_counter()
    for _ in range(steps):
        step()
    ended = time.perf_counter()
    events = size = 0
    if way.startswith("torch"):
        profile.stop()
    elif way == "snapreport":
        recorder.stop()
        snapshot = recorder.snapshot()
        events = len(snapshot["device_traces"][-1])
        size = len(pickle.dumps(snapshot, protocol=4))
    last = time.perf_counter() - ended
    # Linux counts ru_maxrss in KiB, macOS in bytes.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak *= 1 if sys.platform == "darwin" else 1024
    return Cost(loop - began, ended - loop, last, peak, events, size)


def measure(way: str, options: list[str]) -> Cost:
    """Run one way in a fresh process."""
    command = [sys.executable, __file__, "--inside", way, *options]
    done = subprocess.run(command, check=True, capture_output=True)
    # The profiler's library writes lines of its own before ours.
    numbers = done.stdout.split(b"cost:")[1].split()
    first, loop, last = map(float, numbers[:3])
    return Cost(first, loop, last, *map(int, numbers[3:]))


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--inside", choices=WAYS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        cost = train(given.steps, given.layers, given.width, given.inside)
        numbers = (cost.first, cost.loop, cost.last, cost.peak, cost.events, cost.size)
        print("cost:", *numbers)
        return
    options = [f"--{name}={getattr(given, name)}" for name in ("steps", "layers", "width")]
    costs: dict[str, list[Cost]] = {way: [] for way in WAYS}
    for _ in range(given.runs):
        for way in WAYS:
            costs[way].append(measure(way, options))
    base = min(cost.loop for cost in costs["nothing"]) / given.steps
    print(f"{given.steps} steps, {given.layers} layers of width {given.width}; best of the runs")
    print(f"{'recorded by':<27} {'a step':>9}   {'times':>6}   {'to end':>7}   peak memory")
    for way, found in costs.items():
        step = min(cost.loop for cost in found) / given.steps
        last = min(cost.last for cost in found)
        peak = int(statistics.median(cost.peak for cost in found))
        print(
            f"{way:<27} {step * 1000:6.1f} ms   {step / base:6.2f}   {last:5.2f} s"
            f"   {format_bytes(peak)}"
        )
    last_cost = costs["snapreport"][-1]
    print(f"snapshot: {last_cost.events:,} events, {format_bytes(last_cost.size)}")


if __name__ == "__main__":
    main()
