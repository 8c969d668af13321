"""What SNAPREPORT and SNAPREPORT_OOM cost while nothing fails: python -m dev.benchmarks.idle_cost.

Three programs on a GPU: a language model, a convolutional network, and a network of tiny layers, in
which a step is nothing but allocations and launches: the worst case. In one process each, turns of
the same steps follow one another without recording and with it, and the medians of the turns are
compared. Where there is no GPU nothing is recorded by SNAPREPORT_OOM, so there is nothing to pay.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SKIPPED = 77
"""The exit status by which test drivers know what could not be tested."""
_TURNS, _TURN_S = 8, 0.5

WAYS: dict[str, dict[str, Any]] = {
    "SNAPREPORT_OOM": {"only_oom": True, "max_entries": 100_000},
    "SNAPREPORT_OOM stacks=python": {"only_oom": True, "stacks": "python", "max_entries": 100_000},
    "SNAPREPORT": {"only_oom": False},
    "SNAPREPORT forward_frames": {"only_oom": False, "forward_frames": True},
}


def _language() -> Callable[[], None]:
    """Return a step of a language model of 12 layers, width 1024."""
    import torch
    from torch import nn

    layer = nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, device="cuda")
    model = nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)
    return _training(model, torch.randn(8, 512, 1024, device="cuda"))


def _images() -> Callable[[], None]:
    """Return a step of a convolutional network."""
    import torch
    from torch import nn

    parts: list[Any] = [nn.Conv2d(3, 64, 3, padding=1)]
    for _ in range(16):
        parts += [nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU()]
    model = nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten()).cuda()
    return _training(model, torch.randn(64, 3, 96, 96, device="cuda"))


def _tiny() -> Callable[[], None]:
    """Return a step of 200 layers of width 64."""
    import torch
    from torch import nn

    parts = [part for _ in range(200) for part in (nn.Linear(64, 64), nn.ReLU())]
    return _training(nn.Sequential(*parts).cuda(), torch.randn(16, 64, device="cuda"))


def _training(model: Any, batch: Any) -> Callable[[], None]:
    import torch

    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


PROGRAMS = {"language model": _language, "images": _images, "tiny layers": _tiny}


@contextmanager
def _recorded(way: str, folder: Path) -> Iterator[None]:
    import torch

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
    import torch

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


def main() -> int:
    import torch

    if not torch.cuda.is_available():
        print("idle-cost: skipped, PyTorch sees no CUDA GPU here.")
        return SKIPPED
    print(f"{torch.cuda.get_device_name(0)}, PyTorch {torch.__version__}: a step without, recorded")
    for program in PROGRAMS:
        subprocess.run([sys.executable, "-m", __spec__.name, program], check=True)
    return 0


if __name__ == "__main__":
    if sys.argv[1:]:
        measure(sys.argv[1])
    else:
        sys.exit(main())
