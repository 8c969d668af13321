"""Solve planted faults on report pages by clicks alone, and count them, beside memory_viz.

A newcomer's way from the page as it opens to the answer, with a mouse, a keyboard and what is on
the screen; the seconds are the script's, which reads at once.

    python -m dev.benchmarks.page_planted
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import sync_playwright

import snapreport
from dev.benchmarks.page import launch
from snapreport.ground.units import format_bytes
from tests.browser.newcomer import VIEWPORT, Newcomer, Row
from tests.planted import PLANTED, Planted


@dataclass(frozen=True)
class Answer:
    """What the page shows of a fault, in the terms of ``Planted``."""

    stage: str
    site: str
    bytes: int
    count: int
    segment: int = 0

    @classmethod
    def true(cls, planted: Planted) -> Answer:
        """What is true, with files as the page shows them: their names, and the rest on hover."""
        site = re.sub(r"\S*/", "", planted.site)
        return cls(planted.stage, site, planted.bytes, planted.count, planted.segment)


def find_leak(reader: Newcomer) -> Answer:
    """Look for the step that keeps something, but for the first, and ask what came in it."""
    reader.tab("Steps")
    step = max(reader.rows()[1:], key=lambda row: row.exact("Stayed"))
    reader.click_row(step, "A to B")
    reader.tab("Lines")
    _, name = step.told["Step"].split()
    return _line(reader.rows()[0], name)


def find_keeping_stage(reader: Newcomer) -> Answer:
    """Open each stage that leaves nothing at the median, but something at most, from above."""
    reader.tab("Stages")
    odd = [row.cells["Stage"] for row in reader.rows() if _is_odd(row.cells["Change"])]
    for title in odd:
        [group] = [row for row in reader.rows() if row.cells["Stage"] == title]
        reader.click_row(group)
        name, count = title.split(" \u00d7 ")
        # Not the first run: in the first step the optimizer makes its state.
        runs = reader.rows()[group.number + 2 :][: int(count) - 1]
        for k, run in enumerate(runs, 2):
            if run.exact("Change") > 0:
                reader.click_row(run, "A to B")
                reader.tab("Lines")
                return _line(reader.rows()[0], f"{name}[{k}]")
    raise LookupError("no stage leaves more than it found")


def _is_odd(change: str) -> bool:
    """Whether a range of changes is nothing at the median, and more at most."""
    return change.startswith("median 0 B") and "to +" in change


def _line(row: Row, stage: str) -> Answer:
    """What the first of the lines says."""
    place, function = row.cells["Location"].split()
    return Answer(stage, f"{function}  {place}", row.exact("Bytes"), int(row.cells["Count"]))


def find_fragmenting_segment(reader: Newcomer) -> Answer:
    """At the end, after the last ``empty_cache()``, read what is held back, and where."""
    reader.click("End")
    reader.tab("Allocator")
    [row] = reader.rows("[aria-label='Free, but held back by small blocks']")
    reader.click_row(row)
    segment = reader.page.locator("[aria-label='Blocks of one segment'] h3").inner_text()
    blocks = [
        each
        for each in reader.rows("[aria-label='Blocks of one segment']")
        if each.cells["State"] == "allocated"
    ]
    site = "  ".join(row.cells["Made by"].split())
    address = int(segment.split(" \u00b7 ")[1], 16)
    return Answer("", site, row.exact("Cannot go back"), len(blocks), address)


@dataclass(frozen=True)
class Way:
    """How a fault is found on the page, and in memory_viz."""

    find: Callable[[Newcomer], Answer]
    clicks: int
    """The most that it takes."""
    memory_viz: str
    """From reading its MemoryViz.js, which PyTorch's wheel leaves out and loads from a network."""


WAYS = {
    "leak_in_one_iteration": Way(
        find_leak, 3,
        "Partly: three strips go on to the end, and pointing at each shows its size and stack. "
        "The step cannot be answered there, because no annotation is drawn, and no sum is shown.",
    ),
    "stage_that_keeps_too_much": Way(
        find_keeping_stage, 6,
        "Partly: six strips go on to the end, and pointing at each shows its size and stack. The "
        "stage cannot be answered there, because no annotation is drawn, and no sum is shown.",
    ),
    "fragmenting_segment": Way(
        find_fragmenting_segment, 3,
        "Yes: Allocator State History (2 clicks) opens at the last event; pointing at the widest "
        "segment shows 226.0 MiB free, and at its only block the stack.",
    ),
}  # fmt: skip


def main() -> None:
    """Solve each, and print a table."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = launch(playwright)
        print(f"{'case':<26} {'clicks':>6} {'keys':>4} {'seconds':>7}  answer")
        for make in PLANTED:
            planted = make()
            way = WAYS[planted.name]
            path = Path(
                snapreport.render(planted.write(Path(folder)), f"{folder}/page.html", force=True)
            )
            page = browser.new_context(viewport=VIEWPORT, offline=True).new_page()
            page.goto(path.as_uri())
            page.wait_for_selector("html[data-complete]")
            reader, begun = Newcomer(page), time.monotonic()
            found = way.find(reader)
            seconds = time.monotonic() - begun
            what = (
                f"{found.stage or hex(found.segment)}: {format_bytes(found.bytes)} by {found.site}"
            )
            wrong = "" if found == Answer.true(planted) else " (WRONG)"
            counts = f"{reader.clicks:>6} {reader.keys:>4} {seconds:>7.1f}"
            print(f"{planted.name:<26} {counts}  {what}{wrong}")
            print(f"{'':<26} memory_viz: {way.memory_viz}")
            page.context.close()
        browser.close()


if __name__ == "__main__":
    main()
