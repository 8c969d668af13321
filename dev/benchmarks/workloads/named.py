"""The workloads that tables are made of: each has a name, a length and a shape."""

from __future__ import annotations

import subprocess
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

STEPS = "training steps"
"""The series that a real recording can take the place of: one program, ever longer."""

SERIES = {
    "live": "live at once",
    "stacks": "distinct stacks",
    "deep": "deep stacks",
    "devices": "devices",
    "annotations": "annotations",
}
"""By the beginning of a workload's name: those that are hard in the same way, more or less so."""


@dataclass(frozen=True)
class Workload:
    """A recording to be made.

    Attributes:
        name: also that of its file.
        events: at least so many, over all devices.
        arguments: of ``make_workload``, besides the length.
        series: those of one series are alike but for their length, so that growth can be told.
    """

    name: str
    events: int
    arguments: tuple[str, ...] = ()
    series: str = ""

    def make(self, folder: Path, snapshot: Path | None = None) -> Path:
        """Return the recording, made if it is not there yet.

        Args:
            folder: for the files.
            snapshot: what the training steps repeat instead of the simulated one.
        """
        source: tuple[str, ...] = ()
        kind = "simulated"
        if snapshot is not None and self.series == STEPS:
            source = ("--snapshot", str(snapshot.resolve()))
            kind = snapshot.stem
        path = folder / f"{self.name}-{kind}-{version()}.pickle"
        if not path.exists():
            command = [sys.executable, "-m", "dev.benchmarks.make_workload", str(path)]
            length = ("--events", str(self.events))
            # Elsewhere, as it takes memory that would count as that of what is measured.
            subprocess.run(
                [*command, *length, *self.arguments, *source],
                check=True,
                stdout=subprocess.DEVNULL,
                cwd=Path(__file__).resolve().parents[3],
            )
        return path


def _steps(events: int, name: str) -> Workload:
    return Workload(f"steps-{name}", events, (), STEPS)


def _shape(name: str, events: int, **shape: int) -> Workload:
    parts = [part for key, value in shape.items() for part in (f"--{key}", str(value))]
    return Workload(name, events, ("--layers", "2", *parts), SERIES.get(name.split("-")[0], ""))


SMALL = (
    _steps(5_000, "5k"),
    _shape("live-2k", 1, live=2_000),
    _shape("stacks-2k", 1, stacks=2_000),
    _shape("deep-4k", 4_000, depth=1000),
    _shape("both-2k", 1, depth=200, stacks=2_000),
    _shape("devices-10k", 10_000, devices=4, live=200),
    _shape("annotations-2k", 1, annotations=2_000),
)
"""One of every kind, to compare results on."""

QUICK = (
    _steps(20_000, "20k"),
    _steps(80_000, "80k"),
    _steps(320_000, "320k"),
    _shape("live", 1, live=10_000),
    _shape("stacks", 1, stacks=10_000),
    _shape("deep", 20_000, depth=1000),
    _shape("devices", 1, devices=8, live=1000),
    _shape("annotations", 1, annotations=5_000),
)
FULL = (
    _steps(20_000, "20k"),
    _steps(150_000, "150k"),
    _steps(1_200_000, "1.2M"),
    _steps(5_000_000, "5M"),
    _steps(10_000_000, "10M"),
    *(each for each in QUICK if each.series != STEPS),  # so that all grow
    _shape("live-100k", 1, live=100_000),
    _shape("stacks-100k", 1, stacks=100_000),
    _shape("deep-100k", 100_000, depth=1000),
    _shape("devices-500k", 500_000, devices=8, live=1000),
    _shape("annotations-50k", 1, annotations=50_000),
)
"""What a machine with 16 GB and 4 GB of disk can measure: the bare load of 10 M events takes 6."""

HUGE = (_steps(20_000_000, "20M"), _steps(50_000_000, "50M"))
"""What the bare load takes 11 and 27 GB for, and files of 1.8 and 4.5 GB."""

CURVE = tuple(
    _steps(events, name)
    for events, name in (
        (10_000, "10k"),
        (80_000, "80k"),
        (320_000, "320k"),
        (1_200_000, "1.2M"),
        (4_000_000, "4M"),
        (10_000_000, "10M"),
    )
)
"""One program, ever longer: what the document shows."""

SETS: dict[str, Sequence[Workload]] = {
    "small": SMALL, "quick": QUICK, "full": FULL, "huge": HUGE, "curve": CURVE,
}  # fmt: skip
BY_NAME = {each.name: each for each in (*HUGE, *FULL, *CURVE, *QUICK, *SMALL)}


def version() -> str:
    """Tell files apart that other versions of the programs wrote."""
    here = Path(__file__).resolve()
    paths = [each for each in here.parent.glob("*.py") if each != here]
    paths += here.parents[2].glob("dev/simulator/*.py")
    return f"{zlib.crc32(b''.join(path.read_bytes() for path in sorted(paths))):08x}"
