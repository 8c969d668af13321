"""What SNAPREPORT and SNAPREPORT_OOM cost while nothing fails: python -m dev.benchmarks.idle_cost.

Three programs on a GPU: a language model, a convolutional network, and a network of tiny layers, in
which a step is nothing but allocations and launches: the worst case. In one process each, turns of
the same steps follow one another without recording and with it, and the medians of the turns are
compared.

Without a GPU, SNAPREPORT_OOM records nothing, and SNAPREPORT waits for its window of steps: smaller
programs run in processes without either and with each, in turn.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

SKIPPED = 77
"""The exit status by which test drivers know what could not be tested."""
_TURNS, _TURN_S = 8, 0.5
_ON = "cuda" if torch.cuda.is_available() else "cpu"
_PAIRS = 5
_WAITING = {
    "without": {},
    "SNAPREPORT_OOM": {"SNAPREPORT_OOM": "out"},
    "SNAPREPORT, waiting": {"SNAPREPORT": "out", "SNAPREPORT_OPTIONS": "steps=1000000-1000001"},
}

WAYS: dict[str, dict[str, Any]] = {
    "SNAPREPORT_OOM": {"only_oom": True, "max_entries": 100_000},
    "SNAPREPORT_OOM stacks=python": {"only_oom": True, "stacks": "python", "max_entries": 100_000},
    "SNAPREPORT": {"only_oom": False},
    "SNAPREPORT forward_frames": {"only_oom": False, "forward_frames": True},
}


def _language() -> Callable[[], None]:
    """Return a step of a language model of 12 layers, width 1024; on the CPU 4, width 256."""
    from torch import nn

    width, batch, length, layers = (1024, 8, 512, 12) if _ON == "cuda" else (256, 4, 64, 4)
    layer = nn.TransformerEncoderLayer(width, 16, 4 * width, batch_first=True, device=_ON)
    model = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    return _training(model, torch.randn(batch, length, width, device=_ON))


def _images() -> Callable[[], None]:
    """Return a step of a convolutional network."""
    from torch import nn

    parts: list[Any] = [nn.Conv2d(3, 64, 3, padding=1)]
    for _ in range(16 if _ON == "cuda" else 4):
        parts += [nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU()]
    model = nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten()).to(_ON)
    side = 96 if _ON == "cuda" else 16
    return _training(model, torch.randn(side * 2 // 3, 3, side, side, device=_ON))


def _tiny() -> Callable[[], None]:
    """Return a step of 200 layers of width 64."""
    from torch import nn

    parts = [part for _ in range(200) for part in (nn.Linear(64, 64), nn.ReLU())]
    return _training(nn.Sequential(*parts).to(_ON), torch.randn(16, 64, device=_ON))


def _training(model: Any, batch: Any) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


PROGRAMS = {"language model": _language, "images": _images, "tiny layers": _tiny}


@contextmanager
def _recorded(way: str, folder: Path) -> Iterator[None]:
    from snapreport.api.recording import ambient

    given = dict(WAYS[way])
    # By itself, so that its cost can be measured where PyTorch does not note lines of forward yet.
    anomalies = given.pop("forward_frames", False)
    recording = ambient(folder, **given).start()
    try:
        with torch.autograd.set_detect_anomaly(anomalies, check_nan=False):
            yield
    finally:
        recording.abandon()


def measure(program: str) -> None:
    """Print a program's row for each way."""
    step = PROGRAMS[program]()

    def turn(steps: int) -> float:
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
        return (time.perf_counter() - began) / steps

    turn(5)
    steps = max(1, round(_TURN_S / turn(5)))
    with tempfile.TemporaryDirectory() as folder:
        for way in WAYS:
            without, recorded = [], []
            for _ in range(_TURNS):
                without.append(turn(steps))
                with _recorded(way, Path(folder)):
                    recorded.append(turn(steps))
            one, other = statistics.median(without), statistics.median(recorded)
            spread = (max(without) - min(without)) / one
            print(
                f"{program:<15} {way:<29} {one * 1e3:8.2f} ms {other * 1e3:8.2f} ms"
                f"  {other / one - 1:+7.2%}  (turns without it differ by {spread:.1%})",
                flush=True,
            )


def measure_waiting() -> None:
    """Print the seconds of a step of each program, the least of many turns."""
    torch.set_num_threads(1)
    for made in PROGRAMS.values():
        step = made()
        step()
        least = float("inf")
        for _ in range(24):
            began = time.perf_counter()
            step()
            least = min(least, time.perf_counter() - began)
        print(least)


def compare_waiting() -> None:
    """Print a row for each program on the CPU."""
    seconds: dict[str, list[list[float]]] = {way: [] for way in _WAITING}
    for _ in range(_PAIRS):
        for way, variables in _WAITING.items():
            done = subprocess.run(
                [sys.executable, "-W", "ignore", "-m", __spec__.name, "--waiting"],
                env=os.environ | variables, stdout=subprocess.PIPE, text=True, check=True,
            )  # fmt: skip
            seconds[way].append([float(line) for line in done.stdout.split()])
    print(f"CPU, PyTorch {torch.__version__}: a step, the least of {_PAIRS} processes")
    for number, program in enumerate(PROGRAMS):
        least = {way: min(each[number] for each in seconds[way]) for way in _WAITING}
        one = least["without"]
        rows = (f"{way} {value / one - 1:+.2%}" for way, value in least.items() if way != "without")
        print(f"{program:<15} {one * 1e3:8.2f} ms  {'  '.join(rows)}")


def main() -> int:
    if _ON == "cpu" and "--gpu" in sys.argv:
        print("idle-cost: skipped, PyTorch sees no CUDA GPU here.")
        return SKIPPED
    if _ON == "cpu":
        compare_waiting()
        return 0
    print(f"{torch.cuda.get_device_name(0)}, PyTorch {torch.__version__}: a step without, recorded")
    for program in PROGRAMS:
        subprocess.run([sys.executable, "-m", __spec__.name, program], check=True)
    return 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--waiting"]:
        measure_waiting()
    elif sys.argv[1:] and sys.argv[1] in PROGRAMS:
        measure(sys.argv[1])
    else:
        sys.exit(main())
