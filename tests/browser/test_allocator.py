"""The panel of the allocator: segments, blocks and fragmentation on the page are the analysis'."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import snapreport
from snapreport.ground.units import format_bytes, format_count
from snapreport.history.segments import segments_at
from snapreport.model.findings import DeviceFindings, Findings
from snapreport.model.snapshot import BLOCK_STATES, pool_name
from snapreport.reporters.settings import cells
from tests.browser.conftest import FilePage, KeptPage, Opener
from tests.browser.listing import go_to, in_bytes
from tests.browser.test_page import until
from tests.builders import BASE, MIB, TraceBuilder, trace
from tests.corpus import findings_of

pytestmark = pytest.mark.browser(webgl=False)

_SAMPLES = Path(__file__).parents[2] / "sample_snapshots"
_STATES = dict(zip(BLOCK_STATES, ("allocated", "awaiting free", "free"), strict=True))


_DRAWN = """(() => {
  const hex = getComputedStyle(document.documentElement).getPropertyValue("--replay-curve").trim()
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16))
  let count = 0
  for (const canvas of document.querySelectorAll(".timeline canvas")) {
    const data = canvas.getContext("2d")?.getImageData(0, 0, canvas.width, canvas.height).data ?? []
    for (let i = 0; i < data.length; i += 4)
      count += data[i] === r && data[i + 1] === g && data[i + 2] === b
  }
  return count
})()"""
"""Pixels of the timeline in the colour of a replayed curve."""


def sample(name: str) -> Findings:
    return findings_of(_SAMPLES / name)


def open_panel(open_page: Opener, found: Findings) -> Page:
    return show(open_page(found).page)


def kept_panel(kept_page: KeptPage, name: str) -> Page:
    """The panel on the page of a sample that is kept open."""
    return show(kept_page(_SAMPLES / name).page)


def show(page: Page) -> Page:
    page.get_by_role("tab", name="Allocator").locator("visible=true").click()
    return page


# The title of each part of reserved memory, and how many notes are to be seen.
_PARTS = """() => {
  const seen = (selector) =>
    [...document.querySelectorAll(selector)].filter((each) => each.checkVisibility())
  const titles = seen("[data-part]").map((each) => [
    each.dataset.part,
    each.querySelector("dd").title,
  ])
  return [titles, seen(".allocator .note").length]
}"""


def some_events(device: DeviceFindings) -> list[int]:
    last = device.history.events - 1
    return sorted({-1, device.peak.event, device.allocator.most, last // 3, last})


def built(builder: TraceBuilder) -> Findings:
    return snapreport.Snapshot(builder.file()).findings()


def test_the_parts_of_reserved_memory_are_the_curves_at_every_event(file_page: FilePage) -> None:
    found, page = file_page.found, file_page.page
    device = found.devices[found.default]
    if "reserved" not in device.curves or not (
        device.history.events or len(device.history.segments)
    ):
        return
    page.get_by_role("tab", name="Allocator").locator("visible=true").click()
    for event in some_events(device):
        if device.recorded:
            go_to(page, event)
        elif event != device.history.events - 1:
            continue
        requested, active, reserved = (
            int(device.curves[curve][event + 1]) for curve in ("requested", "active", "reserved")
        )
        fragmentation = int(device.allocator.fragmentation[event + 1])
        wanted = {
            "reserved": reserved,
            "slack": active - requested,
            "fragmentation": fragmentation,
            "returnable": reserved - active - fragmentation,
        }
        titles, notes = page.evaluate(_PARTS)
        shown = {part: in_bytes(title) for part, title in titles}
        assert {part: shown[part] for part in wanted} == wanted
        assert notes == (reserved == 0)
        assert sum(shown.values()) - shown["reserved"] == reserved


@pytest.mark.parametrize("name", ["private_pool.json", "two_streams.pickle"])
def test_pools_and_streams_add_up_as_the_analysis_does(kept_page: KeptPage, name: str) -> None:
    found = sample(name)
    device = found.devices[0]
    page = kept_panel(kept_page, name)
    for event in some_events(device):
        go_to(page, event)
        shown = page.locator(".pools tbody tr").evaluate_all(
            "rows => rows.map((row) => [...row.cells].map((cell) => cell.innerText))"
        )
        assert sorted(shown) == sorted(pools(found, device, event))


def pools(found: Findings, device: DeviceFindings, event: int) -> list[list[str]]:
    """The table of pools and streams, worked out segment by segment."""
    lives, rows = device.allocator.segments, device.history.allocations
    sums: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0] * 8)
    for row in segments_at(lives, event):
        low, high = lives.address[row], lives.address[row] + lives.size[row]
        inside = (rows.addr >= low) & (rows.addr < high) & rows.live_at(event, "active")
        pending = inside & ~rows.live_at(event)
        used = int(rows.block_size[inside].sum())
        pool = found.history.pools[lives.pool[row]] if lives.pool[row] >= 0 else None
        key = (
            "pool not recorded" if pool is None
            else "default pool" if pool == (0, 0) else f"private pool {pool_name(pool)}",
            f"stream {hex(lives.stream[row])}" if lives.stream[row] else "default stream",
            ("kind not known", "small", "large")[lives.kind[row] + 1],
        )  # fmt: skip
        idle = int(lives.size[row]) - used
        amounts = (
            1,
            int(lives.size[row]),
            used - int(rows.block_size[pending].sum()),
            int(rows.block_size[pending].sum()),
            used - int(rows.size[inside].sum()),
            idle,
            idle if used else 0,
            0,
        )
        sums[key] = [a + b for a, b in zip(sums[key], amounts, strict=True)]
        order = np.argsort(rows.addr[inside])
        starts = np.append(rows.addr[inside][order], high)
        ends = np.append(low, (rows.addr + rows.block_size)[inside][order])
        sums[key][-1] = max(sums[key][-1], int((starts - ends).max()))
    return [
        [*key, format_count(count), *map(format_bytes, amounts)]
        for key, (count, *amounts) in sums.items()
    ]


def test_the_blocks_of_every_segment_are_those_of_the_snapshot(kept_page: KeptPage) -> None:
    found = sample("private_pool.json")
    device = found.devices[0]
    segments = device.history.segments
    page = kept_panel(kept_page, "private_pool.json")
    go_to(page, device.history.events - 1)
    seen = {}
    for _ in range(len(segments)):
        heading = page.locator(".segment-blocks h3").inner_text()
        address = int(re.search(r"0x[0-9a-f]+", heading)[0], 16)  # type: ignore[index]
        rows = page.locator(".blocks-list [data-row]").all()
        seen[address] = [
            (int(cells[1], 16), cells[2], cells[3])
            for cells in (row.locator("> *").all_inner_texts() for row in rows)
        ]
        page.get_by_role("button", name="The next segment").click()
    wanted: dict[int, list[tuple[int, str, str]]] = defaultdict(list)
    for block in range(len(segments.block_address)):
        row = int(segments.block_segment[block])
        wanted[int(segments.address[row])].append(
            (
                int(segments.block_address[block]),
                _STATES[BLOCK_STATES[segments.block_state[block]]],
                format_bytes(int(segments.block_size[block])),
            )
        )
    assert seen == wanted


def test_private_pools_stand_in_envelopes(kept_page: KeptPage) -> None:
    found = sample("private_pool.json")
    page = kept_panel(kept_page, "private_pool.json")
    go_to(page, found.devices[0].history.events - 1)
    names = page.locator(".pool.envelope h4").all_inner_texts()
    pools = {found.history.pools[row] for row in found.devices[0].history.segments.pool.tolist()}
    assert names == [f"Private pool {pool_name(pool)}" for pool in sorted(pools - {(0, 0)})]
    assert names[-1] == "Private pool 1,0 (CUDA graph)"
    expect(page.locator(".pool:not(.envelope) h4")).to_have_text("Default pool")


def test_fragmentation_over_time_leads_to_its_most_and_moves_the_cursor(
    kept_page: KeptPage,
) -> None:
    found = sample("expandable_segments.pickle.zst")
    device = found.devices[0]
    values = device.allocator.fragmentation
    page = kept_panel(kept_page, "expandable_segments.pickle.zst")
    most = page.locator("[data-most]")
    expect(most).to_have_text(
        f"{format_bytes(int(values.max()))} at event {format_count(device.allocator.most)}"
    )
    most.click()
    expect(page.locator(".allocator")).to_have_attribute("data-event", str(device.allocator.most))
    slider = page.get_by_role("slider", name="Fragmentation")
    for key, event in (("ArrowLeft", device.allocator.most - 1), ("Home", -1), ("ArrowRight", 0)):
        slider.press(key)
        expect(slider).to_have_attribute("aria-valuenow", str(event))
        text = "start" if event < 0 else f"event {format_count(event)}"
        value = format_bytes(int(values[event + 1]))
        expect(slider).to_have_attribute("aria-valuetext", f"{text}: {value}")
    box = slider.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 20)
    events = device.history.events
    until(page, f"Math.abs(document.querySelector('.allocator').dataset.event - {events / 2}) < 4")


def test_a_click_on_a_block_pins_its_allocation(open_page: Opener) -> None:
    builder = (
        trace()
        .alloc(BASE, 8 * MIB)
        .alloc(BASE + 8 * MIB, 4 * MIB)
        .segment(BASE, 16 * MIB, (8 * MIB, 8 * MIB, "live"), (4 * MIB, 4 * MIB, "live"))
    )
    page = open_panel(open_page, built(builder))
    marks = page.locator(".strip .marks")
    marks.scroll_into_view_if_needed()
    box = marks.bounding_box()
    assert box is not None
    # Three rows of a third each: the second block begins in the middle of the second.
    page.mouse.click(box["x"] + box["width"] * 0.6, box["y"] + 22 + 8)
    details = page.locator(".side .details")
    expect(details).to_have_attribute("data-allocation", "1")
    expect(details).to_contain_text("4.00 MiB")
    expect(page.locator(".pinned-block .details")).to_have_attribute("data-allocation", "1")
    expect(page.locator(".blocks-list .now")).to_contain_text("8.00 MiB")
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 44 + 8)
    expect(page.locator(".segment-map .tooltip")).to_contain_text("free, in a segment that is in")
    page.mouse.move(box["x"] + box["width"] * 0.2, box["y"] + 8)
    expect(page.locator(".segment-map .tooltip")).to_contain_text("stacks not recorded")


def test_keys_walk_through_blocks_and_segments(open_page: Opener) -> None:
    builder = (
        trace()
        .alloc(BASE, 8 * MIB)
        .event("snapshot")
        .segment(BASE, 16 * MIB, (8 * MIB, 8 * MIB, "live"))
        .segment(BASE + 64 * MIB, 20 * MIB)
    )
    page = open_panel(open_page, built(builder))
    map_ = page.get_by_role("application", name="Segments")
    said = page.locator(".block-said")
    expect(said).to_contain_text("8.00 MiB allocated")
    map_.press("ArrowRight")
    expect(said).to_contain_text("8.00 MiB free; 8.00 MiB into the segment")
    map_.press("ArrowRight")
    expect(said).to_contain_text("20.00 MiB free; 0 B into the segment")
    map_.press("ArrowUp")
    map_.press("Enter")
    expect(page.locator(".pinned-block .details")).to_have_attribute("data-allocation", "0")


def test_a_event_with_fewer_blocks_keeps_the_place_in_memory(open_page: Opener) -> None:
    builder = trace()
    for k in range(6):
        builder.alloc(BASE + 4 * k * MIB, 2 * MIB)
    builder.segment(BASE, 24 * MIB, *[(2 * MIB, 2 * MIB, "live"), (2 * MIB, 0, "free")] * 6)
    page = open_panel(open_page, built(builder))
    page.get_by_role("application", name="Segments").press("End")
    said = page.locator(".block-said")
    expect(said).to_contain_text("2.00 MiB free; 22.00 MiB into the segment")
    go_to(page, 0)
    expect(said).to_contain_text("22.00 MiB free; 2.00 MiB into the segment")
    expect(page.locator(".segment-blocks h3")).to_contain_text("Segment 1 of 1")


def test_the_bars_have_the_colours_of_what_is_in_them(open_page: Opener) -> None:
    builder = (
        trace()
        .alloc(BASE, 6 * MIB)
        .segment(BASE, 16 * MIB, (8 * MIB, 6 * MIB, "live"))
        .segment(BASE + 64 * MIB, 16 * MIB)
        .segment(BASE + 128 * MIB, 16 * MIB)
    )
    page = open_panel(open_page, built(builder))
    first, second = page.locator(".strip canvas").first.evaluate(
        """(canvas) => {
          const row = (y) => {
            const { data } = canvas.getContext("2d").getImageData(0, y, canvas.width, 1)
            const runs = []
            for (let i = 0; i < data.length; i += 4) {
              const colour = data[i + 3] === 255 ? data.slice(i, i + 3).join() : ""
              if (runs.at(-1)?.[0] !== colour) runs.push([colour, 0])
              runs.at(-1)[1]++
            }
            return runs.filter(([colour, px]) => colour && px > 3)
          }
          return [row(4), row(26)]
        }"""
    )
    whole = sum(px for _, px in first)
    assert [round(16 * px / whole) for _, px in first] == [6, 2, 8]
    assert len({colour for colour, _ in [*first, *second]}) == 4
    assert [px for _, px in second] == [pytest.approx(whole, abs=3)]


def test_a_profile_has_no_allocator_to_show(open_page: Opener) -> None:
    page = open_page(sample("cpu_profile.pickle")).page
    expect(page.get_by_role("tab", name="Call stacks")).to_be_visible()
    assert page.get_by_role("tab", name="Allocator").count() == 0
    assert page.locator(".figures dt").count() == 1
    expect(page.locator(".totals dt")).to_have_text(["Allocated"])
    page.get_by_role("tab", name="Recording").click()
    peaks = page.get_by_role("tabpanel").get_by_role("region", name="Peaks")
    expect(peaks.locator("tbody tr td:first-child")).to_have_text(["allocated"])


def test_missing_segment_events_are_said(open_page: Opener) -> None:
    page = open_panel(open_page, built(trace().alloc("a", 4 * MIB).alloc("b", MIB).free("b")))
    expect(page.locator(".allocator .note")).to_contain_text(
        "2 live allocations are in no recorded segment"
    )
    expect(page.locator("figure.fragmentation")).to_contain_text("not known where segment events")


def test_a_snapshot_without_history_shows_its_segments(open_page: Opener) -> None:
    found = sample("state_only.pickle")
    page = open_panel(open_page, found)
    segments = found.devices[0].history.segments
    titles, _ = page.evaluate(_PARTS)
    assert in_bytes(dict(titles)["reserved"]) == int(np.sum(segments.size))
    expect(page.locator("figure.fragmentation")).to_have_count(0)
    # No timeline shows what is pinned, so the panel does.
    page.get_by_role("application", name="Segments").press("Enter")
    expect(page.locator(".pinned-block .details")).to_be_visible()


def test_the_blocks_are_there_on_a_telephone(kept_page: KeptPage) -> None:
    page = kept_page(_SAMPLES / "private_pool.json").page
    page.set_viewport_size({"width": 400, "height": 800})
    page.get_by_role("tab", name="Allocator").click()
    expect(page.locator(".blocks-list [data-row='0']")).to_be_visible()
    assert page.locator("html").evaluate("root => root.scrollWidth") <= 400
    tabs = [tab.bounding_box() for tab in page.get_by_role("tab").all()]
    edges = [(box["x"], box["x"] + box["width"]) for box in tabs if box]
    assert all(right <= left + 1 for (_, right), (left, _) in itertools.pairwise(edges))


def test_segments_that_a_small_block_keeps_are_listed_and_lead_to_it(open_page: Opener) -> None:
    norm = [{"name": "norm", "filename": "model.py", "line": 7}]
    builder = trace()
    builder.segment("a", 40 * MIB, (2 * MIB, 2 * MIB, "live"))
    builder.segment("b", 80 * MIB, (40 * MIB, 40 * MIB, "live"))
    builder.alloc("b", 40 * MIB).alloc("a", 2 * MIB, frames=norm)
    page = open_panel(open_page, built(builder))
    section = page.get_by_role("region", name="Free, but held back by small blocks")
    expect(section).to_be_visible()
    expect(section).to_contain_text("38.00 MiB are free in 1 segment, but cannot go back")
    (row,) = section.locator(".kept-list .view .row").all()
    assert row.inner_text().split("\n") == ["38.00 MiB", "40.00 MiB", "2.00 MiB", "norm model.py:7"]
    row.click()
    said = page.locator(".block-said")
    expect(said).to_contain_text("2.00 MiB allocated, norm model.py:7; 0 B into the segment at")
    go_to(page, 0)  # before the small block nothing but the large one is there
    expect(section).to_be_hidden()


def test_a_setting_is_drawn_over_what_was_reserved(open_page: Opener) -> None:
    found = snapreport.load(_SAMPLES / "training_step.pickle").findings(allocator=False)
    page = open_panel(open_page, found)
    study = found.devices[0].settings
    assert study is not None
    rows = page.locator(".panel .settings tbody tr")
    for row, outcome in zip(rows.all(), study.found.outcomes, strict=True):
        assert row.locator("td").all_inner_texts()[1:] == cells(outcome, study.found)
        assert outcome.settings in row.inner_text()
    key = page.locator(".key-replay")
    expect(key).to_be_hidden()
    assert page.evaluate(_DRAWN) == 0
    # More is reserved than ever was: that has to be in sight.
    most = max(study.curves, key=lambda each: int(each.bytes.max()))
    assert int(most.bytes.max()) > found.devices[0].peaks["reserved"].bytes
    rows.filter(has_text=most.settings).get_by_role("radio").check()
    expect(key).to_have_text(f"reserved with {most.settings}")
    until(page, f"{_DRAWN} > 200")
    rows.filter(has_text="(recorded)").get_by_role("radio").check()
    expect(key).to_be_hidden()
    until(page, f"{_DRAWN} === 0")
