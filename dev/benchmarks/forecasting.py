"""Measure what a forecast costs beside the real run on the CPU: seconds, and the process's memory.

    python -m dev.benchmarks.forecasting [PROGRAM ...]

Each run is a process of its own. Its seconds are those of the program's body, without imports;
its memory is the most that the process held, less what it held after importing PyTorch.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import runpy
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from snapreport.ground.units import format_bytes
from tests.forecast.truth import DECODER
from tests.laboratory.tables import markdown

CARD = "h100-80"
STEPS = 3
_MODEL = ("--d-model", "512", "--layers", "8", "--heads", "8", "--d-ff", "2048", "--context", "256")
PROGRAMS = {
    "decoder": (*_MODEL, "--warm-up", str(STEPS - 1), "--optimizer", "torch"),
    "transformer": (),
    "resnet": (),
}
"""The decoder with its arguments, and programs of the laboratory, which are small."""


def _run(program: str, device: str) -> None:
    if program == "decoder":
        sys.argv = [str(DECODER), *PROGRAMS[program], "--device", device]
        runpy.run_path(str(DECODER), run_name="__main__")
        return
    import torch

    from tests.laboratory.programs import all_programs

    torch.set_default_device(device)
    made = all_programs()[program]()
    made.build()
    made.run(STEPS, lambda _: None)


def _held() -> int:
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def measure_here(program: str, forecast: bool) -> tuple[float, int]:
    """Run a program in this process; return seconds, and bytes that it took."""
    import torch._dynamo  # noqa: F401  (an optimizer would import it)

    import snapreport

    before = _held()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        around: Any = nullcontext()
        if forecast:
            around = snapreport.forecast(
                Path(folder, "made"), card=CARD, steps=0, formats=["pickle"], quiet=True
            )
        with around:
            _run(program, "cuda" if forecast else "cpu")
        seconds = time.perf_counter() - began
    return seconds, _held() - before


def measure(program: str, kind: str) -> tuple[float, int]:
    """Measure a run in a process of its own.

    Raises:
        CalledProcessError: it failed.
    """
    done = subprocess.run(
        [sys.executable, "-m", __spec__.name, "--child", kind, program],
        check=True, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
    )  # fmt: skip
    seconds, held = json.loads(done.stdout.splitlines()[-1])
    return seconds, held


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=", ".join(PROGRAMS))
    parser.add_argument("--child", choices=("real", "forecast"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    unknown = set(given.programs) - set(PROGRAMS)
    if unknown:
        parser.error(f"no program {', '.join(sorted(unknown))}; there are {', '.join(PROGRAMS)}")
    if given.child:
        print(json.dumps(measure_here(given.programs[0], given.child == "forecast")))
        return
    rows = []
    for program in given.programs or PROGRAMS:
        real, made = measure(program, "real"), measure(program, "forecast")
        rows.append([
            program, f"{real[0]:.2f} s", f"{made[0]:.2f} s", f"{made[0] / real[0]:.2f}",
            format_bytes(real[1]), format_bytes(made[1]), f"{made[1] / max(real[1], 1):.2f}",
        ])  # fmt: skip
    columns = ("program", "real", "forecast", "ratio", "memory", "forecast", "ratio")
    print(f"{STEPS} steps on the CPU, and their forecast for {CARD}, with its snapshot\n")
    print(markdown(columns, rows))


if __name__ == "__main__":
    main()
