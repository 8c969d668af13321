"""Measure how long each thing one can do on a report page keeps the page busy, and its memory.

Opens each page once in a headless Chromium, does one thing after the other as a reader would, and
prints for each the longest task of the page's main thread (during which nothing moves), all tasks
above 50 ms together, and how long it took until the page rested. The graphics are all software.

    python -m dev.benchmarks.page_tasks report.html [...]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from dev.benchmarks.page import VIEWPORT, heap_bytes, launch, settle
from snapreport.ground.units import format_bytes

# Tasks above 50 ms, as the browser itself sees them.
WATCH = """() => {
  window.longTasks = []
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.longTasks.push(entry.duration)
  }).observe({ type: "longtask", buffered: true })
}"""
TAKE = "() => window.longTasks.splice(0)"
REST = "() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"

MARKS = """() => performance.getEntriesByType("mark")
  .map((mark) => `${mark.name} ${Math.round(mark.startTime)}`).join(", ")"""
VALUES = "(all) => all.map((option) => option.value)"
NAMES = "(all) => all.map((tab) => tab.dataset.tab)"
FOLLOW = "(link) => { location.hash = link + '&s=5000' }"

SEARCHES = {
    "events": ("512", ">=1MiB", "alloc linear", ""),
    "live": ("linear", ""),
    "lines": ("model", ""),
    "stacks": ("linear", ""),
}

Task = tuple[str, Callable[[Page], object]]


def click(selector: str) -> Callable[[Page], object]:
    """Click on the first of some elements in sight."""
    return lambda page: page.locator(selector).first.click()


def colour(by: str) -> Callable[[Page], object]:
    """Choose a colouring."""
    return lambda page: page.locator(".colour-by select:visible").select_option(by)


def press(*keys: str) -> Callable[[Page], object]:
    """Press keys on the plot."""

    def act(page: Page) -> None:
        page.locator(".plot:visible").focus()
        for key in keys:
            page.keyboard.press(key)

    return act


def tab(name: str) -> Callable[[Page], object]:
    """Open a panel."""
    return lambda page: page.locator(f'[role="tab"][data-tab="{name}"]:visible').click()


def goto(share: float) -> Callable[[Page], object]:
    """Move the cursor to a part of the recording."""

    def act(page: Page) -> None:
        field = page.locator('.moment-go input[type="number"]:visible')
        field.fill(str(int(share * float(field.get_attribute("max") or "0"))))
        field.press("Enter")

    return act


def at(x: float, y: float, *, click: bool = False) -> Callable[[Page], object]:
    """Point at, or click on, a place of the strips given by its parts."""

    def act(page: Page) -> None:
        page.locator(".strips:visible").scroll_into_view_if_needed()
        box = page.locator(".strips:visible").bounding_box()
        if box is None:
            return
        where = (box["x"] + box["width"] * x, box["y"] + box["height"] * y)
        page.mouse.move(*where)
        if click:
            page.mouse.click(*where)

    return act


def typed(text: str) -> Callable[[Page], object]:
    """Search in the open panel."""

    def act(page: Page) -> None:
        page.locator('.panel:visible input[type="search"]').first.fill(text)
        page.wait_for_timeout(150)  # the panel waits for more

    return act


def tasks(page: Page) -> Iterator[Task]:
    """What a reader may do, in turn."""
    yield "zoom in by keys", press(*["+"] * 6)
    yield "pan by keys", press(*["d"] * 6)
    yield "whole view", press("0")
    yield "hover a strip", at(0.55, 0.7)
    yield "hover a group", lambda page: page.locator(".legend .group:visible").first.hover()
    yield "leave the group", at(0.6, 0.4)
    yield "click a strip", at(0.6, 0.9, click=True)
    yield "close it", press("Escape")
    for share in (0.1, 0.5, 0.99):
        yield f"go to {share:.0%} of the events", goto(share)
    yield "next event, five times", press(*["]"] * 5)
    yield "peak", press("p")
    options = page.locator(".colour-by select:visible option:not([disabled])")
    values = options.evaluate_all(VALUES)
    for value in [*values[1:], *values[:1]]:
        yield f"colour by {value}", colour(value)
    yield "keep one group", click(".legend .filters button:visible")
    yield "show all again", click(".chips .link:visible")
    for name in page.locator('[role="tab"]:visible').evaluate_all(NAMES):
        yield f"panel: {name}", tab(name)
        if name == "recording":
            continue
        yield f"  {name}: go to 70%", goto(0.7)
        yield f"  {name}: next event, five times", press(*["]"] * 5)
        if name in ("stacks", "lines", "live"):
            yield f"  {name}: choose a row", click(".panel:visible .list [data-row='2']")
            yield f"  {name}: choose nothing", press("Escape")
        for text in SEARCHES.get(name, ()):
            yield f"  {name}: search {text or 'nothing'}", typed(text)
    yield "requested curve", lambda page: page.get_by_text("Requested", exact=True).first.click()
    yield "pin A, and move on", press("1", "]", "]")
    yield "pin B", press("2")
    yield "what was made between", click(".kinds [data-ask=made]:visible")
    yield "unpin", press("Escape", "Escape")
    link = page.evaluate("window.snapreport.link()")
    yield "follow a link", lambda page: page.evaluate(FOLLOW, link)


def play(page: Page, path: Path) -> None:
    """Do everything once, and print what it took."""
    page.add_init_script(f"({WATCH})()")
    begun = time.monotonic()
    page.goto(path.resolve().as_uri())
    page.wait_for_selector("html[data-ready]", timeout=120_000)
    page.wait_for_selector("html[data-complete]", timeout=120_000)
    settle(page)
    first = page.evaluate("performance.getEntriesByName('first picture')[0]?.startTime ?? NaN")
    seconds = time.monotonic() - begun
    print(f"{path.name}: {format_bytes(path.stat().st_size)}, first picture {first:.0f} ms")
    print(f"  {page.evaluate(MARKS)}; everything after {seconds:.1f} s")
    session = page.context.new_cdp_session(page)
    line("opening", page.evaluate(TAKE), 0)
    print(f"  heap {format_bytes(heap_bytes(session))}")
    page.evaluate(TAKE)
    for name, act in tasks(page):
        begun = time.monotonic()
        act(page)
        page.evaluate(REST)
        settle(page)
        line(name, page.evaluate(TAKE), time.monotonic() - begun)
    print(f"  heap {format_bytes(heap_bytes(session))} after all this")


def line(name: str, durations: list[float], seconds: float) -> None:
    """Print one row."""
    most = f"{max(durations):6.0f} ms" if durations else "     -   "
    together = f"all {sum(durations):6.0f} ms   {seconds:5.1f} s"
    print(f"  {name:<32} longest {most}   {together}", flush=True)


def main() -> None:
    """Measure each page that was named."""
    parser = argparse.ArgumentParser(description="Measure what keeps a report page busy.")
    parser.add_argument("pages", nargs="+", type=Path)
    arguments = parser.parse_args()
    with sync_playwright() as playwright:
        browser = launch(playwright)
        for path in arguments.pages:
            context = browser.new_context(viewport=VIEWPORT, offline=True)  # type: ignore[arg-type]
            play(context.new_page(), path)
            context.close()
        browser.close()


if __name__ == "__main__":
    main()
