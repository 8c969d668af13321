"""The timeline in a browser: cursor, axes, colours, filters, ruler, map, events and pictures."""

from __future__ import annotations

import re
import urllib.parse
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

import snapreport
from snapreport.units import format_bytes
from tests.browser.builders import MAIN, MIB, TORCH, USER, DeviceSpec, Row, findings, training
from tests.browser.conftest import Opener, OpenPage

pytestmark = pytest.mark.browser

_SAMPLES = Path(__file__).parents[2] / "sample_snapshots"
NO_WEBGL = """
const get = HTMLCanvasElement.prototype.getContext
HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
  return kind === "webgl2" ? null : get.call(this, kind, ...rest)
}
"""
HOSTILE = '</svg><script>alert(1)</script> & "co" \x01'


def settle(page: Page) -> None:
    """Wait until the raster of the present window is on the screen."""
    for _ in range(200):
        if page.evaluate("window.snapreport.settled()"):
            return
        page.wait_for_timeout(25)
    raise AssertionError("never settled")


def view(page: Page) -> dict[str, str]:
    """What the link of the present view says."""
    fields = urllib.parse.parse_qsl(page.evaluate("window.snapreport.link()"))
    return dict(fields)


def window(page: Page) -> dict[str, float]:
    """The part of the axis and the bytes shown."""
    found: dict[str, float] = page.evaluate("window.snapreport.window()")
    return found


def pixels(page: Page) -> Any:
    """The strips' pixels, without alpha: shape (height, width, 3)."""
    settle(page)
    data, width = page.evaluate(
        "(() => { const p = window.snapreport.pixels(); return [[...p.data], p.width] })()"
    )
    return np.array(data, dtype=np.uint8).reshape(-1, width, 4)[:, :, :3]


def colours(page: Page) -> Counter[tuple[int, ...]]:
    """How often each colour occurs among the strips."""
    return Counter(map(tuple, pixels(page).reshape(-1, 3).tolist()))


def strips_box(page: Page) -> dict[str, float]:
    """Where the strips are on the screen."""
    box = page.locator(".strips:visible").bounding_box()
    assert box is not None
    return {name: float(box[name]) for name in ("x", "y", "width", "height")}


def legend(page: Page) -> list[tuple[str, str]]:
    """Label and size of each row of the legend."""
    rows = page.locator(".legend:visible li")
    texts = zip(rows.locator("code").all(), rows.locator("b").all(), strict=True)
    return [(name.inner_text().replace("\u200b", ""), size.inner_text()) for name, size in texts]


def colour_by(page: Page) -> Locator:
    """The choice of what strips are coloured by."""
    return page.get_by_label("Colour by").locator("visible=true")


def press(page: Page, *keys: str) -> None:
    """Press keys while the plot has the focus."""
    page.locator(".plot:visible").focus()
    for key in keys:
        page.keyboard.press(key)


def test_a_click_moves_the_cursor_and_everything_shows_that_step(open_page: Opener) -> None:
    found = findings(training())
    opened = open_page(found)
    page = opened.page
    page.mouse.click(*opened.strip_point(30, 80 * MIB))
    assert view(page)["step"] == "30"
    assert view(page)["allocation"] == "1"  # the first layer, on top of the baseline
    expect(page.locator(".moment-title")).to_contain_text("at step 30")
    press(page, "Escape")
    expect(page.locator(".legend h3")).to_have_text("Live at step 30")
    live = sum(size for size in (64 * MIB, 8 * 32 * MIB))
    assert live == found.devices[0].curves["allocated"][31]
    assert legend(page)[0] == ("before recording", "64.00 MiB")
    assert [size for _, size in legend(page)[1:]] == ["32.00 MiB"] * 8


def test_dragging_on_the_axis_scrubs_the_cursor(open_page: Opener) -> None:
    opened = open_page(findings(training()))
    page = opened.page
    box = strips_box(page)
    y = box["y"] + box["height"] + 14
    page.mouse.move(opened.strip_point(20, 0)[0], y)
    page.mouse.down()
    assert view(page)["step"] == "20"
    page.mouse.move(opened.strip_point(70, 0)[0], y)
    page.mouse.move(opened.strip_point(71, 0)[0], y)
    page.mouse.up()
    assert view(page)["step"] == "71"
    assert window(page)["x0"] == -1  # the window stayed


def test_the_cursor_steps_by_keys_to_the_start_and_no_further(open_page: Opener) -> None:
    opened = open_page(findings(training()))
    page = opened.page
    page.mouse.click(*opened.strip_point(1, 20 * MIB))
    press(page, "]", "]")
    assert view(page)["step"] == "3"
    press(page, "[", "[", "[", "[", "[", "[")
    assert view(page)["step"] == "-1"
    expect(page.locator(".moment-title")).to_contain_text("at the start")


def test_braces_go_to_the_birth_and_the_end_of_the_pinned_allocation(open_page: Opener) -> None:
    opened = open_page(findings(training()))
    page = opened.page
    page.mouse.click(*opened.strip_point(30, 80 * MIB))  # layer 0: steps 0 to 100, never freed
    press(page, "{")
    assert view(page)["step"] == "0"
    page.mouse.click(*opened.strip_point(30, (64 + 3 * 32 + 16) * MIB))  # layer 3: 12 to 88
    press(page, "}")
    assert view(page)["step"] == "88"
    press(page, "{")
    assert view(page)["step"] == "12"


def test_p_brings_cursor_and_window_to_the_peak(open_page: Opener) -> None:
    found = findings(training())
    opened = open_page(found)
    page = opened.page
    page.mouse.click(*opened.strip_point(1, 20 * MIB))
    press(page, "p")
    assert "step" not in view(page)  # the peak is where the page opens
    shown = window(page)
    assert shown["x0"] < found.devices[0].peak.step < shown["x1"]
    assert shown["x1"] - shown["x0"] == pytest.approx(10.1)


@pytest.mark.parametrize("way", ["shift", "tool"])
def test_a_box_is_zoomed_to(open_page: Opener, way: str) -> None:
    opened = open_page(findings(training()))
    page = opened.page
    if way == "tool":
        page.get_by_role("button", name="Zoom to a box").click()
    page.mouse.move(*opened.strip_point(19.5, 100 * MIB))
    if way == "shift":
        page.keyboard.down("Shift")
    end = opened.strip_point(39.5, 300 * MIB)
    page.mouse.down()
    page.mouse.move(end[0] - 5, end[1])
    page.mouse.move(*end)
    page.mouse.up()
    shown = window(page)
    assert (shown["x0"], shown["x1"]) == pytest.approx((20, 40), abs=0.3)
    assert (shown["y0"], shown["y1"]) == pytest.approx((100 * MIB, 300 * MIB), rel=0.02)
    tool = page.get_by_role("button", name="Zoom to a box")
    expect(tool).not_to_have_attribute("aria-pressed", "true")  # one box, then moving again


def drag_ruler(opened: OpenPage) -> None:
    """Measure from step 20 to step 60, and from 100 to 200 MiB."""
    page = opened.page
    page.get_by_role("button", name="Measure between two points").click()
    page.mouse.move(*opened.strip_point(20, 100 * MIB))
    page.mouse.down()
    end = opened.strip_point(60, 200 * MIB)
    page.mouse.move(end[0] - 9, end[1])
    page.mouse.move(*end)
    page.mouse.up()


def test_the_ruler_measures_steps_time_and_bytes(open_page: Opener) -> None:
    opened = open_page(findings(training()))
    page = opened.page
    drag_ruler(opened)
    said = page.locator(".live [aria-live]")
    expect(said).to_contain_text("40 steps")
    expect(said).to_contain_text("310 \u00b5s")  # from 200, to step 51, the last one with a time
    expect(said).to_contain_text(re.compile(r"\+(9\d|10\d)\.\d+ MiB"))
    x0, y0, x1, y1 = map(float, view(page)["ruler"].split(","))
    assert (x0, x1) == pytest.approx((20.5, 60.5), abs=0.2)
    assert (y0, y1) == pytest.approx((100 * MIB, 200 * MIB), rel=0.02)
    press(page, "Escape")
    assert "ruler" not in view(page)
    expect(said).to_have_text("")


def test_by_keys_the_ruler_measures_from_where_the_cursor_was(open_page: Opener) -> None:
    opened = open_page(findings(training()))
    page = opened.page
    page.mouse.click(*opened.strip_point(3, 20 * MIB))
    press(page, "r", "]", "]")
    expect(page.locator(".live [aria-live]")).to_have_text(
        "2 steps  \u00b7  40 \u00b5s  \u00b7  +32.00 MiB"  # a layer is born at step 4
    )
    press(page, "r")
    assert "ruler" not in view(page)


def test_the_map_moves_and_resizes_the_window(open_page: Opener) -> None:
    page = open_page(findings(training())).page
    box = strips_box(page)
    plot = page.locator(".plot").bounding_box()
    assert plot is not None
    y = plot["y"] + plot["height"] - 15

    def drag(start: float, end: float) -> None:
        page.mouse.move(box["x"] + start * box["width"], y)
        page.mouse.down()
        page.mouse.move(box["x"] + end * box["width"] + 6, y)
        page.mouse.move(box["x"] + end * box["width"], y)
        page.mouse.up()

    drag(1, 0.5)  # the right edge of the whole
    assert (window(page)["x0"], window(page)["x1"]) == pytest.approx((-1, 49.5), abs=0.8)
    drag(0.25, 0.5)  # the box itself
    assert (window(page)["x0"], window(page)["x1"]) == pytest.approx((24.25, 74.75), abs=0.8)
    page.mouse.click(box["x"] + box["width"] * 0.9, y)  # beside it: the box comes there
    assert window(page)["x1"] == pytest.approx(100, abs=0.1)
    assert window(page)["x1"] - window(page)["x0"] == pytest.approx(50.5, abs=0.8)


def test_the_time_axis_shows_the_same_steps_by_the_clock(open_page: Opener) -> None:
    opened = open_page(findings(training()))
    page = opened.page
    page.locator(".segmented label", has_text="Time").click()
    settle(page)
    whole = window(page)
    # Events at 0 to 960 microseconds; those at which nothing happens have the time of the last.
    assert -20 < whole["x0"] < 0
    assert 960 < whole["x1"] < 980
    box = strips_box(page)
    x = box["x"] + (505 - whole["x0"]) / (whole["x1"] - whole["x0"]) * box["width"]
    page.mouse.click(x, opened.strip_point(0, (64 + 320 + 50) * MIB)[1])
    assert "step" not in view(page)  # step 50, the peak
    assert view(page)["axis"] == "time"
    expect(page.locator(".details")).to_contain_text("100.0 MiB")
    press(page, "+")
    shown = window(page)
    page.locator(".segmented label", has_text="Steps").click()
    middle = (window(page)["x0"] + window(page)["x1"]) / 2
    assert middle == pytest.approx((shown["x0"] + shown["x1"]) / 20, abs=3)


def test_without_times_the_time_axis_is_off_and_says_why(open_page: Opener) -> None:
    spec = training()
    spec.times = False
    page = open_page(findings(spec)).page
    time = page.locator(".segmented label", has_text="Time")
    expect(time.locator("input")).to_be_disabled()
    expect(time).to_have_attribute("title", "This recording has no times")


def sizes() -> DeviceSpec:
    """Three sizes that live alike, and lifetimes of 3, 40 and more steps."""
    return DeviceSpec(
        [
            Row(64 * MIB, None, None),
            Row(4 * MIB, 0, 40, (TORCH, USER, MAIN)),
            Row(5 * MIB, 1, None, (TORCH, USER, MAIN)),
            Row(40 * MIB, 2, 5, (TORCH, USER, MAIN)),
        ],
        stages=[("step #1", 0, 0, 2), ("step #2", 0, 2, 50)],
    )


def test_strips_are_coloured_by_size_lifetime_and_stage(open_page: Opener) -> None:
    opened = open_page(findings(sizes()))
    page = opened.page
    wanted = {
        "size": {
            "4 MiB to 8 MiB": 9, "32 MiB to 64 MiB": 40, "64 MiB to 128 MiB": 64,
        },
        "age": {
            "10 to 99 steps": 4, "live at the end": 5, "1 to 9 steps": 40, "live throughout": 64,
        },
        "stage": {"step #*": 49, "before recording": 64},
    }  # fmt: skip
    for colouring, groups in wanted.items():
        colour_by(page).select_option(colouring)
        rows = dict(legend(page))
        assert rows == {label: format_bytes(size * MIB) for label, size in groups.items()}
        assert view(page)["colour"] == colouring
        assert len([n for n in colours(page).values() if n > 400]) >= len(groups)


def test_a_colouring_of_one_colour_is_off_and_says_why(open_page: Opener) -> None:
    page = open_page(findings(DeviceSpec([Row(MIB, 1, 9, (USER, MAIN))]))).page
    options = colour_by(page).locator("option:disabled").all()
    off = {option.inner_text(): option.get_attribute("title") for option in options}
    assert off == {
        "Stage": "No stages were recorded",
        "Category": "All allocations are of one category",
        "Stream": "One stream made all allocations",
        "Memory pool": "All allocations came from one pool",
        "Compiled graph": "No compiled graphs were recorded",
    }


def test_a_group_that_is_left_out_leaves_the_stack(open_page: Opener) -> None:
    opened = open_page(findings(training()))
    page = opened.page
    before = pixels(page)
    page.locator(".legend li", has_text="before recording").hover()
    page.get_by_role("button", name="before recording in the timeline").click()
    assert view(page)["without"]
    expect(page.locator(".legend")).to_contain_text("Without 1 group")
    page.mouse.move(5, 5)
    after = pixels(page)
    height = before.shape[0]
    whole = window(page)
    rows = round(64 * MIB / (whole["y1"] - whole["y0"]) * height)
    # All that stood on the baseline stands as much lower now.
    column = round(30.5 / 101 * before.shape[1])
    fell = after[rows:, column] == before[: height - rows, column]
    assert np.mean(fell.all(axis=1)) > 0.93
    # A click finds the strip that is drawn, by its own number.
    page.mouse.click(*opened.strip_point(30, 16 * MIB))
    assert view(page)["allocation"] == "1"
    press(page, "Escape")
    page.get_by_role("button", name="Show all").click()
    page.mouse.move(5, 5)
    assert (pixels(page) == before).all()


def test_only_one_group_can_be_left(open_page: Opener) -> None:
    page = open_page(findings(training())).page
    before = len(colours(page))
    page.locator(".legend li", has_text="forward").hover()
    page.get_by_role("button", name="Show only forward").click()
    assert len(colours(page)) < before
    expect(page.locator(".legend")).to_contain_text("Without 11 groups")
    page.locator(".legend .group", has_text="forward").click(modifiers=["Alt"])
    expect(page.locator(".legend")).to_contain_text("Without 12 groups")


@pytest.mark.parametrize("before", ["", NO_WEBGL], ids=["webgl", "canvas"])
def test_a_chosen_group_stands_out_from_the_others(open_page: Opener, before: str) -> None:
    page = open_page(findings(training()), before=before).page
    plain = pixels(page)
    group = page.locator(".legend .group", has_text="before recording")
    group.click()
    expect(group).to_have_attribute("aria-pressed", "true")
    page.mouse.move(5, 5)
    chosen = pixels(page)
    same = (plain == chosen).all(axis=2)
    whole = window(page)
    baseline = round(64 * MIB / (whole["y1"] - whole["y0"]) * plain.shape[0])
    assert same[-baseline + 1 :].all()
    assert not same[-baseline - 30 : -baseline - 5, plain.shape[1] // 2].any()
    group.click()
    page.mouse.move(5, 5)
    assert (pixels(page) == plain).all()


def test_both_ways_of_drawing_give_the_same_pixels(open_page: Opener) -> None:
    found = snapreport.load(_SAMPLES / "training_step.pickle").findings()
    pictures = []
    for before in ("", NO_WEBGL):
        page = open_page(found, before=before).page
        press(page, "+", "+", "d")
        pictures.append(pixels(page).astype(int))
    assert np.abs(pictures[0] - pictures[1]).max() <= 1


def test_what_failed_requests_wanted_fits_the_picture(open_page: Opener) -> None:
    spec = training()
    spec.ooms = [(50, 200 * MIB, None)]
    page = open_page(findings(spec)).page
    assert window(page)["y1"] > (484 + 200) * MIB
    spec.ooms = [(50, 20_000 * MIB, None)]
    page = open_page(findings(spec)).page
    assert window(page)["y1"] < 700 * MIB  # it would leave nothing to see of the rest


def test_other_events_stand_under_the_strips(open_page: Opener) -> None:
    found = snapreport.load(_SAMPLES / "expandable_segments.pickle.zst").findings()
    opened = open_page(found)
    page = opened.page
    other = found.devices[0].history.other
    step = int(other.step[list(other.action).index("snapshot")])
    box = strips_box(page)
    page.mouse.move(*opened.strip_point(step, 0))
    press(page, *"++++++++++")  # at the pointer, until it is apart from its neighbours
    settle(page)
    place = step - window(page)["x0"]
    x = box["x"] + place / (window(page)["x1"] - window(page)["x0"]) * box["width"] + 1
    y = box["y"] + box["height"] + 3
    page.mouse.move(x, y)
    expect(page.locator(".tooltip")).to_contain_text("snapshot")
    expect(page.locator(".tooltip")).to_contain_text(f"{step}")
    page.mouse.click(x, y)
    assert abs(int(view(page)["step"]) - step) <= 1


def test_deep_stages_keep_to_five_rows_and_say_where_they_are(open_page: Opener) -> None:
    stages = [(f"level {depth}", depth, depth, 90 - depth) for depth in range(9)]
    opened = open_page(findings(DeviceSpec([Row(MIB, 0, 99, (USER, MAIN))], stages=stages)))
    page = opened.page
    box = strips_box(page)
    page.mouse.move(opened.strip_point(40, 0)[0], box["y"] - 12)
    expect(page.locator(".tooltip")).to_contain_text("level 8")
    assert box["height"] > 150


def save(page: Page, kind: str) -> tuple[str, bytes]:
    """Save the timeline; returns the file's name and content."""
    with page.expect_download() as waiting:
        page.get_by_role("button", name=re.compile(f"^Save the .* {kind}", re.IGNORECASE)).click()
    return waiting.value.suggested_filename, waiting.value.path().read_bytes()


def test_the_timeline_is_saved_as_a_picture(open_page: Opener) -> None:
    page = open_page(findings(training(), title="run 7.pickle")).page
    name, data = save(page, "png")
    assert name == "run-7-timeline.png"
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width = int.from_bytes(data[16:20], "big")
    plot = page.locator(".plot").bounding_box()
    assert plot is not None
    assert width == pytest.approx(2 * plot["width"], abs=3)


def test_the_timeline_is_saved_as_a_drawing(open_page: Opener) -> None:
    page = open_page(findings(training(), title=HOSTILE)).page
    name, data = save(page, "svg")
    assert name == "svg-script-alert-1-script-co-timeline.svg"
    root = ElementTree.fromstring(data)
    space = "{http://www.w3.org/2000/svg}"
    assert {element.tag.removeprefix(space) for element in root.iter()} <= {
        "svg", "title", "g", "path", "rect", "text", "clipPath",
    }  # fmt: skip
    texts = [element.text for element in root.iter(f"{space}text")]
    assert HOSTILE.replace("\x01", "") in texts
    assert "peak 484.0 MiB" in texts
    assert "train step" in texts
    fills = {element.get("fill") for element in root.iter(f"{space}path")}
    red, green, blue = pixels(page)[-20, 400]  # inside the baseline
    assert f"#{red:02x}{green:02x}{blue:02x}" in fills
    assert len([fill for fill in fills if fill and fill != "none"]) >= 12


def test_two_fingers_zoom(open_page: Opener) -> None:
    page = open_page(findings(training()), has_touch=True).page
    box = strips_box(page)
    y = box["y"] + box["height"] / 2
    session = page.context.new_cdp_session(page)

    def touch(kind: str, *places: float) -> None:
        across = [box["x"] + place * box["width"] for place in places]
        points = [{"x": x, "y": y, "id": k} for k, x in enumerate(across)]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", 0.45)
    touch("touchStart", 0.45, 0.55)
    for k in range(1, 9):
        touch("touchMove", 0.45 - 0.02 * k, 0.55 + 0.02 * k)
    touch("touchEnd")
    shown = window(page)
    assert shown["x1"] - shown["x0"] < 60
    assert shown["x0"] < 49 < shown["x1"]


def test_switching_devices_keeps_each_view(open_page: Opener) -> None:
    small = DeviceSpec([Row(MIB, 1, None, (TORCH, USER, MAIN))], ordinal=1)
    page = open_page(findings(training(), small)).page
    press(page, "+", "+")
    zoomed = window(page)
    for index in (1, 0):
        page.locator(".switch a").nth(index).click()
        page.wait_for_selector(f"html[data-ready='{index}']")
    assert window(page) == zoomed
    press(page, "0")
    settle(page)
    assert len(colours(page)) > 5
