"""Measures pages in a headless browser: ours, and PyTorch's with its files given by path.

PyTorch's page loads its script, and that script d3, from the web. Here the browser gets them from
a folder, and nothing else: each address is answered by the file of its last part, without the
version (``https://cdn.skypack.dev/d3-axis@1`` by ``d3-axis.js``).
"""

from __future__ import annotations

import math
import os
import re
import shutil
import statistics
from itertools import pairwise
from pathlib import Path

from playwright.sync_api import Browser, Playwright, Route, sync_playwright

from benchmarks.measure.peers import PeerError
from benchmarks.measure.results import PageResult
from benchmarks.measure.targets import OUR_PAGE, VIEWER
from benchmarks.page import ARGUMENTS, VIEWPORT, WATCH, Run, drag, heap_bytes, percentile, wheel
from benchmarks.page import measure as measure_ours

SCRIPT = "MemoryViz.js"
_ADDRESS = re.compile(r"""["'](https://[^"']+)["']""")
DRAWN = "svg polygon, svg path[d], svg rect"
"""What PyTorch's page draws a timeline with."""

# The clock of the page: until a frame was shown after something was drawn.
FIRST_PICTURE = """selector => new Promise(resolve => {
  const look = () => document.querySelector(selector)
    ? requestAnimationFrame(() => resolve(performance.now())) : requestAnimationFrame(look)
  look()
})"""


def launch(playwright: Playwright) -> Browser:
    """Open the browser that is installed, with software graphics."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    return playwright.chromium.launch(executable_path=found, args=ARGUMENTS)


def check_viewer(folder: Path) -> None:
    """Make sure that a folder has the script of PyTorch's page, and all that this imports.

    Raises:
        PeerError: a file is missing; the message names it.
    """
    waiting, seen = [SCRIPT], set()
    while waiting:
        name = waiting.pop()
        path = folder / name
        if not path.is_file():
            raise PeerError(f"{folder} holds no {name}, which PyTorch's page needs.")
        seen.add(name)
        imported = {file_for(each) for each in _ADDRESS.findall(path.read_text("utf-8"))}
        waiting += sorted(imported - seen)


def file_for(address: str) -> str:
    """Return the name of the file that stands for an address."""
    name = address.split("?")[0].rstrip("/").rsplit("/", 1)[-1].split("@")[0]
    return name if name.endswith(".js") else f"{name}.js"


def measure_viewer(browser: Browser, page_file: Path, folder: Path, seconds: float = 120) -> Run:
    """Open a page that PyTorch made, wait for its picture, and drag and zoom it.

    Args:
        browser: from ``launch()``.
        page_file: what ``trace_plot`` wrote.
        folder: with the files that it loads from the web.
        seconds: the most that its first picture may take.
    """
    context = browser.new_context(viewport=VIEWPORT)  # type: ignore[arg-type]

    def answer(route: Route) -> None:
        address = route.request.url
        if address.startswith("file:"):
            route.continue_()
            return
        path = folder / file_for(address)
        if not path.is_file():
            route.abort()
            return
        route.fulfill(
            path=path,
            content_type="text/javascript",
            headers={"Access-Control-Allow-Origin": "*"},
        )

    context.route("**/*", answer)
    page = context.new_page()
    page.set_default_timeout(seconds * 1000)
    page.goto(page_file.resolve().as_uri(), wait_until="commit")
    page.wait_for_selector(DRAWN, state="attached")
    first = page.evaluate(FIRST_PICTURE, DRAWN)
    page.wait_for_timeout(500)
    run = Run(first, heap_bytes(context.new_cdp_session(page)))
    box = page.locator("svg").first.bounding_box()
    if box is not None:
        x, y = box["x"] + box["width"] * 0.55, box["y"] + box["height"] * 0.6
        for name, play in (("pan", drag), ("zoom", wheel)):
            page.evaluate(WATCH)
            play(page, x, y)
            times = page.evaluate("window.stopWatching()")
            run.frames[name] = [b - a for a, b in pairwise(times)]
    context.close()
    return run


def summarise(workload: str, tool: str, page_file: Path, runs: list[Run]) -> PageResult:
    """Take the medians over the openings of one page."""
    frames = [run.frames.get("pan", []) + run.frames.get("zoom", []) for run in runs]
    p95 = [percentile(each, 0.95) for each in frames if each]
    return PageResult(
        workload,
        tool,
        page_file.stat().st_size,
        statistics.median(run.first_picture_ms for run in runs),
        int(statistics.median(run.heap for run in runs)),
        statistics.median(p95) if p95 else math.nan,
    )


def measure_pages(
    pages: list[tuple[str, str, Path]], runs: int, viewer: Path | None
) -> list[PageResult]:
    """Open each page (workload, tool, file) in turn, as often as asked."""
    found: dict[int, list[Run]] = {}
    with sync_playwright() as playwright:
        browser = launch(playwright)
        for _ in range(runs):
            for number, (_, tool, path) in enumerate(pages):
                if tool == VIEWER:
                    assert viewer is not None
                    run = measure_viewer(browser, path, viewer)
                else:
                    run = measure_ours(browser, path)
                found.setdefault(number, []).append(run)
        browser.close()
    return [summarise(*pages[number], runs_) for number, runs_ in found.items()]


__all__ = ["OUR_PAGE", "VIEWER", "check_viewer", "file_for", "measure_pages", "measure_viewer"]
