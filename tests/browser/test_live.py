"""The panel of live allocations: each one with its facts, sorted, searched, pinned."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from snapreport.ground.units import format_bytes
from snapreport.model.findings import Findings
from snapreport.model.roles import ROLES
from snapreport.model.snapshot import pool_name
from tests.browser.builders import (
    MAIN,
    MIB,
    TORCH,
    USER,
    DeviceSpec,
    Row,
    findings,
    trained,
    training,
)
from tests.browser.conftest import KeptPage, Opener
from tests.browser.listing import all_rows, fragment, frames, go_to, in_bytes
from tests.browser.test_sharing import reopen
from tests.corpus import findings_of

pytestmark = pytest.mark.browser(webgl=False)

# The allocations whose rows are whole in the view, and heights at which no row is drawn.
_IN_SIGHT = """(list) => {
  const view = list.querySelector(".view").getBoundingClientRect()
  const rows = [...list.querySelectorAll("[data-row]")]
  const boxes = rows.map((row) => row.getBoundingClientRect())
  const inside = (box) => box.top >= view.top - 1 && box.bottom <= view.bottom + 1
  const whole = rows.filter((_, k) => inside(boxes[k]))
  const bare = []
  for (let y = view.top + 2; y < view.bottom - 2; y += 8) {
    if (!boxes.some((box) => box.top <= y && y <= box.bottom)) bare.push(y - view.top)
  }
  return [whole.map((row) => row.dataset.allocation), bare]
}"""


def table(page: Page) -> Locator:
    page.get_by_role("tab", name="Allocations").click()
    return page.locator("article:visible").get_by_role("treegrid", name="Allocations")


@pytest.mark.parametrize("curve", ["allocated", "requested"])
def test_every_live_allocation_is_listed_at_any_event(
    kept_page: KeptPage, samples: Path, curve: str
) -> None:
    found = findings_of(samples / "two_streams.pickle")
    device = found.devices[0]
    allocations = device.history.allocations
    page = kept_page(samples / "two_streams.pickle").page
    page.locator(".segmented label", has_text=curve.capitalize()).first.click()
    part = table(page)
    page.get_by_label("Group equal rows").uncheck()
    for event in (device.peak.event, 60, device.history.events - 1):
        go_to(page, event)
        rows = all_rows(part)
        live = device.history.allocations.live_at(event, curve)
        assert sorted(int(row["allocation"]) for row in rows) == live.nonzero()[0].tolist()
        for row in rows:
            i = int(row["allocation"])
            assert in_bytes(row["titles"][0]) == allocations.block_size[i]
            assert in_bytes(row["titles"][1]) == allocations.size[i]
            born = int(allocations.alloc_event[i])
            age = "before recording" if born < 0 else f"{event - born:,} event"
            assert row["cells"][2] == ROLES[device.roles.role[i]]
            assert row["cells"][3].startswith(age)
            freed = int(allocations.free_event[i])
            lived = f"{freed - max(born, 0):,} event"
            kept = freed >= device.history.events
            assert lived in row["cells"][4]
            assert row["cells"][4].startswith("at least") == (born < 0 or kept)
            assert row["cells"][5] == ("not freed" if kept else f"event {freed:,}")
            assert row["cells"][7] == f"{allocations.addr[i]:#x} v{allocations.version[i]}"
            stream = int(allocations.stream[i])
            assert row["cells"][8] == ("default" if stream == 0 else f"{stream:#x}")
        blocks, requested = allocations.block_size[live].sum(), allocations.size[live].sum()
        told = page.locator(".totals-line")
        expect(told).to_contain_text(f"{live.sum():,} allocation")
        expect(told).to_contain_text(f"{format_bytes(int(blocks))} in blocks")
        expect(told).to_contain_text(f"{format_bytes(int(requested))} requested")
        sizes = [in_bytes(row["titles"][0]) for row in rows]
        assert sizes == sorted(sizes, reverse=True)
    page.get_by_label("Group equal rows").check()


def _equal() -> Findings:
    layer = (TORCH, USER, MAIN)
    rows = [Row(3 * MIB, k, 60 + k, layer) for k in range(6)]
    return findings(DeviceSpec([*rows, Row(4 * MIB, 7, None, layer), Row(2 * MIB, 8, 90, layer)]))


def test_equal_rows_share_one_that_opens(open_page: Opener) -> None:
    opened = open_page(_equal(), "#tab=live&event=20")
    page = opened.page
    rows = page.locator(".live-list .view .row")
    expect(rows).to_have_count(3)
    # The most bytes first: those of six rows are more than those of one larger block.
    several = rows.first
    expect(several).to_contain_text("6 \u00d7 3.00 MiB")
    expect(several.locator("[title='18,874,368 bytes']").first).to_be_visible()
    for text in ("15 to 20 events", "60 events", "60 to 65", "6 addresses"):
        expect(several).to_contain_text(text)
    expect(page.locator(".totals-line")).to_contain_text("8 allocations")
    several.locator(".equal").click()
    expect(rows).to_have_count(9)
    expect(several).to_have_attribute("aria-expanded", "true")
    inner = [rows.nth(k).get_attribute("data-allocation") for k in range(1, 7)]
    assert sorted(map(str, inner)) == list("012345")
    expect(rows.nth(1)).to_have_attribute("aria-level", "2")
    # By key: to the row of all, which highlights them in the timeline, and closed.
    several.click()
    fragment(page, "selected=live:")
    page.keyboard.press("ArrowLeft")
    expect(rows).to_have_count(3)
    again = reopen(opened, f"{opened.path.as_uri()}#tab=live&event=20&selected=live:3")
    chosen = again.locator(".live-list [aria-selected=true]")
    expect(chosen).to_contain_text("6 \u00d7 3.00 MiB")
    # A strip that is pinned shows its own row.
    again.evaluate("location.hash = '#tab=live&event=20&allocation=4'")
    expect(chosen).to_have_attribute("data-allocation", "4")


def test_pools_have_a_column_where_they_differ(kept_page: KeptPage, samples: Path) -> None:
    found = findings_of(samples / "private_pool.json")
    history, device = found.history, found.devices[0]
    page = kept_page(samples / "private_pool.json").page
    for row in all_rows(table(page)):
        pool = int(device.history.allocations.pool[int(row.get("allocation") or row["equal"])])
        assert row["cells"][8] == pool_name(history.pools[pool])


def test_the_search_finds_call_sites_sizes_and_addresses(kept_page: KeptPage) -> None:
    page = kept_page(trained).page
    part = table(page)
    box = page.get_by_role("searchbox")
    rows = part.locator(".view .row")
    box.fill("layer")
    expect(rows).to_have_count(10)
    expect(page.locator(".totals-line")).to_contain_text("10 of 12 allocations")
    expect(page.locator(".totals-line")).to_contain_text("320.0 MiB in blocks")
    box.fill("100.0 MiB")
    expect(rows).to_have_count(1)
    box.fill(f"{64 * MIB:,}")
    expect(rows).to_contain_text("before recording")
    box.fill(f"{2**46 + 4096 * 3:#x}")
    expect(rows).to_contain_text("model.py:12")
    box.fill("nothing like it")
    expect(part.locator(".empty")).to_be_visible()


def test_a_row_chosen_by_key_is_pinned_and_a_pinned_strip_is_the_chosen_row(
    kept_page: KeptPage,
) -> None:
    opened = kept_page(trained)
    page = opened.page
    part = table(page)
    part.focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".details")).to_contain_text("forward")
    fragment(page, "allocation=11")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".details")).to_contain_text("before recording")
    page.mouse.click(*opened.strip_point(30, (64 + 3 * 32 + 16) * MIB))
    expect(part.locator(".view [aria-selected=true]")).to_have_attribute("data-allocation", "4")


def test_ages_sort_oldest_first(open_page: Opener) -> None:
    page = open_page(findings(training())).page
    part = table(page)
    part.get_by_role("button", name="Age").click()
    rows = part.locator(".view .row")
    expect(rows.first).to_contain_text("before recording")
    expect(rows.nth(1)).to_contain_text("50 events")
    part.get_by_role("button", name="Age").click()
    expect(rows.first).to_contain_text("0 events")


def test_a_list_opened_by_a_link_draws_all_rows_in_sight(
    kept_page: KeptPage, samples: Path
) -> None:
    opened = kept_page(samples / "training_step.pickle")
    page = reopen(opened, f"{opened.path.as_uri()}#tab=live&allocation=226&event=622")
    frames(page)
    part = page.get_by_role("treegrid", name="Allocations")
    rows, bare = part.evaluate(_IN_SIGHT)
    assert bare == []
    assert "226" in rows
