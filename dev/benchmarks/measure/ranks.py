"""Measures runs of many ranks: how long one page of them takes, and what its driver keeps.

The driver is the process that hands out the files and compares the ranks. Its peak is its own, as
the system knows it (Linux): that of the workers, which read the files, is the same however many
ranks there are.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dev.benchmarks.measure.processes import run_once, size_of
from dev.benchmarks.workloads.named import version

REPOSITORY = Path(__file__).resolve().parents[3]
SUMMARY, PAGE = "summary", "one page"
_DRIVER = """
import sys, snapreport
verb, run, page = sys.argv[1:]
if verb == "summary":
    loaded = snapreport.load_run(run, jobs=2)
else:
    loaded = snapreport.render_run(run, page, pages="none", jobs=2, force=True).loaded
assert loaded.findings.rows
for line in open("/proc/self/status"):
    if line.startswith("VmHWM"):
        print(line.split()[1])
"""


@dataclass(frozen=True)
class RankCost:
    """What a run of some ranks took."""

    ranks: int
    verb: str
    size: int
    """Bytes of its files."""
    cpu: float
    wall: float
    peak: int
    """Resident bytes of the driver at the most."""
    bytes: int
    """Of the page."""


def measure_ranks(
    counts: Sequence[int], kept: Path, folder: Path, say: Callable[[str], None]
) -> list[RankCost]:
    """Summarise and render runs of some numbers of ranks, in two processes.

    Args:
        counts: of ranks.
        kept: a folder in which the largest run is kept, for the next time.
        folder: for what is written.
        say: called with what begins.
    """
    if not counts:
        return []
    whole = kept / f"ranks-{max(counts)}-{version()}"
    if not whole.exists():
        say(f"making a run of {max(counts):,} ranks")
        make = [sys.executable, "-m", "dev.benchmarks.make_run", f"{whole}.part"]
        shutil.rmtree(f"{whole}.part", ignore_errors=True)
        run_once([*make, "--ranks", str(max(counts)), "--healthy"], folder=REPOSITORY)
        os.replace(f"{whole}.part", whole)
    files = {int(path.name[4:].partition("_")[0]): path for path in whole.glob("*/rank*")}
    found = []
    for count in counts:
        run = folder / f"run-{count}"
        for rank in range(count):
            (run / files[rank].parent.name).mkdir(parents=True, exist_ok=True)
            os.link(files[rank], run / files[rank].parent.name / files[rank].name)
        for verb in (SUMMARY, PAGE):
            say(f"{verb} of {count:,} ranks")
            log, page = folder / "driver.txt", folder / "run.html"
            cost = run_once(
                [sys.executable, "-c", _DRIVER, verb, str(run), str(page)],
                folder=REPOSITORY,
                log=log,
            )
            written = page.stat().st_size if verb == PAGE else 0
            peak = int(log.read_text()) * 1024
            found.append(RankCost(count, verb, size_of(run), cost.cpu, cost.wall, peak, written))
    return found
