"""Predict the memory under other allocator settings from one recording, and measure each.

    python -m dev.benchmarks.gpu_settings [PROGRAM ...]

Each program is recorded once under the defaults. From that, the peak of reserved memory and the
smallest capacity are predicted for every setting. Then the program runs under it, each time in a
process of its own: once without a limit, and twice with ``set_per_process_memory_fraction()``
slightly above and slightly below the predicted capacity. Exit status: 0 if every peak is in the
predicted range, and the program succeeds above and fails below; 1 if not; 77 without a GPU.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import orjson

import snapreport
from dev.benchmarks.gpu_check import SKIPPED, SNAPSHOT, why_not
from dev.benchmarks.gpu_programs import ALLOCATOR, CASES
from snapreport.ground.units import format_bytes
from snapreport.model.replays import Between, SettingOutcome

PROGRAMS = ("training_step", "bf16", "churn")
SETTINGS = (
    "default",
    "expandable_segments:True",
    "max_split_size_mb:32",
    "roundup_power2_divisions:8",
    "garbage_collection_threshold:0.7",
)
_STEP = 2 << 20
"""Segments come in multiples of it: a limit between two has no effect."""
_PAGE = 20 << 20
"""What expandable segments grow by. A limit is checked for the request alone, and then entire pages
are mapped: under a limit of 758 MiB an H200 had 762 MiB reserved. So where nothing but a limit
holds a process back, it may be this much below what a card needs."""
_LONGEST_S = 900


@dataclass(frozen=True)
class Measured:
    """What one run came to."""

    reserved: int
    """``torch.cuda.max_memory_reserved()``."""
    served: bool
    """Whether no request failed."""


Measure = Callable[[str, int | None], Measured]
"""Run the program under settings and a limit of the process in bytes, None for none."""


@dataclass(frozen=True)
class Row:
    """A setting: what was predicted, and what was measured."""

    settings: str
    peak: Between
    reserved: int
    capacity: Between
    above: bool
    """Whether the program succeeded slightly above the predicted range."""
    below: bool
    """Whether it succeeded slightly below the range."""

    @property
    def well(self) -> bool:
        """Whether everything is as predicted."""
        inside = self.peak.least <= self.reserved <= self.peak.most
        return inside and self.above and not self.below


def compare(device: snapreport.Device, measure: Measure) -> Iterator[Row]:
    """Predict each setting from a recording under the defaults, and measure it."""
    for settings in SETTINGS:
        given = "" if settings == "default" else settings
        peak = _predicted(device, settings).peak
        # A limit counts entire segments, so the prediction has to know of one.
        limited = ",".join(filter(None, (given, "per_process_memory_fraction:1")))
        capacity = _predicted(device, limited).capacity
        yield Row(
            settings,
            peak,
            measure(given, None).reserved,
            capacity,
            above=measure(given, capacity.most + _STEP).served,
            below=measure(given, capacity.least - _step(settings)).served,
        )


def _step(settings: str) -> int:
    return _PAGE if "expandable_segments" in settings else _STEP


def _predicted(device: snapreport.Device, settings: str) -> SettingOutcome:
    found = device.other_settings(settings)
    if found.refused:
        raise RuntimeError(found.refused)
    (outcome,) = (each for each in found.outcomes if not each.recorded or settings == "default")
    return outcome


def line(row: Row) -> str:
    """Return a row as text."""
    return (
        f"  {row.settings:<34} peak {_range(row.peak)}, measured {format_bytes(row.reserved)};"
        f" fits from {_range(row.capacity)}: above {'served' if row.above else 'FAILED'}, below"
        f" {'SERVED' if row.below else 'failed'}{'' if row.well else '   <- not as predicted'}"
    )


def _range(each: Between) -> str:
    ends = dict.fromkeys(map(format_bytes, (each.least, each.most)))
    return " to ".join(ends)


def run_here(name: str, limit: int | None, folder: Path | None) -> None:
    """Run a program in this process, on the GPU, and print what it came to."""
    import torch

    torch.manual_seed(0)
    torch.cuda.init()
    if limit is not None:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min((limit + 0.5) / total, 1.0))
    served = True
    try:
        with snapreport.record(folder, quiet=True) if folder else nullcontext():
            for _ in CASES[name].program(torch):
                pass
            torch.cuda.synchronize()
    except torch.cuda.OutOfMemoryError:
        served = False
    told = {"reserved": torch.cuda.max_memory_reserved(), "served": served}
    print(orjson.dumps(told).decode())


def measured_in_a_child(name: str, folder: Path | None = None) -> Measure:
    """Return what runs a program in a process of its own."""

    def measure(settings: str, limit: int | None) -> Measured:
        environment = {key: value for key, value in os.environ.items() if key not in ALLOCATOR}
        if settings:
            environment |= dict.fromkeys(ALLOCATOR, settings)  # each version reads its own
        command = [sys.executable, "-m", "dev.benchmarks.gpu_settings", "--child", name]
        command += ["--limit", str(limit)] if limit is not None else []
        command += ["--folder", str(folder)] if folder is not None else []
        done = subprocess.run(
            command,
            cwd=Path(__file__).resolve().parents[2],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=_LONGEST_S,
        )
        return Measured(**orjson.loads(done.stdout.splitlines()[-1]))

    return measure


def check(name: str) -> bool:
    """Record a program, print predictions and measurements, and say whether they agree."""
    print(name)
    with tempfile.TemporaryDirectory() as folder:
        measured_in_a_child(name, Path(folder))("", None)
        device = snapreport.load(Path(folder) / "1" / SNAPSHOT).device("cuda:0")
        well = True
        for row in compare(device, measured_in_a_child(name)):
            print(line(row), flush=True)
            well &= row.well
    return well


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=", ".join(CASES))
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--limit", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        run_here(given.child, given.limit, given.folder)
        return 0
    reason = why_not()
    if reason is not None:
        print(f"gpu-settings: skipped, {reason}.")
        return SKIPPED
    well = [check(name) for name in given.programs or PROGRAMS]
    print("gpu-settings: everything is as predicted." if all(well) else "gpu-settings: FAILED.")
    return 0 if all(well) else 1


if __name__ == "__main__":
    sys.exit(main())
