"""Measures PyTorch's page, in a process of its own, as it may hang or crash its browser.

That page loads its script, and that script d3, from the web. Here the browser gets them from a
folder, and nothing else: each address is answered by the file of its last part, without the
version (``https://cdn.skypack.dev/d3-axis@1`` by ``d3-axis.js``).

    python -m dev.benchmarks.measure.viewer trace_plot.html FOLDER FIGURES.json [MOVES]
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import orjson
from playwright.sync_api import Browser, Error, Page, Route, sync_playwright
from playwright.sync_api import TimeoutError as NothingYetError

from dev.benchmarks import page
from dev.benchmarks.measure.peers import PeerError
from dev.benchmarks.page import VIEWPORT, WATCH, Run, drag, heap_bytes, launch, wheel

SCRIPT = "MemoryViz.js"
_IMPORTED = re.compile(r"""\b(?:from|import)\s*\(?["'](https://[^"']+|\.{1,2}/[^"']+)["']""")
DRAWN = "svg polygon, svg path[d], svg rect"
"""What PyTorch's page draws a timeline with."""
PLAY_SECONDS = 15.0
"""The most that dragging, and then zooming, goes on: a frame of a large page takes seconds."""

# The clock of the page: a frame begins when the one before it was handed over to be shown.
FIRST_PICTURE = """() => new Promise(resolve => requestAnimationFrame(
  () => requestAnimationFrame(() => resolve(performance.now()))))"""


class PageError(Exception):
    """A page does not show its picture; the message says why in a few words."""


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
        imported = {file_for(each) for each in _IMPORTED.findall(path.read_text("utf-8"))}
        waiting += sorted(imported - seen)


def file_for(address: str) -> str:
    """Return the name of the file that stands for an address."""
    name = address.split("?")[0].rstrip("/").rsplit("/", 1)[-1].split("@")[0]
    return name if name.endswith(".js") else f"{name}.js"


def measure_viewer(
    browser: Browser, page_file: Path, folder: Path, note: Callable[[Run], None]
) -> Run:
    """Open a page that PyTorch made, wait for its picture, and drag and zoom it.

    Args:
        browser: from ``launch()``.
        page_file: what ``trace_plot`` wrote.
        folder: with the files that it loads from the web.
        note: called with what is known as soon as it is: what comes then may never end.

    Raises:
        PageError: the page failed, or crashed.
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
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(error.message))
    page.on("crash", lambda _: errors.append("the page crashed"))
    page.set_default_timeout(0)
    try:
        page.goto(page_file.resolve().as_uri(), wait_until="commit")
        _await_picture(page, errors)
        run = Run(page.evaluate(FIRST_PICTURE), 0)
        note(run)
        page.wait_for_timeout(500)
        run.heap = heap_bytes(context.new_cdp_session(page))
        note(run)
        box = page.locator("svg").first.bounding_box()
        if box is not None:
            x, y = box["x"] + box["width"] * 0.55, box["y"] + box["height"] * 0.6
            for name, play in (("pan", drag), ("zoom", wheel)):
                page.evaluate(WATCH)
                begin = time.monotonic()
                play(page, x, y, until=begin + PLAY_SECONDS)
                times = page.evaluate("window.stopWatching()")
                # One frame, or none, in all that time: it is the least that a frame takes.
                whole = [(time.monotonic() - begin) * 1000]
                run.frames[name] = [b - a for a, b in pairwise(times)] or whole
                note(run)
        context.close()
    except Error as error:
        raise PageError(errors[0] if errors else error.message.splitlines()[0]) from error
    return run


def _await_picture(page: Page, errors: list[str]) -> None:
    """Wait for a picture for as long as it takes, unless an error shows that none will come."""
    while True:
        try:
            page.wait_for_selector(DRAWN, state="attached", timeout=1000)
        except NothingYetError:
            if errors:
                raise PageError(errors[0]) from None
        else:
            return


def main(arguments: list[str]) -> None:
    """Measure one page, and keep what is known of it in a file at all times."""
    page_file, folder, figures = map(Path, arguments[:3])
    if arguments[3:]:
        page.MOVES = int(arguments[3])

    def note(run: Run) -> None:
        figures.write_bytes(orjson.dumps(asdict(run)))

    with sync_playwright() as playwright:
        try:
            measure_viewer(launch(playwright), page_file, folder, note)
        except PageError as error:
            raise SystemExit(" ".join(str(error).split())) from error


if __name__ == "__main__":
    main(sys.argv[1:])
