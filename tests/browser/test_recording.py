"""The Recording panel: can this be trusted, with and without JavaScript, in a browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import snapreport
from snapreport.model.findings import Findings
from tests.browser.conftest import KeptPage, Opener
from tests.browser.listing import address
from tests.corpus import findings_of

pytestmark = pytest.mark.browser(webgl=False)

_SAMPLES = Path(__file__).resolve().parents[2] / "sample_snapshots"


_RING = _SAMPLES / "truncated_ring.pickle"


def ring() -> Findings:
    return findings_of(_RING)


def recording(page: Page) -> Page:
    page.get_by_role("tab", name="Recording").click()
    return page


def test_the_panel_says_what_the_command_says(kept_page: KeptPage) -> None:
    found = ring()
    trust = found.devices[0].trust
    page = recording(kept_page(_RING).page)
    panel = page.locator(".recording-panel")
    expect(panel.locator(".verdict")).to_contain_text("may be earlier than shown")
    rows = panel.locator(".checks > li")
    expect(rows).to_have_count(len(trust.checks))
    for i, check in enumerate(trust.checks):
        expect(rows.nth(i)).to_contain_text(check.title)
        expect(rows.nth(i).get_by_role("img", name=check.mark, exact=True)).to_be_visible()


def test_marks_differ_by_sign_and_not_by_colour_alone(kept_page: KeptPage) -> None:
    page = recording(kept_page(_RING).page)
    signs = {
        mark: set(page.locator(f".recording-panel [data-mark='{mark}'] .mark").all_text_contents())
        for mark in ("ok", "not-ok", "unknown")
    }
    assert signs == {"ok": {"✓"}, "not-ok": {"✗"}, "unknown": {"?"}}


def test_the_bar_is_as_wide_as_its_parts(kept_page: KeptPage) -> None:
    found = ring()
    page = recording(kept_page(_RING).page)
    bars = page.locator(".recording-panel .reconciled figure")
    expect(bars).to_have_count(2)
    for bar, parts in zip(
        bars.all(), (found.devices[0].trust.facts.at_peak, found.devices[0].trust.facts.at_end),
        strict=True,
    ):  # fmt: skip
        assert parts is not None
        expect(bar).to_contain_text("its parts add up, to the byte")
        widths = [
            float((each.get_attribute("width") or "")[:-1]) for each in bar.locator("rect").all()
        ]
        assert abs(sum(widths) - 100) < 0.01
        assert abs(widths[0] - 100 * parts.requested / parts.reserved) < 0.01
        exact = bar.locator("dd").first.get_attribute("title")
        assert exact == f"{parts.requested:,} bytes"


def test_the_lines_that_mend_it_can_be_copied(open_page: Opener) -> None:
    found = ring()
    opened = open_page(found, permissions=["clipboard-read", "clipboard-write"])
    page = recording(opened.page)
    expect(page.locator(".recording-panel pre")).to_have_text(
        re.compile(r"^torch\.cuda\.memory\._record_memory_history")
    )
    button = page.locator(".recording-panel").get_by_role("button", name="Copy")
    button.click()
    expect(page.locator(".recording-panel .copy")).to_have_text("Copied")


def test_without_javascript_the_checks_stand_in_the_page(open_page: Opener) -> None:
    found = ring()
    page = open_page(found, java_script_enabled=False).page
    expect(page.locator("section.trust .verdict")).to_be_visible()
    expect(page.locator("section.trust .checks > li")).to_have_count(
        len(found.devices[0].trust.checks)
    )
    expect(page.locator("section.trust pre")).to_contain_text("_record_memory_history")


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_sticks_out_of_the_page(kept_page: KeptPage, width: int) -> None:
    page = kept_page(_RING).page
    page.set_viewport_size({"width": width, "height": 800})
    recording(page)
    expect(page.locator(".recording-panel .checks")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_link_to_the_panel_opens_it_where_there_is_no_timeline(open_page: Opener) -> None:
    found = snapreport.load(_SAMPLES / "state_only.pickle").findings()
    page = open_page(found).page
    page.goto(address(page) + "#tab=recording")
    page.reload()
    page.wait_for_selector("html[data-complete]")
    expect(page.locator(".recording-panel .verdict")).to_contain_text("no history was recorded")
