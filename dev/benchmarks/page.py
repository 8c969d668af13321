"""Measure report pages in a headless Chromium: size, first picture, memory, frame times.

A page is opened in a fresh context for every run; a snapshot or a bundle is rendered first. The
first picture is painted when the page's code is done with it, and presented when the compositor
has shown the frame that has it, rastered by the graphics process: what a reader waits for. The
timeline is then dragged, zoomed by wheel, moved by keys and hovered with real input events, while
the page notes when each animation frame begins. The graphics are SwiftShader's: all software.

    python dev/benchmarks/page.py report.html [snap.pickle ...] [--runs 5]
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import math
import os
import re
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, CDPSession, Page, Playwright, sync_playwright

import snapreport
from snapreport.ground.units import format_bytes

ARGUMENTS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
VIEWPORT = {"width": 1280, "height": 900}
MOVES = 120
"""Moves of the pointer, and turns of the wheel, in each action."""

TYPED = ["+"] * 12 + ["d"] * 20 + ["a"] * 30 + ["-"] * 12
"""Keys: zooms in, pans, zooms out."""

# Frames are timed by the page itself; input is sent from here.
WATCH = """() => {
  const times = []
  let on = true
  const tick = (now) => { times.push(now); if (on) requestAnimationFrame(tick) }
  requestAnimationFrame(tick)
  window.stopWatching = () => { on = false; return times }
}"""


@dataclass
class Run:
    """What one opening of a page showed."""

    first_picture_ms: float
    heap: int
    """Bytes of the page's and its worker's JavaScript heaps, array buffers included."""
    frames: dict[str, list[float]] = field(default_factory=dict)
    """Milliseconds from frame to frame, by what was done meanwhile."""
    still_ms: float = math.nan
    """From navigation until the first frame, which has the still picture, was presented."""
    presented_ms: float = math.nan
    """From navigation until the frame with the first picture was presented."""


BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")
"""What a Chromium is called; the first has no windows, and opens a page with a fifth less work."""


def launch(playwright: Playwright, arguments: Sequence[str] = ()) -> Browser:
    """Open the browser that ``CHROMIUM`` names or that is installed, else Playwright's own.

    Without arguments of the caller's the graphics are software.
    """
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    return playwright.chromium.launch(executable_path=found, args=arguments or ARGUMENTS)


def drag(page: Page, x: float, y: float, until: float = math.inf) -> None:
    """Hold the plot and swing it to and fro, until a time of ``time.monotonic()`` at most."""
    page.mouse.move(x, y)
    page.mouse.down()
    for k in range(MOVES):
        if time.monotonic() > until:
            break
        page.mouse.move(x + 260 * _swing(k / 60), y + 40 * _swing(k / 40))
    page.mouse.up()


def wheel(page: Page, x: float, y: float, until: float = math.inf) -> None:
    """Zoom in at the pointer and out again, twice, until a time of ``time.monotonic()`` at most."""
    page.mouse.move(x, y)
    for k in range(MOVES):
        if time.monotonic() > until:
            break
        page.mouse.wheel(0, -100 if k % 60 < 30 else 100)


def keys(page: Page, _x: float, _y: float) -> None:
    """Zoom, pan and go back by keys."""
    page.locator(".plot:visible").focus()
    for key in TYPED:
        page.keyboard.press(key)
        page.wait_for_timeout(10)  # a fast typist


def hover(page: Page, x: float, y: float) -> None:
    """Move over the strips."""
    for k in range(MOVES):
        page.mouse.move(x + 300 * _swing(k / 45), y + 120 * _swing(k / 30))


ACTIONS: dict[str, Callable[[Page, float, float], None]] = {
    "pan": drag,
    "zoom": wheel,
    "keys": keys,
    "hover": hover,
}


def _swing(turns: float) -> float:
    """A triangle wave of period 1 between -1 and 1."""
    part = turns % 1
    return 4 * part if part < 0.25 else 2 - 4 * part if part < 0.75 else 4 * part - 4


def measure(browser: Browser, path: Path) -> Run:
    """Open a page, wait for its first picture, and play."""
    context = browser.new_context(viewport=VIEWPORT, offline=True)  # type: ignore[arg-type]
    page = context.new_page()
    browser.start_tracing(page=page, categories=["blink.user_timing", "devtools.timeline"])
    page.goto(path.resolve().as_uri())
    page.wait_for_selector("html[data-ready]", timeout=60_000)
    first = page.evaluate("performance.getEntriesByName('first picture')[0]?.startTime ?? NaN")
    settle(page)
    still, presented = _presented(json.loads(browser.stop_tracing())["traceEvents"])
    heap = heap_bytes(context.new_cdp_session(page))
    run = Run(first, heap, still_ms=still, presented_ms=presented)
    strips = page.locator(".strips:visible")
    if strips.count():  # below much else, on the page of a run
        page.locator(".plot:visible").evaluate("(plot) => plot.scrollIntoView({ block: 'center' })")
    box = strips.bounding_box() if strips.count() else None
    if box is not None:
        x, y = box["x"] + box["width"] * 0.55, box["y"] + box["height"] * 0.6
        for name, play in ACTIONS.items():
            # From a little inside, so that there is room to move in.
            page.locator(".plot:visible").focus()
            page.keyboard.press("0")
            for _ in range(4):
                page.keyboard.press("+")
            settle(page)
            page.evaluate(WATCH)
            play(page, x, y)
            times = page.evaluate("window.stopWatching()")
            run.frames[name] = [b - a for a, b in pairwise(times)]
            settle(page)
    context.close()
    return run


def _presented(events: list[dict[str, Any]]) -> tuple[float, float]:
    """Return after how many milliseconds the first frame and that of the picture were presented."""
    events = sorted((each for each in events if "ts" in each), key=lambda each: each["ts"])
    begun = math.nan
    frames: list[tuple[str, float]] = []
    shown: dict[str, float] = {}
    painted = math.inf
    for event in events:
        name, phase, time_ms = event["name"], event["ph"], event["ts"] / 1000
        if name == "navigationStart":
            if event["args"]["data"]["documentLoaderURL"].startswith("file:"):
                begun = time_ms
        elif name == "domLoading":
            frames = []  # those before were of an empty page
        elif name == "first picture" and phase in "IR":
            painted = min(painted, time_ms)
        elif name == "AnimationFrame" and phase == "b":
            frame = event["args"]["id"]
        elif name == "AnimationFrame" and phase == "e":
            frames.append((frame, time_ms))
        elif (
            name == "AnimationFrame::Presentation" and event["args"]["begin_frame_id"]["source_id"]
        ):
            shown[event["args"]["id"]] = time_ms
    after = [(shown[frame], end) for frame, end in frames if frame in shown]
    still = min((at for at, _ in after), default=math.nan)
    # Frames end in turn: the first one that ends after the picture was painted has it.
    presented = next((at for at, end in after if end >= painted), math.nan)
    return still - begun, presented - begun


def settle(page: Page) -> None:
    """Wait until the timeline shows the exact picture and the page rests."""
    for _ in range(400):
        page.wait_for_timeout(25)
        if page.evaluate("window.snapreport.settled()"):
            break
    page.wait_for_timeout(100)


def heap_bytes(session: CDPSession) -> int:
    """Add up the heaps of the page and of its worker, after a garbage collection."""
    session.send("HeapProfiler.collectGarbage")
    total = _heap(session.send("Runtime.getHeapUsage"))
    answers: list[dict[str, Any]] = []
    session.on("Target.receivedMessageFromTarget", lambda event: answers.append(event))
    attached: list[str] = []
    session.on("Target.attachedToTarget", lambda event: attached.append(event["sessionId"]))
    session.send(
        "Target.setAutoAttach",
        {"autoAttach": True, "waitForDebuggerOnStart": False, "flatten": False},
    )
    for worker in attached:
        for number, method in enumerate(("HeapProfiler.collectGarbage", "Runtime.getHeapUsage")):
            message = json.dumps({"id": number, "method": method})
            session.send("Target.sendMessageToTarget", {"sessionId": worker, "message": message})
    for _ in range(100):
        found = [json.loads(answer["message"]) for answer in answers]
        usage = [answer["result"] for answer in found if answer.get("id") == 1]
        if len(usage) == len(attached):
            return total + sum(_heap(each) for each in usage)
        session.send("Runtime.getHeapUsage")  # lets events through
    raise SystemExit("a worker did not say how much memory it uses")


def _heap(usage: dict[str, Any]) -> int:
    return int(usage["usedSize"] + usage.get("backingStorageSize", 0))


def own_code(page: str) -> tuple[int, int]:
    """Bytes of the page's scripts and styles without its data: in the file, and as text."""
    plain = re.findall(r"<(?:style|script)>(.*?)</(?:style|script)>", page, re.DOTALL)
    packed = re.findall(r'<script [^>]*id="app">(.*?)</script>', page, re.DOTALL)
    kept = sum(len(part.encode()) for part in plain)
    unpacked = sum(len(gzip.decompress(base64.b64decode(part))) for part in packed)
    return kept + sum(map(len, packed)), kept + unpacked


def percentile(values: list[float], share: float) -> float:
    """The value below which this share of the values lies."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def report(name: str, path: Path, runs: list[Run]) -> None:
    """Print the medians over the runs."""
    in_file, as_text = map(format_bytes, own_code(path.read_text(encoding="utf-8")))
    size = format_bytes(path.stat().st_size)
    median = statistics.median
    # "both" is pan and zoom taken together.
    print(f"{name}: {size}, own code {in_file} ({as_text} unpacked), medians of {len(runs)} runs")
    first = [run.first_picture_ms for run in runs]
    for label, times in (
        ("still picture", [run.still_ms for run in runs]),
        ("first picture", first),
        ("presented", [run.presented_ms for run in runs]),
    ):
        print(f"  {label:<13} {median(times):6.0f} ms  ({min(times):.0f} to {max(times):.0f})")
    print(f"  heap {format_bytes(int(median(run.heap for run in runs))):>12}")
    shown = [(action, [run.frames[action] for run in runs]) for action in runs[0].frames]
    if shown:  # what the targets are about
        together = [run.frames["pan"] + run.frames["zoom"] for run in runs]
        shown.insert(0, ("both", together))
    for action, frames in shown:
        print(
            f"  {action:<6} p50 {median(percentile(each, 0.5) for each in frames):5.1f} ms"
            f"   p95 {median(percentile(each, 0.95) for each in frames):5.1f} ms"
            f"   most {median(max(each) for each in frames):5.1f} ms"
            f"   {median(len(each) for each in frames):4.0f} frames"
        )


def main() -> None:
    """Measure each file that was named."""
    parser = argparse.ArgumentParser(description="Measure report pages in a browser.")
    parser.add_argument("files", nargs="+", type=Path, metavar="PAGE_OR_SNAPSHOT")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        pages: dict[str, Path] = {}
        for file in arguments.files:
            path = file
            if file.suffix != ".html":
                path = snapreport.render(
                    file, Path(folder) / f"{len(pages)}-{file.name}.html", force=True
                )
            pages[str(file)] = path

        def opened(path: Path) -> Run:
            with launch(playwright) as browser:  # a fresh one: a shader is compiled only once
                return measure(browser, path)

        # In turn, so that what else the machine does meanwhile slows all of them.
        rounds = [
            {name: opened(path) for name, path in pages.items()} for _ in range(arguments.runs)
        ]
        for name, path in pages.items():
            report(name, path, [each[name] for each in rounds])


if __name__ == "__main__":
    main()
