"""Measure the page of a run in a headless Chromium: size, first picture, frame times.

Runs of a few, of 64 and of 1,024 ranks are made (``dev.benchmarks.runs``), and their pages played
with as ``dev.benchmarks.page`` plays with a report: drag, wheel, keys and hover over the heat map.
The graphics are SwiftShader's: all software.

    python -m dev.benchmarks.run_page [--ranks 64 1024] [--runs 3]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from functools import partial
from pathlib import Path

from playwright.sync_api import sync_playwright

from dev.benchmarks.page import launch, measure, report
from dev.benchmarks.runs.facts import example_run
from snapreport.ground.units import format_bytes
from snapreport.reporters.markdown import write_markdown
from snapreport.reporters.run import ROOMS, run_document
from snapreport.reporters.run_page import write_run_page


def write(ranks: int, folder: Path) -> Path:
    """Make the page of a run; says how long that took, and how large the Markdown is."""
    run, findings = example_run(ranks, steps=24)
    path, notes = folder / f"run-{ranks}.html", folder / f"run-{ranks}.md"
    start = time.perf_counter()
    with path.open("wb") as out:
        write_run_page(run, findings, out)
    took = time.perf_counter() - start
    with notes.open("wb") as out:
        write_markdown(partial(run_document, run, findings), ROOMS, out)
    print(f"{ranks} ranks: made in {took:.2f} s, Markdown {format_bytes(notes.stat().st_size)}")
    return path


def main() -> None:
    """Measure runs of each number of ranks."""
    parser = argparse.ArgumentParser(description="Measure the page of a run in a browser.")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 64, 1024])
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = launch(playwright)
        for ranks in arguments.ranks:
            path = write(ranks, Path(folder))
            runs = [measure(browser, path) for _ in range(arguments.runs)]
            report(f"{ranks} ranks", path, runs)
        browser.close()


if __name__ == "__main__":
    main()
