"""A page that does not draw every allocation: what it says, and that its panels still add up."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import expect

import snapreport
from snapreport.figures.thinning import Cutter, Thinning
from snapreport.ground.units import format_bytes
from snapreport.model.asked import (
    NO_CUT,
)
from snapreport.model.history import (
    Picture,
)
from tests.browser.conftest import KeptPage, Opener
from tests.browser.listing import go_to
from tests.browser.timeline_tools import settle

pytestmark = pytest.mark.browser(webgl=False)

_SAMPLE = Path(__file__).resolve().parents[2] / "sample_snapshots" / "training_step.pickle"
_NOT_DRAWN = "not drawn one by one"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Allocations of less than 16 MiB are left out."""
    page = tmp_path_factory.mktemp("cut") / "small.html"
    return snapreport.render(_SAMPLE, page, min_size="16MiB")


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Events 100 to 199 alone."""
    page = tmp_path_factory.mktemp("cut") / "window.html"
    return snapreport.render(_SAMPLE, page, from_=100, to=199)


def test_the_line_is_near_the_headline_and_the_rest_in_the_panel(
    kept_page: KeptPage, small: Path
) -> None:
    page = kept_page(small).page
    cut = page.evaluate("window.snapreport.summary.devices[0].cut")
    head = page.locator(".brief-cut")
    expect(head).to_contain_text(f"{cut['not_drawn']} of 464 allocations")
    head.click()
    line = page.locator(".peak .cut-line")
    expect(line).to_be_visible()
    expect(line).to_contain_text(f"{cut['not_drawn']} of 464 allocations")
    expect(line).to_contain_text("without --min-size")
    page.get_by_role("tab", name="Recording").click()
    facts = page.locator(".recording-panel .cut")
    expect(facts).to_contain_text("16.00 MiB requested, or more")
    expect(facts).to_contain_text("equal to the curve at every event, to the byte")
    expect(facts).to_contain_text(f"{cut['not_drawn_bytes']:,} bytes")


def test_every_panel_adds_up_to_the_figures_of_the_whole(kept_page: KeptPage, small: Path) -> None:
    whole = snapreport.load(_SAMPLE).device()
    page = kept_page(small).page
    page.set_viewport_size({"width": 1280, "height": 1700})  # for all rows of the lists
    for moment in (whole.at(), whole.at(event=300)):
        go_to(page, moment.event)
        expect(page.locator("[data-total=allocated] dd")).to_have_attribute(
            "title", f"{moment.amounts.allocated:,} bytes"
        )
        expect(page.locator(".moment")).to_contain_text(f"{moment.amounts.live} allocations")
        page.get_by_role("tab", name="Lines").click()
        total = page.locator(".lines .totals-line span").first
        expect(total).to_have_attribute("title", f"{moment.amounts.allocated:,} bytes")
        expect(page.locator(".lines")).to_contain_text(_NOT_DRAWN)
        page.get_by_role("tab", name="Call stacks").click()
        expect(page.locator(".stacks, .stacks-body").first).to_contain_text(_NOT_DRAWN)


def test_the_list_of_allocations_says_what_it_leaves_out(kept_page: KeptPage, small: Path) -> None:
    page = kept_page(small).page
    page.get_by_role("tab", name="Allocations").click()
    expect(page.locator(".live .totals-line .not-drawn")).to_contain_text(_NOT_DRAWN)


def test_the_allocator_says_nothing_of_blocks_that_it_does_not_know(
    kept_page: KeptPage, small: Path
) -> None:
    page = kept_page(small).page
    page.get_by_role("tab", name="Allocator").click()
    expect(page.locator(".allocator .note")).to_contain_text(
        "cannot tell which parts of the segments are free"
    )
    expect(page.locator(".allocator-body")).to_be_hidden()


def test_the_band_is_pointed_at_but_never_pinned(kept_page: KeptPage, small: Path) -> None:
    opened = kept_page(small)
    page = opened.page
    settle(page)
    whole = snapreport.load(_SAMPLE).device()
    top = int(whole.at().amounts.allocated)
    x, y = opened.strip_point(whole.at().event, top * 0.999)
    page.mouse.move(x, y)
    expect(page.locator(".tooltip")).to_contain_text(f"allocations {_NOT_DRAWN}")
    page.mouse.click(x, y)
    expect(page.locator(".details")).to_have_count(0)


def test_a_window_opens_where_it_is_and_lists_its_own_events(
    open_page: Opener, window: Path
) -> None:
    opened = open_page(window)
    page = opened.page
    seen = page.evaluate("window.snapreport.window()")
    assert (seen["x0"], seen["x1"]) == (100, 200)
    assert page.evaluate("window.snapreport.link()") == ""
    expect(page.locator(".figures .headline dd")).to_have_text(
        format_bytes(snapreport.load(_SAMPLE).device().at().amounts.allocated)
    )
    page.get_by_role("tab", name="Events").click()
    rows = page.locator(".events-list [data-event]")
    expect(rows.first).to_be_visible()
    events = [int(row.get_attribute("data-event") or -1) for row in rows.all()]
    assert events
    assert all(100 <= event <= 199 for event in events)
    expect(page.locator(".event-filter .range")).to_have_text(re.compile(r"^100 of [\d,]+ events$"))
    # Outside there are the curve and the band, and the cursor goes there as well.
    page.keyboard.press("Escape")
    go_to(page, 793)
    expect(page.locator("[data-total=allocated] dd")).to_have_attribute(
        "title", "4,774,184,960 bytes"
    )
    assert "event=793" in page.evaluate("window.snapreport.link()")


def test_a_pinned_allocation_is_linked_by_its_row_in_the_recording(
    open_page: Opener, small: Path
) -> None:
    opened = open_page(small)
    page = opened.page
    page.get_by_role("tab", name="Allocations").click()
    page.locator(".live-list [data-allocation]").nth(2).click()
    link = page.evaluate("window.snapreport.link()")
    row = int(re.search(r"allocation=(\d+)", link)[1])  # type: ignore[index]
    rows = snapreport.load(_SAMPLE).devices[0].allocations
    details = page.locator(".details").first
    expect(details).to_contain_text(f"{int(rows.addr[row]):#x} v{int(rows.version[row])}")


def test_totals_between_the_exact_events_say_how_far_off_they_may_be(
    open_page: Opener, tmp_path: Path
) -> None:
    findings = snapreport.load(_SAMPLE).findings()
    cutter = Cutter(findings.devices, None)
    parts = cutter.drawn(Thinning(True, cutter.spare, 16))
    assert parts[0].error > 0
    page = open_page(replace(findings, picture=Picture(NO_CUT, 1, parts))).page
    said = f"totals within {format_bytes(parts[0].error)}"
    expect(page.locator(".moment-where")).not_to_contain_text(said)  # it opens at the peak
    go_to(page, 300)
    expect(page.locator(".moment-where")).to_contain_text(said)
    expect(page.locator(".cut-line")).to_contain_text(
        f"up to {format_bytes(parts[0].error)} too low"
    )
