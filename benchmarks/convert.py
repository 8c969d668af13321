"""Measure convert and render against a bare ``pickle.load`` of the same file.

Every run is a fresh process, so that imports and peak memory count. Pickles are loaded by
Python's own unpickler here: give this program only files that you trust.

    python benchmarks/convert.py snap.pickle [more.pickle ...] [--runs 5]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from snapreport.read import compiled
from snapreport.units import format_bytes

# The bar to measure against: what any Python tool pays before it can begin.
LOAD = "import sys, gc, pickle, numpy; gc.disable(); pickle.load(open(sys.argv[1], 'rb'))"
LOAD_WITH_GC = LOAD.replace("gc.disable(); ", "")


@dataclass(frozen=True)
class Cost:
    """Medians over the runs of one command."""

    seconds: float
    peak: int
    """Resident bytes at the most."""

    def __str__(self) -> str:
        return f"{self.seconds:8.2f} s   {format_bytes(self.peak):>10}"

    def over(self, base: Cost) -> str:
        return f"{self.seconds / base.seconds:6.2f} x   {self.peak / base.peak:6.2f} x memory"


def measure(command: list[str], runs: int) -> Cost:
    """Run a command in fresh processes and take the medians of its time and peak memory."""
    seconds, peaks = [], []
    for _ in range(runs):
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        seconds.append(time.perf_counter() - start)
        if os.waitstatus_to_exitcode(status) != 0:
            raise SystemExit(f"{' '.join(command)} failed")
        # Linux counts ru_maxrss in KiB, macOS in bytes.
        peaks.append(usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024))
    return Cost(statistics.median(seconds), int(statistics.median(peaks)))


def compare(path: Path, runs: int, folder: Path) -> None:
    """Print the costs for one file."""
    bundle, page = folder / "bundle.zip", folder / "page.html"
    snapreport = [sys.executable, "-m", "snapreport"]
    options = ["--force", "--quiet"]
    load = measure([sys.executable, "-c", LOAD, str(path)], runs)
    load_gc = measure([sys.executable, "-c", LOAD_WITH_GC, str(path)], runs)
    convert = measure([*snapreport, "convert", str(path), "-o", str(bundle), *options], runs)
    render = measure([*snapreport, "render", str(bundle), "-o", str(page), *options], runs)

    size = path.stat().st_size
    parts = "with" if compiled.take_integers([], "") is not None else "without"
    print(
        f"{path.name}  ({format_bytes(size)}, medians of {runs} runs, {parts} the compiled parts)"
    )
    print(f"  numpy + pickle.load   {load}   (garbage collector off; on: {load_gc.seconds:.2f} s)")
    print(f"  snapreport convert    {convert}   {convert.over(load)}")
    print(f"  snapreport render     {render}   {render.over(load)}")
    for name, made in (("bundle", bundle), ("page", page)):
        bytes_ = made.stat().st_size
        print(f"  {name:<20}  {format_bytes(bytes_):>10}   {bytes_ / size:6.1%} of the snapshot")


def main() -> None:
    """Measure each file that was named."""
    parser = argparse.ArgumentParser(description="Measure convert against a bare pickle.load.")
    parser.add_argument("files", nargs="+", type=Path, metavar="SNAPSHOT")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for path in arguments.files:
            compare(path, arguments.runs, Path(folder))


if __name__ == "__main__":
    main()
