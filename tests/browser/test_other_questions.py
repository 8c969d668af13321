"""The questions of other tools in docs/page.md, asked by hand: the clicks and keys stated there."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

import snapreport
from tests.browser.conftest import KeptPage
from tests.browser.newcomer import VIEWPORT, Newcomer
from tests.browser.timeline_tools import SAMPLES
from tests.docs.test_other_questions import RULES, SECTION

pytestmark = pytest.mark.browser(webgl=False)

TRAINING = SAMPLES / "training_step.pickle"
SAMPLE_OF = {
    "grouped by heap": SAMPLES / "private_pool.json",
    "the same, with what private pools reserve": SAMPLES / "private_pool.json",
    "what was there when memory ran out": SAMPLES / "out_of_memory.pickle.gz",
}
"""The recordings that have what is asked about; all others are asked of a training step."""

Way = Callable[[Newcomer], object]

A, B, C = 0.35, 0.6, 0.85
"""Markers, as shares of the axis."""
STRIP = 0.2, 0.7
"""A place on a strip of an allocation that is made and freed in the recording."""


def answered(reader: Newcomer, kind: str) -> dict[str, Any]:
    """What the page answers, which must be a question of that kind, and not nothing."""
    found: dict[str, Any] = reader.page.evaluate("window.snapreport.answer()")
    assert found["kind"] == kind
    assert found["count"] > 0
    return found


def shows(reader: Newcomer, selector: str, text: str | re.Pattern[str] = "") -> None:
    """Fail unless something is in sight, and has a text."""
    expect(reader.page.locator(selector).locator("visible=true").first).to_contain_text(text)


def between(kind: str, question: str = "") -> Way:
    """Drag from A to B, and choose a question."""

    def act(reader: Newcomer) -> None:
        reader.drag_axis(A, B)
        if question:
            reader.ask(question)
        answered(reader, kind)

    return act


def sorted_by_end(kind: str, question: str, *, alive: bool = False) -> Way:
    """A question about A and B, or C, whose answers are listed by the event that frees them."""

    def act(reader: Newcomer) -> None:
        stays_until_c(reader) if alive else between(kind, question)(reader)
        reader.tab("Allocations")
        reader.click(reader.page.get_by_role("columnheader", name="Freed at").get_by_role("button"))
        ends = [row.cells["Freed at"] for row in reader.rows()]
        events = [int(end.split()[0].replace(",", "")) for end in ends if end[0].isdigit()]
        assert events == sorted(events)
        answered(reader, kind)

    return act


def stays_until_c(reader: Newcomer) -> None:
    reader.drag_axis(A, B)
    reader.click_picture(C)
    reader.press("3")
    reader.ask("Stayed")
    found = answered(reader, "stayed")
    assert found["alive"] == found["at"] > found["to"]


def freed_before(reader: Newcomer) -> None:
    reader.drag_axis(0, A)
    reader.ask("Freed")
    assert answered(reader, "freed")["from"] == -1


def made_after(reader: Newcomer) -> None:
    reader.drag_axis(A, 1)
    reader.ask("Made")
    last = reader.page.evaluate("window.snapreport.summary.devices[0].events") - 1
    assert answered(reader, "made")["to"] == last


def went(reader: Newcomer) -> None:
    between("change")(reader)
    assert any(row.cells["Bytes"].startswith("\u2212") for row in reader.rows())


def moment(reader: Newcomer) -> None:
    reader.click_picture(A)
    answered(reader, "live")
    shows(reader, ".moment-title", re.compile(r"^Live at event"))


def opens(tab: str, selector: str, text: str | re.Pattern[str] = "") -> Way:
    """Open a tab, in which something is shown."""

    def act(reader: Newcomer) -> None:
        reader.tab(tab)
        shows(reader, selector, text)

    return act


def at_once(selector: str, text: str | re.Pattern[str] = "") -> Way:
    """Do nothing: the page shows it as it opens."""
    return lambda reader: shows(reader, selector, text)


def coloured(by: str) -> Way:
    """Choose a colour, by which the legend has the sums."""

    def act(reader: Newcomer) -> None:
        reader.colour(by)
        shows(reader, ".legend b", re.compile(r"B$"))

    return act


def clicked(text: str) -> Way:
    """Click an order of the call stacks."""

    def act(reader: Newcomer) -> None:
        reader.click(
            reader.page.locator(".panel:visible label, .panel:visible button")
            .filter(has_text=text)
            .first
        )
        shows(reader, ".panel [role=tree]" if text == "Flame" else ".panel [role=treegrid]")

    return act


def kept(*colours: str) -> Way:
    """Keep one group, and one more of each other colouring."""

    def act(reader: Newcomer) -> None:
        reader.only()
        for colour in colours:
            reader.colour(colour)
            reader.only()
        expect(reader.page.locator(".chip:visible")).to_have_count(1 + len(colours))

    return act


def searched(text: str, tab: str = "") -> Way:
    """Open a tab, and search in it by the key for that."""

    def act(reader: Newcomer) -> None:
        if tab:
            reader.tab(tab)
        reader.press("/")
        reader.type(text)
        reader.page.wait_for_function(
            "text => decodeURIComponent(window.snapreport.link()).includes(text)", arg=text
        )

    return act


def sorted_allocations(reader: Newcomer) -> None:
    reader.tab("Allocations")
    reader.click(reader.page.get_by_role("columnheader", name="Age").get_by_role("button"))
    expect(reader.page.get_by_role("columnheader", name="Age")).to_have_attribute(
        "aria-sort", "descending"
    )


def strip(reader: Newcomer) -> None:
    reader.click_picture(*STRIP)
    shows(reader, ".details .stack", "Call stack")


def unfold(reader: Newcomer, title: str, text: str) -> None:
    """Open a part of the details, and close it again: it stays open for the next allocation."""
    summary = reader.page.locator(".details:visible summary", has_text=title)
    reader.click(summary)
    shows(reader, f".details details:has-text('{title}') > :not(summary)", text)
    summary.click()


def where_freed(reader: Newcomer) -> None:
    strip(reader)
    unfold(reader, "Where it was freed", "Freed at")


def freed_by(reader: Newcomer) -> None:
    reader.tab("Allocations")
    assert any(row.told["Freed at"].startswith("freed by ") for row in reader.rows())


def facts_of_strip(reader: Newcomer) -> None:
    strip(reader)
    unfold(reader, "Sizes, lifetime, address and more", "Allocated")
    reader.tab("Allocator")
    shows(reader, "[aria-label='Blocks of one segment'] h3", re.compile(r"^Segment \d+ of "))


def life_of_strip(reader: Newcomer) -> None:
    strip(reader)
    seen = []
    for key in "{}":
        reader.press(key)
        seen.append(answered(reader, "live")["at"])
    assert seen[0] < seen[1]


def one_segment(reader: Newcomer) -> None:
    reader.tab("Allocator")
    heading = reader.page.locator("[aria-label='Blocks of one segment'] h3")
    first = heading.inner_text()
    reader.click(reader.page.locator(".pool .strip").last, left=True)
    expect(heading).not_to_have_text(first)


def blocks_at(reader: Newcomer) -> None:
    reader.click_picture(A)
    reader.tab("Allocator")
    shows(reader, "[aria-label='Map of segments'] canvas")


def segment_events(reader: Newcomer) -> None:
    reader.tab("Events")
    reader.click(reader.page.locator(".panel:visible [data-action=segment_alloc]"))
    assert {row.cells["Action"] for row in reader.rows()} == {"segment_alloc"}


WAYS: dict[str, tuple[Way, ...]] = {
    "Active Allocs": (moment,),
    "Before": (freed_before,),
    "After": (made_after,),
    "Decline": (went,),
    "Growth": (between("stayed", "Stayed"),),
    "Growth vs. Decline": (between("change"),),
    "Free Events": (between("freed", "Freed"),),
    "Alloc Events": (between("made", "Made"),),
    "Short Living Allocs": (between("passing", "Came and went"),),
    "Long Living Allocs": (between("throughout", "Lived through"),),
    "Memory Leaks": (stays_until_c,),
    "Limited Lifetime": (sorted_by_end("stayed", "Stayed"),),
    "Decline of Long Living Allocs": (sorted_by_end("throughout", "Lived through"),),
    "Specific Lifetime": (sorted_by_end("stayed", "Stayed", alive=True),),
    "grouped by call stack, or inverted": (at_once(".panel [role=treegrid]"), clicked("Bottom-up")),
    "grouped by size, tag, asset, class": (coloured("Size"), coloured("Stage")),
    "grouped by source file or function": (opens("Lines", ".panel [role=grid]", ".py:"),),
    "grouped by free call stack": (freed_by, where_freed),
    "grouped by heap": (coloured("Memory pool"),),
    "sorted by size, time, duration, address": (sorted_allocations,),
    "filtered by several attributes, with AND and OR": (kept(), kept("Size")),
    "drawn over time for each tag": (at_once(".legend", "activation"),),
    "how much memory, by type, over time": (at_once(".legend", "activation"),),
    "what there is at one moment": (moment,),
    "which card, which bandwidth": (opens("Recording", ".panel", "allocator"),),
    "requested, used and total bytes": (at_once(".moment .totals", "Reserved"),),
    "how large the allocations are": (coloured("Size"),),
    "which types there are": (at_once(".legend", "activation"),),
    "committed, requested and bound memory": (at_once(".moment .totals", "Requested"),),
    "a map of resources, sliced three times": (clicked("Flame"), kept()),
    "all of them, searched, sorted, by size": (searched(">=1MiB", "Allocations"),),
    "what is in each segment, and what is free": (opens("Allocator", ".panel .strip canvas"),),
    "one segment, and the blocks in it": (one_segment,),
    "size, when it was made, in which segment": (facts_of_strip,),
    "each event in its life": (life_of_strip,),
    "is it named?": (strip,),
    "how many more or fewer, and their bytes": (between("change"),),
    "only in the first, in both, only in the second": (
        between("change"), between("throughout", "Lived through"),
    ),
    "by type, search, size": (kept(), searched("linear")),
    "which allocations are live when, and their stacks": (at_once(".plot"), strip),
    "search by address or frame": (searched("linear"),),
    "the same, with what private pools reserve": (at_once(".plot"),),
    "which segments and blocks there are at an event": (blocks_at,),
    "what happened before and after, each event with its stack": (
        opens("Events", ".panel .stack", "Call stack"),
    ),
    "where a block was freed": (where_freed,),
    "what was there when memory ran out": (at_once(".brief", "failed"),),
    "which segments the driver gave, when, and for whom": (at_once(".plot"), segment_events),
    "the settings": (opens("Recording", ".panel", "PYTORCH_CUDA_ALLOC_CONF"),),
    "sums, events, segments, flame graphs": (
        at_once(".moment .totals"), opens("Events", ".panel [role=grid]"),
        opens("Allocator", ".panel .strip canvas"), clicked("Flame"),
    ),
}  # fmt: skip
"""How each question is asked, by what the document calls it: the ways that it names."""


def stated() -> dict[str, set[int]]:
    """The numbers of steps that the document states, by the question; but for what is not asked."""
    found = {}
    for row in re.findall(r"^\|(.*)\|$", SECTION, re.MULTILINE):
        *names, here, steps, _ = (cell.strip() for cell in row.split("|"))
        if names and steps[:1].isdigit() and not here.startswith("not "):
            name = names[0] if names[0] in RULES else names[-1]
            found[name] = {int(number) for number in re.findall(r"\d+", steps)}
    return found


STATED = stated()
COMPARED = "what two snapshots have more or less of"


def test_every_question_with_an_answer_is_asked() -> None:
    assert STATED.keys() == {*WAYS, COMPARED}


@pytest.mark.parametrize("question", WAYS)
def test_a_question_takes_the_steps_that_the_document_states(
    kept_page: KeptPage, question: str
) -> None:
    taken = set()
    for way in WAYS[question]:
        page = kept_page(SAMPLE_OF.get(question, TRAINING)).page
        page.set_viewport_size(VIEWPORT)
        reader = Newcomer(page)
        way(reader)
        taken.add(reader.actions)
    assert taken == STATED[question]


def test_two_snapshots_are_compared_at_once(kept_page: KeptPage, tmp_path: Path) -> None:
    compared = snapreport.diff(TRAINING, SAMPLES / "two_streams.pickle")
    path = tmp_path / "diff.html"
    reader = Newcomer(kept_page(snapreport.render_diff(compared, path)).page)
    shows(reader, "main", "BASE")
    assert STATED[COMPARED] == {reader.actions}
