"""What SNAPREPORT and SNAPREPORT_OOM cost while nothing fails: python -m dev.benchmarks.idle_cost.

Three programs on a GPU: a language model, a convolutional network, and a network of tiny layers, in
which a step is nothing but allocations and launches: the worst case. In one process each, turns of
the same steps follow one another without recording and with it, and the medians of the turns are
compared.

Without a GPU, SNAPREPORT_OOM puts nothing into the process, and SNAPREPORT with a window of steps a
function call after each step: it is timed beside the steps of smaller programs, as their own times
differ by more from run to run.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

SKIPPED = 77
"""The exit status by which test drivers know what could not be tested."""
_TURNS, _TURN_S = 8, 0.5
_ON = "cuda" if torch.cuda.is_available() else "cpu"

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


def compare_waiting() -> None:
    """Print what is called after each step while a window is waited for, beside each program's."""
    from snapreport.api.any_process import AnyProcess

    waiting = AnyProcess("out", only_oom=False, steps=(1 << 40, 1 << 40), arguments={})
    optimizer = torch.optim.SGD([torch.zeros(1)])
    call = min(timeit.repeat(lambda: waiting._count(optimizer), number=10_000, repeat=9)) / 10_000
    print(f"CPU, PyTorch {torch.__version__}: a step, and {call * 1e6:.2f} µs after it")
    for program, made in PROGRAMS.items():
        step = made()
        step()
        least = min(timeit.repeat(step, number=1, repeat=20))
        print(f"{program:<15} {least * 1e3:8.2f} ms  {call / least:+.5%}")


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
    if sys.argv[1:] and sys.argv[1] in PROGRAMS:
        measure(sys.argv[1])
    else:
        sys.exit(main())
