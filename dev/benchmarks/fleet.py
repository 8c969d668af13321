"""Measure many files at once: one process, two, and two workers of Dask.

Files are copies of one snapshot. Each round measures every engine in turn, so that what else the
machine does meets all of them; of each the best time by the clock and the median of the processor
time are printed, and ratios to one process. The Dask cluster runs before and after: its start is
not counted. How time and memory grow with the ranks of a run, ``dev.benchmarks.run --ranks`` tells.

    python -m dev.benchmarks.fleet snap.pickle --files 8 --rounds 3
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_DRIVER = """
import sys, snapreport
batch = snapreport.convert_many(sys.argv[1], sys.argv[2], jobs=int(sys.argv[3]), engine=sys.argv[4])
assert not batch.errors, batch.errors[:1]
"""


class Measured:
    """One run of the driver."""

    def __init__(self, folder: Path, jobs: int, engine: str) -> None:
        with tempfile.TemporaryDirectory() as out:
            begun, before = time.monotonic(), os.times()
            command = [sys.executable, "-c", _DRIVER, str(folder), out, str(jobs), engine]
            subprocess.run(command, check=True, capture_output=True)
            self.clock = time.monotonic() - begun
            after = os.times()
        self.processor = after[2] + after[3] - before[2] - before[3]


@contextmanager
def folder_of(snapshot: Path, files: int) -> Iterator[Path]:
    """Give a folder with so many copies of one snapshot."""
    with tempfile.TemporaryDirectory() as made:
        for rank in range(files):
            shutil.copyfile(snapshot, Path(made) / f"rank{rank}{snapshot.suffix}")
        yield Path(made)


def speed_up(snapshot: Path, files: int, rounds: int) -> None:
    """Print how long the engines take."""
    import dask
    from distributed import LocalCluster

    dask.config.set({"distributed.scheduler.allowed-failures": 2})
    with (
        folder_of(snapshot, files) as folder,
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", memory_limit=0
        ) as cluster,
    ):
        ways = {
            "local, 1 process": (1, "local"),
            "local, 2 processes": (2, "local"),
            "Dask, 2 workers": (2, f"dask={cluster.scheduler_address}"),
        }
        found: dict[str, list[Measured]] = {way: [] for way in ways}
        for _ in range(rounds):
            for way, (jobs, engine) in ways.items():
                found[way].append(Measured(folder, jobs, engine))
        first = min(each.clock for each in found["local, 1 process"])
        print(f"{files} files of {snapshot.stat().st_size:,} bytes, {rounds} rounds")
        for way, all_of_it in found.items():
            best = min(each.clock for each in all_of_it)
            processor = statistics.median(each.processor for each in all_of_it)
            # Dask's workers are children of this process, not of the driver.
            told = "of the driver alone" if "Dask" in way else "in all"
            print(
                f"{way:20} {best:6.1f} s by the clock, {first / best:4.2f} x;"
                f" {processor:6.1f} s processor time {told}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("snapshot", type=Path)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    speed_up(given.snapshot, given.files, given.rounds)


if __name__ == "__main__":
    main()
