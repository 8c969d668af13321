"""What fails on the page says so, where it failed, and the rest goes on."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

import snapreport
from tests.browser.builders import findings, trained, training
from tests.browser.conftest import KeptPage, Opener, OpenPage
from tests.browser.listing import go_to
from tests.browser.test_page import settle, strip_colours
from tests.builders import BASE, MIB, trace

pytestmark = pytest.mark.browser

# Drawing on a canvas fails while `broken` is set.
_BREAKABLE = """
for (const method of ["putImageData", "lineTo"]) {
  const real = CanvasRenderingContext2D.prototype[method]
  CanvasRenderingContext2D.prototype[method] = function (...all) {
    if (window.broken === method) throw new Error("no <b>ink</b>")
    return real.apply(this, all)
  }
}
"""

_BAD_WORKER = """
const Real = Worker
window.Worker = class {
  constructor() {
    const script = "onmessage = () => { throw new Error('the painter fell') }"
    return new Real(URL.createObjectURL(new Blob([script])))
  }
}
"""

# The page's code, its first picture's data and the rest of its data are unpacked in this order.
_DAMAGED_REST = """
const Real = DecompressionStream
let made = 0
window.DecompressionStream = class {
  constructor(format) {
    if (++made === 3) throw new Error("damaged rest")
    return new Real(format)
  }
}
"""


def forgive(opened: OpenPage, text: str) -> None:
    """Take what was logged on purpose out of the errors; there has to be some."""
    assert [error for error in opened.errors if text in error]
    opened.errors[:] = [error for error in opened.errors if text not in error]


def test_a_panel_says_what_failed_and_the_others_go_on(open_page: Opener) -> None:
    builder = trace().alloc("b", MIB)
    for _ in range(20):
        builder.alloc("a", MIB).free("a")
    builder.alloc(BASE, 8 * MIB).segment(BASE, 16 * MIB, (8 * MIB, 8 * MIB, "live"))
    opened = open_page(snapreport.Snapshot(builder.file()).findings(), before=_BREAKABLE)
    page = opened.page
    panel = page.get_by_role("tabpanel")
    page.evaluate("window.broken = 'putImageData'")
    page.get_by_role("tab", name="Allocator").click()
    expect(panel.get_by_role("alert")).to_contain_text(
        "“Allocator” could not be drawn: no <b>ink</b>. The rest of the page still works."
    )
    go_to(page, 40)
    expect(page.locator(".moment-title")).to_contain_text("event 40")
    expect(panel.get_by_role("alert")).to_be_visible()
    page.get_by_role("tab", name="Allocations").click()
    expect(panel.locator("[data-allocation]").first).to_be_visible()
    page.get_by_role("tab", name="Allocator").click()
    page.evaluate("window.broken = null")
    panel.get_by_role("button", name="Try again").click()
    expect(panel.locator(".segment-map")).to_be_visible()
    assert page.locator(".failure").count() == 0
    forgive(opened, "no <b>ink</b>")


def test_a_page_whose_later_data_are_damaged_keeps_its_picture_and_its_tables(
    open_page: Opener,
) -> None:
    opened = open_page(findings(training()), before=_DAMAGED_REST, ready=False)
    page = opened.page
    expect(page.get_by_role("alert")).to_contain_text("Something on this page failed: damaged rest")
    expect(page.locator(".picture")).to_be_visible()
    expect(page.locator("section.sites")).to_be_visible()
    forgive(opened, "damaged rest")


def test_a_timeline_that_cannot_be_drawn_says_so_until_it_can(open_page: Opener) -> None:
    opened = open_page(findings(training()), before=_BREAKABLE)
    page = opened.page
    page.evaluate("window.broken = 'lineTo'")
    go_to(page, 30)
    failure = page.locator("section.timeline").get_by_role("alert")
    expect(failure).to_contain_text("The timeline could not be drawn: no <b>ink</b>")
    expect(page.locator(".moment-title")).to_contain_text("event 30")
    expect(page.locator(".legend h3").first).to_contain_text("event 30")
    page.evaluate("window.broken = null")
    go_to(page, 31)
    expect(failure).to_have_count(0)
    forgive(opened, "no <b>ink</b>")


def test_an_error_that_nobody_caught_is_shown_and_can_be_closed(kept_page: KeptPage) -> None:
    opened = kept_page(trained)
    page = opened.page
    page.evaluate("setTimeout(() => { throw new Error('once <img src=x>') })")
    notice = page.locator(".failure-notice")
    expect(notice).to_contain_text("Something on this page failed: once <img src=x>.")
    page.evaluate("void Promise.reject(new Error('twice'))")
    expect(notice).to_contain_text("failed (2 times): twice.")
    notice.get_by_role("button").click()
    expect(notice).to_have_count(0)
    forgive(opened, "once")
    forgive(opened, "twice")


def test_a_worker_that_fails_is_told_of_and_the_page_paints_itself(open_page: Opener) -> None:
    opened = open_page(findings(training()), before=_BAD_WORKER)
    page = opened.page
    expect(page.locator(".failure-notice")).to_contain_text("the painter fell")
    settle(page)
    assert len(strip_colours(page)) >= 8
    forgive(opened, "the painter fell")
