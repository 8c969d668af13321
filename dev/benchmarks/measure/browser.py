"""Measures pages in a headless browser: ours, and PyTorch's with its files given by path."""

from __future__ import annotations

import math
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import orjson
from playwright.sync_api import sync_playwright

from dev.benchmarks import page
from dev.benchmarks.measure.processes import CommandError, TookTooLongError, run_once
from dev.benchmarks.measure.results import PageResult
from dev.benchmarks.measure.session import REPOSITORY
from dev.benchmarks.measure.targets import VIEWER
from dev.benchmarks.page import Run, launch, percentile
from dev.benchmarks.page import measure as measure_ours


@dataclass
class Openings:
    """What the openings of one page showed.

    Attributes:
        runs: those that had a picture.
        failed: why it is not opened again; empty if nothing failed.
        waited_ms: how long was waited for a picture in vain, when it was stopped for that.
    """

    runs: list[Run] = field(default_factory=list)
    failed: str = ""
    waited_ms: float = 0.0


def measure_pages(
    pages: Sequence[tuple[str, str, Path]],
    runs: int,
    viewer: Path | None = None,
    seconds: float = 600,
) -> list[PageResult]:
    """Open each page (workload, tool, file) in turn, as often as asked.

    Args:
        pages: what to open.
        runs: how often.
        viewer: with the files of PyTorch's page, if one of the pages is that.
        seconds: the most that one opening of PyTorch's page may take; then it is stopped, and not
            opened again.
    """
    found = [Openings() for _ in pages]
    for _ in range(runs):
        for (_, tool, path), opened in zip(pages, found, strict=True):
            if opened.failed:
                continue
            if tool == VIEWER:
                assert viewer is not None
                open_viewer(path, viewer, seconds, opened)
            else:
                with sync_playwright() as playwright:
                    opened.runs.append(measure_ours(launch(playwright), path))
    return [summarise(*page, opened) for page, opened in zip(pages, found, strict=True)]


def open_viewer(page_file: Path, folder: Path, seconds: float, opened: Openings) -> None:
    """Open PyTorch's page once, in a process of its own that is stopped if it takes too long."""
    with tempfile.TemporaryDirectory() as name:
        figures = Path(name) / "figures.json"
        paths = [str(path.resolve()) for path in (page_file, folder, figures)]
        command = [sys.executable, "-m", "dev.benchmarks.measure.viewer", *paths, str(page.MOVES)]
        try:
            run_once(command, folder=REPOSITORY, seconds=seconds)
        except CommandError as error:
            opened.failed = error.reason
            if isinstance(error, TookTooLongError) and not figures.exists():
                opened.waited_ms = error.seconds * 1000
        if figures.exists():
            found = orjson.loads(figures.read_bytes())
            opened.runs.append(
                Run(**{key: value for key, value in found.items() if value is not None})
            )
            opened.waited_ms = 0.0


def summarise(workload: str, tool: str, page_file: Path, opened: Openings) -> PageResult:
    """Take the medians over the openings of one page."""
    frames = [run.frames.get("pan", []) + run.frames.get("zoom", []) for run in opened.runs]
    p95 = [percentile(each, 0.95) for each in frames if each]
    # Of PyTorch's page only the mark is known.
    first = [
        run.first_picture_ms if math.isnan(run.presented_ms) else run.presented_ms
        for run in opened.runs
    ]
    return PageResult(
        workload,
        tool,
        page_file.stat().st_size,
        statistics.median(first) if first else math.nan,
        int(statistics.median([run.heap for run in opened.runs] or [0])),
        statistics.median(p95) if p95 else math.nan,
        opened.failed,
        0.0 if first else opened.waited_ms,
    )
