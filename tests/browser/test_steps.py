"""The steps of the program in a browser: their curves over one another, and a row for each."""

from __future__ import annotations

from functools import cache

import pytest
from playwright.sync_api import Page, expect

from snapreport.diagnosis.conclude import find
from snapreport.ground.units import format_bytes
from snapreport.model.findings import Findings
from snapreport.model.roles import Steps
from tests.browser.conftest import KeptPage, Opener
from tests.browser.test_page import until
from tests.browser.test_sharing import violations_in_both_schemes
from tests.programs import Plan, Program

pytestmark = pytest.mark.browser(webgl=False)


@cache
def training(iterations: int = 6) -> Findings:
    return find(Program(Plan(iterations=iterations)).run().history())


def show(page: Page) -> Page:
    page.get_by_role("tab", name="Steps").click()
    return page


def steps_in(found: Findings) -> Steps:
    steps = found.devices[0].steps
    assert steps is not None
    return steps


def test_each_step_has_a_row_with_its_figures(kept_page: KeptPage) -> None:
    found = training()
    page = show(kept_page(training).page)
    rows = page.locator(".steps-list [data-row]")
    expect(rows).to_have_count(len(steps_in(found)))
    for k, step in enumerate(steps_in(found).steps):
        text = rows.nth(k).inner_text()
        for size in (step.start_bytes, step.peak_bytes, step.end_bytes, step.kept_bytes):
            assert format_bytes(size) in text
        assert ("warm-up" in text) == (step.kind == "warm-up")
        assert ("alike" in text) == (step.kind == "steady")


def test_the_chart_begins_at_the_peak_and_keys_move_in_it(open_page: Opener) -> None:
    found = training()
    steps = steps_in(found)
    assert steps.peak is not None
    page = open_page(found, "#tab=steps").page
    says = page.locator(".steps-says")
    step = steps.steps[steps.peak - 1]
    expect(says).to_contain_text(f"Step {step.number}")
    expect(says).to_contain_text(f"{format_bytes(step.peak_bytes)} at event {step.peak_event:,}")
    plot = page.locator(".steps-plot")
    plot.focus()
    plot.press("Home")
    expect(says).to_contain_text(format_bytes(step.start_bytes))
    plot.press("ArrowDown")
    expect(says).to_contain_text(f"Step {step.number + 1} ")
    expect(plot).to_have_attribute("aria-valuetext", says.inner_text())


def test_pointing_tells_the_nearest_step_and_a_click_goes_there(kept_page: KeptPage) -> None:
    found = training()
    page = show(kept_page(training).page)
    plot = page.locator(".steps-plot")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    # In the middle the first step has no optimizer's state yet: its curve is the lowest.
    page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + box["height"] - 8)
    expect(page.locator(".steps-says")).to_contain_text("Step 1 ")
    page.mouse.click(box["x"] + box["width"] * 0.25, box["y"] + box["height"] - 8)
    first = steps_in(found).steps[0]
    until(page, "location.hash.includes('event=')")
    event = page.evaluate("new URLSearchParams(location.hash.slice(1)).get('event')")
    assert first.start_event <= int(event) < first.end_event


def test_choosing_a_row_shows_the_step_in_the_timeline_at_its_peak(kept_page: KeptPage) -> None:
    found = training()
    page = show(kept_page(training).page)
    page.locator(".steps-list [data-row]").nth(3).click()
    step = steps_in(found).steps[3]
    expect(page.locator(".steps-says")).to_contain_text("Step 4 ")
    window = page.evaluate("window.snapreport.window()")
    assert window["x0"] <= step.start_event
    assert step.end_event <= window["x1"]
    assert window["x1"] - window["x0"] < 1.5 * (step.end_event - step.start_event)


def test_many_steps_are_one_band_and_stay_a_list(open_page: Opener) -> None:
    found = training(80)
    opened = open_page(found, "#tab=steps")
    expect(opened.page.locator(".steps-keys")).to_contain_text("alike")
    assert opened.page.locator(".steps-list [data-row]").count() < len(steps_in(found))


@pytest.mark.parametrize("width", [380, 1280])
def test_everyone_can_read_the_steps(kept_page: KeptPage, width: int) -> None:
    page = show(kept_page(training).page)
    page.set_viewport_size({"width": width, "height": 900})
    assert violations_in_both_schemes(page, ".steps") == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_recording_without_steps_has_no_such_tab(open_page: Opener) -> None:
    page = open_page(find(Program(Plan(iterations=1)).run().history())).page
    expect(page.locator("[data-tab=lines]")).to_be_visible()
    assert page.locator("[data-tab=steps]").count() == 0
