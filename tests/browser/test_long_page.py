"""A long recording: what the page finds without looking at every event is exact all the same."""

from __future__ import annotations

import random

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from snapreport.diagnosis.conclude import find
from snapreport.ground.units import format_count
from snapreport.model.findings import DeviceFindings, Findings
from tests.browser.conftest import Opener
from tests.browser.listing import go_to
from tests.browser.timeline_tools import pixels
from tests.builders import BASE, MIB, frame, trace

pytestmark = pytest.mark.browser(webgl=False)

ROUNDS = 8000


@pytest.fixture(scope="module")
def long() -> Findings:
    """Weights that stay, activations that go soon, and now and then one that lives on."""
    rng = random.Random(4)
    builder = trace().event("segment_alloc", addr=BASE, size=4096 * MIB)
    sites = [[frame(f"layer{k}", "model.py", k + 1)] for k in range(12)]
    for k in range(40):
        builder.alloc(BASE + k * MIB, MIB, frames=sites[0])
    held: list[int] = []
    for k in range(ROUNDS):
        place = BASE + (64 + k % 1900) * MIB
        if place in held:
            held.remove(place)
            builder.free(place)
        builder.alloc(place, 512 * rng.randint(1, 2048), frames=sites[k % 12])
        if rng.random() < 0.01:
            held.append(place)
        else:
            builder.free(place)
    return find(builder.segment(BASE, 4096 * MIB).file())


def complete(open_page: Opener, found: Findings) -> Page:
    page = open_page(found).page
    page.wait_for_selector("html[data-complete]")
    return page


def live(device: DeviceFindings, event: int) -> tuple[int, int]:
    rows = device.history.allocations.live_at(event)
    return int(rows.sum()), int(device.history.allocations.block_size[rows].sum())


def test_moments_anywhere_in_a_long_recording_are_exact(open_page: Opener, long: Findings) -> None:
    page = complete(open_page, long)
    device = long.devices[0]
    events = device.history.events
    assert events > 3 * ROUNDS
    page.get_by_role("tab", name="Allocations").locator("visible=true").click()
    page.get_by_label("Group equal rows").uncheck()
    for event in (events - 1, 0, 41, events // 2, events // 2 + 1, events // 3, -1):
        go_to(page, event)
        count, held = live(device, event)
        words = f"{format_count(count)} allocation{'' if count == 1 else 's'}"
        expect(page.locator(".moment-where")).to_contain_text(words)
        title = f"{format_count(held)} bytes"
        expect(page.locator("[data-total=allocated] dd")).to_have_attribute("title", title)
        expect(page.locator(".totals-line").locator("visible=true")).to_contain_text(words)
        rows = page.locator(".live-list").get_attribute("aria-rowcount")
        assert rows == str(count + 1)


def test_a_search_finds_every_event_of_a_long_recording(open_page: Opener, long: Findings) -> None:
    page = complete(open_page, long)
    device = long.devices[0]
    page.get_by_role("tab", name="Events").locator("visible=true").click()
    said = page.locator(".event-filter .range")
    expect(said).to_have_text(f"{format_count(device.history.events)} events")
    rows = device.history.allocations
    large = rows.size >= 512 * 1024
    freed = rows.free_event < device.history.events
    # Each allocation's own event, two for its free, and the segment.
    count = int(large.sum()) + 2 * int((large & freed).sum()) + 1
    page.locator(".event-search").fill(">=512KiB")
    expect(said).to_contain_text(f"{format_count(count)} of ")
    page.locator(".event-search").fill("alloc layer7")
    count = int(np.isin(rows.stack, rows.stack[rows.stack == rows.stack[40 + 7]]).sum())
    expect(said).to_contain_text(f"{format_count(count)} of ")


def test_fragmentation_worked_out_in_parts_is_that_of_the_analysis(
    open_page: Opener, long: Findings
) -> None:
    page = complete(open_page, long)
    device = long.devices[0]
    page.get_by_role("tab", name="Allocator").locator("visible=true").click()
    most = page.locator(".fragmentation [data-most]")
    expect(most).to_have_attribute("data-most", str(device.allocator.most))
    go_to(page, device.allocator.most)
    expect(page.locator("[data-part=fragmentation] dd")).to_have_attribute(
        "title", f"{format_count(4096 * MIB - live(device, device.allocator.most)[1])} bytes"
    )


@pytest.mark.browser(webgl=True)  # and with a worker, which is told what changed alone
def test_the_same_strips_are_drawn_after_a_filter_and_another_axis(
    open_page: Opener, long: Findings
) -> None:
    page = complete(open_page, long)
    before = pixels(page)
    page.locator(".legend li").first.hover()
    page.locator(".legend .filters button").first.click()
    page.mouse.move(2, 2)
    without = pixels(page)
    assert (without != before).any()
    page.get_by_text("Time", exact=True).first.click()  # the strips stay, the filter too
    by_time = pixels(page)
    page.get_by_text("Events", exact=True).first.click()
    np.testing.assert_array_equal(pixels(page), without)
    page.get_by_role("button", name="Show all").click()
    page.mouse.move(2, 2)  # a group under the pointer is brought out
    np.testing.assert_array_equal(pixels(page), before)
    assert (by_time != before).any()
