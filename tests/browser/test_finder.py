"""Finding everything by its name; devices and groups as small curves; pools as bands."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from snapreport.diagnosis.conclude import find
from snapreport.model.findings import Findings
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
from tests.browser.test_page import HOSTILE
from tests.browser.test_sharing import violations_in_both_schemes
from tests.browser.test_stacks import tree_of
from tests.browser.timeline_tools import SAMPLES, colour_by, legend, settle, view, window
from tests.builders import trace

pytestmark = pytest.mark.browser(webgl=False)


def _found(page: Page, typed: str) -> list[str]:
    """What the dialog lists for what is typed, once every colouring's groups are there."""
    if not page.locator(".finder").is_visible():
        page.keyboard.press("Control+k")
    page.locator(".finder input").fill(typed)
    page.wait_for_timeout(150)
    return [" ".join(each.split()) for each in page.locator(".finder li").all_inner_texts()]


def _go(page: Page, typed: str, name: str) -> None:
    """Go to the row of a kind and name by keys alone."""
    rows = _found(page, typed)
    at = next(k for k, row in enumerate(rows) if row.startswith(name))
    for _ in range(at):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator(".finder")).to_be_hidden()


def test_a_function_is_selected_in_the_call_stacks(kept_page: KeptPage) -> None:
    page = kept_page(trained).page
    # At the peak, event 50, the layers that are left and the spike hang under main's module.
    _go(page, "modu", "function <module>")
    expect(page.get_by_role("tab", name="Call stacks")).to_have_attribute("aria-selected", "true")
    assert view(page)["selected"].startswith("stacks:down-")
    expect(tree_of(page).locator("[aria-selected=true]")).to_contain_text("<module>")
    expect(page.locator(".about-node")).to_contain_text("/home/me/train.py:7")


def test_a_function_that_holds_nothing_here_is_shown_where_it_does(kept_page: KeptPage) -> None:
    page = kept_page(trained).page
    page.get_by_label("Event", exact=True).fill("99")
    page.keyboard.press("Enter")
    assert any(row == "function forward model.py:42 0 B" for row in _found(page, "forw"))
    _go(page, "forw mod", "function forward")
    assert view(page).get("event", "50") == "50"
    expect(tree_of(page).locator("[aria-selected=true]")).to_contain_text("forward")


def test_each_kind_of_thing_is_gone_to(kept_page: KeptPage) -> None:
    page = kept_page(SAMPLES / "training_step.pickle").page
    whole = window(page)
    _go(page, "backward", "stage backward")
    assert window(page)["x1"] - window(page)["x0"] < whole["x1"] - whole["x0"]
    _go(page, "reset zoom", "action Reset zoom")
    assert window(page) == whole
    _go(page, "step 2", "step Step 2")
    assert 600 < window(page)["x0"] < 676
    _go(page, "#100", "event Event 100")
    expect(page.get_by_label("Event", exact=True)).to_have_value("100")
    _go(page, "recor", "tab Recording")
    assert view(page)["tab"] == "recording"
    _go(page, "transformer.py", "file transformer.py")
    assert (view(page)["tab"], view(page)["search"]) == ("lines", "transformer.py")
    _go(page, "0x7f", "address 0x7f")
    assert (view(page)["tab"], view(page)["search"]) == ("live", "0x7f")
    _go(page, ">=1m", "events All")
    assert (view(page)["tab"], view(page)["search"]) == ("events", ">=1m")
    _go(page, "axis time", "action Horizontal axis: Time")
    assert view(page)["axis"] == "time"
    _go(page, "colour stage", "action Colour by: Stage")
    assert view(page)["colour"] == "stage"
    _go(page, "only role act", "filter Only role: activation")
    assert view(page)["only"].startswith("role")
    expect(page.locator(".chip[data-filter=role]")).to_contain_text("activation")


def test_rows_say_their_bytes_at_the_cursor(kept_page: KeptPage) -> None:
    page = kept_page(trained).page
    assert "function <module> train.py:7 420.0 MiB" in _found(page, "<module>")
    assert any(row.startswith("stage forward events 5 to 39") for row in _found(page, "forward"))
    page.keyboard.press("Escape")
    page.get_by_label("Event", exact=True).fill("0")
    page.keyboard.press("Enter")
    assert "function <module> train.py:7 32.00 MiB" in _found(page, "<module>")


def test_the_dialog_is_used_by_keys_alone_and_keeps_nobody_out(kept_page: KeptPage) -> None:
    page = kept_page(trained).page
    page.get_by_role("button", name="Find").focus()
    page.keyboard.press("Enter")
    box = page.get_by_role("combobox", name="Find functions")
    expect(box).to_be_focused()
    box.press_sequentially("for")
    options = page.locator(".finder").get_by_role("option")
    expect(options.first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowUp")
    expect(options.last).to_have_attribute("aria-selected", "true")
    assert box.get_attribute("aria-activedescendant") == options.last.get_attribute("id")
    page.keyboard.press("ArrowDown")
    expect(options.first).to_have_attribute("aria-selected", "true")
    assert violations_in_both_schemes(page, "dialog.finder") == []
    box.fill("qqqqq")
    expect(page.locator(".finder [role=status]")).to_have_text("Nothing found")
    expect(box).to_have_attribute("aria-expanded", "false")
    box.fill("/(/")
    expect(page.locator(".finder [role=status]")).to_have_text("Not a regular expression")
    assert violations_in_both_schemes(page, "dialog.finder") == []
    page.keyboard.press("Escape")
    expect(page.locator(".finder")).to_be_hidden()
    expect(page.get_by_role("button", name="Find")).to_be_focused()
    # Also from a field, where other keys are text; and the same keys close it.
    page.get_by_role("searchbox").focus()
    page.keyboard.press("Meta+k")
    expect(box).to_be_visible()
    page.keyboard.press("Control+k")
    expect(box).to_be_hidden()


def test_a_click_goes_there_too(kept_page: KeptPage) -> None:
    page = kept_page(trained).page
    _found(page, "lines")
    page.locator(".finder li", has_text="Lines").first.click()
    expect(page.get_by_role("tab", name="Lines")).to_have_attribute("aria-selected", "true")


def test_strangers_names_are_text_in_the_dialog(open_page: Opener) -> None:
    frame = (HOSTILE, f"/tmp/{HOSTILE}.py", 1)
    spec = DeviceSpec([Row(MIB, 1, 90, (frame,))], stages=[(HOSTILE, 0, 0, 50)])
    page = open_page(findings(spec)).page
    rows = _found(page, "onerror")
    assert {row.split()[0] for row in rows} >= {"function", "file", "stage", "filter"}
    expect(page.locator(".finder li b").first).to_contain_text("<img src=x")
    assert page.locator(".finder img").count() == 0


def test_a_page_without_anything_to_find_does_not_offer_to(open_page: Opener) -> None:
    empty = findings(DeviceSpec([], events=0))
    page = open_page(replace(empty, devices=())).page
    expect(page.get_by_role("button", name="Find")).to_be_disabled()
    page.keyboard.press("Control+k")
    assert page.locator(".finder").count() == 0


def test_a_device_without_memory_leads_to_the_others(open_page: Opener) -> None:
    unused = DeviceSpec([], events=0, ordinal=1, reserved=0)
    page = open_page(findings(training(), unused), "#device=1").page
    assert _found(page, "cuda") == ["device cuda:0 peak 484.0 MiB", "device cuda:1 peak 0 B"]
    page.keyboard.press("Enter")
    expect(page.locator("#device-0")).to_be_visible()


def _two_devices() -> Findings:
    small = DeviceSpec([Row(40 * MIB, 10, 60, (TORCH, USER, MAIN))], ordinal=1)
    return findings(replace(training(), ooms=[(50, 7 * MIB, None)]), small)


def test_devices_are_curves_on_one_scale_with_the_open_ones_cursor_over_all(
    open_page: Opener,
) -> None:
    page = open_page(_two_devices()).page
    rows = page.locator(".switch a")
    expect(rows).to_have_text(["cuda:0 484.0 MiB, 1 failed request", "cuda:1 40.00 MiB"])
    boxes = [_box(rows.nth(k).locator("svg").first) for k in range(2)]
    assert boxes[0]["x"] == boxes[1]["x"]
    assert boxes[0]["width"] == boxes[1]["width"]
    heights = rows.locator("path").evaluate_all("all => all.map((each) => each.getBBox().height)")
    assert heights == pytest.approx([40, 40 * 40 / 484], abs=0.1)
    failed = _box(page.locator(".small-curve line"))
    assert (failed["x"] - boxes[0]["x"]) / boxes[0]["width"] == pytest.approx(0.52, abs=0.02)

    def cursor() -> float:
        return float(
            page.locator(".switch").evaluate("each => each.style.getPropertyValue('--at')")
        )

    assert cursor() == pytest.approx(500 / 960, abs=0.001)  # the last event with a time is 96
    page.get_by_label("Event", exact=True).fill("20")
    page.keyboard.press("Enter")
    assert cursor() == pytest.approx(200 / 960, abs=0.001)


def test_a_click_on_a_devices_curve_goes_to_that_moment(open_page: Opener) -> None:
    page = open_page(_two_devices()).page
    box = _box(page.locator(".small-curve").nth(1))
    page.mouse.click(box["x"] + 0.3 * box["width"], box["y"] + 5)
    page.wait_for_selector("html[data-complete='1']")
    expect(page.locator("#device-1")).to_be_visible()
    assert int(view(page).get("event", "10")) in range(9, 61)
    page.mouse.click(box["x"] + 0.8 * box["width"], box["y"] + 5)
    assert int(view(page)["event"]) >= 60
    page.locator(".switch a b").nth(0).click()
    expect(page.locator("#device-0")).to_be_visible()
    assert "event" not in view(page)
    rows = _found(page, "cuda:1")
    assert rows[0].startswith("device cuda:1 peak 40.00 MiB")
    page.keyboard.press("Enter")
    expect(page.locator("#device-1")).to_be_visible()


def test_devices_without_times_lie_over_their_own_events(open_page: Opener) -> None:
    specs = [replace(training(), ordinal=k, times=False) for k in range(2)]
    page = open_page(findings(*specs)).page
    expect(page.locator(".switch")).to_have_attribute(
        "title", "Allocated bytes on one scale, over the events of each device"
    )
    box = _box(page.locator(".small-curve").nth(1))
    page.mouse.click(box["x"] + 0.25 * box["width"], box["y"] + 5)
    page.wait_for_selector("html[data-complete='1']")
    assert int(view(page)["event"]) == pytest.approx(24, abs=1)


def test_many_devices_leave_room_for_the_page(open_page: Opener) -> None:
    page = open_page(findings(*(replace(training(), ordinal=k) for k in range(12)))).page
    box = _box(page.locator(".switch"))
    assert box["height"] <= 0.3 * 900 + 1
    page.locator(".switch a b").nth(11).click()
    expect(page.locator("#device-11")).to_be_visible()


def test_one_device_has_no_rows(kept_page: KeptPage) -> None:
    assert kept_page(trained).page.locator(".switch").count() == 0


def test_groups_are_curves_on_the_timelines_own_axis(kept_page: KeptPage) -> None:
    page = kept_page(SAMPLES / "training_step.pickle").page
    page.get_by_role("tab", name="Groups").click()
    rows = page.locator("button.group-row")
    expect(rows.first).to_contain_text("activation")
    strips, curve = _box(page.locator(".plot .strips")), _box(rows.first.locator("canvas"))
    assert curve["x"] == pytest.approx(strips["x"], abs=1.5)
    assert curve["width"] == pytest.approx(strips["width"], abs=3)
    # At the peak the rows say what the legend says.
    at_peak = dict(legend(page))
    for row in rows.all():
        name, now = row.locator("code").inner_text(), row.locator("b").inner_text()
        assert at_peak.get(name, "0 B") == now, name
    rows.first.click()
    expect(rows.first).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".legend .group[aria-pressed=true]")).to_contain_text("activation")
    page.keyboard.press("ArrowDown")
    expect(rows.nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(rows.nth(1)).to_have_attribute("aria-pressed", "true")
    assert violations_in_both_schemes(page, ".panels") == []


def test_groups_follow_the_window_the_curve_the_colour_and_the_filters(kept_page: KeptPage) -> None:
    page = kept_page(SAMPLES / "training_step.pickle").page
    page.get_by_role("tab", name="Groups").click()
    rows = page.locator(".group-row")
    expect(rows.first.locator(".num").first).to_have_text("2.59 GiB")
    names = rows.locator("code").all_inner_texts()
    _go(page, "optimizer", "stage Optimizer.step#AdamW.step")
    expect(rows.first).not_to_contain_text("activation")
    page.keyboard.press("Escape")
    _go(page, "reset zoom", "action Reset zoom")
    expect(rows.locator("code")).to_have_text(names)
    _go(page, "only role grad", "filter Only role: gradient")
    expect(rows.locator("code")).to_have_text(["gradient"])
    page.get_by_text("Show all", exact=True).first.click()
    colour_by(page).select_option("stage")
    expect(rows.locator("code").first).to_have_text("forward")
    colour_by(page).select_option("site")
    expect(rows.last).to_contain_text("other")
    assert rows.count() == 13


def _pooled() -> Findings:
    """40 MiB of the default pool, then 60 MiB of a private pool that hold 10 MiB."""
    made = trace()
    made.event("segment_alloc", addr=made.address("a"), size=40 * MIB)
    made.alloc("a", 40 * MIB)
    made.event("segment_alloc", addr=made.address("b"), size=60 * MIB)
    made.alloc("b", 10 * MIB)
    made.alloc("c", MIB).free("c")
    made.segment("a", 40 * MIB, (40 * MIB, 40 * MIB, "live"))
    made.segment("b", 60 * MIB, (10 * MIB, 10 * MIB, "live"), segment_pool_id=(0, 1))
    return find(made.file())


def test_a_private_pool_is_a_band_as_high_as_it_reserves(open_page: Opener) -> None:
    opened = open_page(_pooled(), viewport={"width": 1280, "height": 1200})
    page = opened.page
    tip = page.locator(".plot .tooltip")
    page.mouse.move(*opened.strip_point(4, 80 * MIB))
    expect(tip).to_contain_text("60.00 MiB reserved by private pool 0,1")
    expect(tip).to_contain_text("of 100.0 MiB")
    page.mouse.move(*opened.strip_point(4, 45 * MIB))  # also the allocation there
    expect(tip).to_contain_text("10.00 MiB")
    expect(tip).to_contain_text("60.00 MiB reserved by private pool 0,1")
    page.mouse.move(*opened.strip_point(4, 20 * MIB))
    expect(tip).to_contain_text("40.00 MiB")
    expect(tip).not_to_contain_text("private pool")
    page.mouse.move(*opened.strip_point(1, 60 * MIB))  # before there is such a pool
    expect(tip).to_be_hidden()
    # Left out, too, where only some allocations count.
    _go(page, "only size 8", "filter Only size: 8 MiB to 16 MiB")
    settle(page)
    page.mouse.move(*opened.strip_point(4, 10.5 * MIB))
    expect(tip).to_be_hidden()


def test_the_saved_drawing_has_the_band_and_its_name(open_page: Opener, tmp_path: Path) -> None:
    page = open_page(_pooled()).page
    with page.expect_download() as download:
        page.get_by_role("button", name="SVG", exact=True).click()
    download.value.save_as(tmp_path / "drawing.svg")
    drawing = (tmp_path / "drawing.svg").read_text(encoding="utf-8")
    assert "pool 0,1 (MemPool or graph_pool_handle): 60.00 MiB reserved" in drawing
    assert drawing.count("<clipPath") >= 2


def test_what_the_program_said_of_an_allocation_stands_in_sight(open_page: Opener) -> None:
    said: dict[str, Any] = {"user_metadata": '{"layer":3,"kind":"kept"}'}
    made = trace().alloc("a", 8 * MIB).start("step", 15).start("forward", 16)
    made.alloc("b", 4 * MIB).alloc("c", 4 * MIB, **said).end("forward", 45).end("step", 46)
    opened = open_page(find(made.alloc("d", MIB).file()))
    page = opened.page
    page.mouse.move(*opened.strip_point(3, 14 * MIB))
    expect(page.locator(".plot .tooltip")).to_contain_text("made in step \u203a forward")
    page.mouse.click(*opened.strip_point(3, 14 * MIB))
    facts = page.locator(".details > .facts-list")
    expect(facts).to_be_visible()
    assert facts.inner_text().split("\n") == [
        "Stage",
        "step \u203a forward",
        "layer",
        "3",
        "kind",
        "kept",
    ]
    page.mouse.click(*opened.strip_point(3, 4 * MIB))
    expect(page.locator(".details")).to_have_attribute("data-allocation", "0")
    expect(facts).to_have_count(0)


def _box(part: Locator) -> Any:
    return part.bounding_box()
