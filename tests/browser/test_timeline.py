"""The timeline in a browser: cursor, axes, box and map."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.builders import MIB, findings, trained, training
from tests.browser.conftest import KeptPage, Opener
from tests.browser.timeline_tools import (
    SAMPLES,
    legend,
    pixels,
    press,
    settle,
    strips_box,
    view,
    window,
)
from tests.corpus import findings_of

pytestmark = pytest.mark.browser(webgl=False)


def test_a_click_moves_the_cursor_and_everything_shows_that_event(kept_page: KeptPage) -> None:
    found = trained()
    opened = kept_page(trained)
    page = opened.page
    page.mouse.click(*opened.strip_point(30, 80 * MIB))
    assert view(page)["event"] == "30"
    assert view(page)["allocation"] == "1"  # the first layer, on top of the baseline
    expect(page.locator(".moment-title")).to_contain_text("at event 30")
    press(page, "Escape")
    expect(page.locator(".legend h3").first).to_have_text("Live at event 30")
    live = sum(size for size in (64 * MIB, 8 * 32 * MIB))
    assert live == found.devices[0].curves["allocated"][31]
    assert legend(page)[0] == ("before recording", "64.00 MiB")
    assert [size for _, size in legend(page)[1:]] == ["32.00 MiB"] * 8


def test_dragging_its_number_on_the_axis_moves_the_cursor(kept_page: KeptPage) -> None:
    opened = kept_page(trained)
    page = opened.page
    box = strips_box(page)
    y = box["y"] + box["height"] + 14
    page.mouse.click(opened.strip_point(20, 0)[0], y)
    assert view(page)["event"] == "20"
    page.mouse.move(opened.strip_point(20, 0)[0], y)
    page.mouse.down()
    page.mouse.move(opened.strip_point(70, 0)[0], y)
    page.mouse.move(opened.strip_point(71, 0)[0], y)
    page.mouse.up()
    assert view(page)["event"] == "71"
    assert window(page)["x0"] == -1  # the window stayed


def test_the_cursor_events_by_keys_to_the_start_and_no_further(kept_page: KeptPage) -> None:
    opened = kept_page(trained)
    page = opened.page
    page.mouse.click(*opened.strip_point(1, 20 * MIB))
    press(page, "]", "]")
    assert view(page)["event"] == "3"
    press(page, "[", "[", "[", "[", "[", "[")
    assert view(page)["event"] == "-1"
    expect(page.locator(".moment-title")).to_contain_text("at the start")


def test_braces_go_to_the_birth_and_the_end_of_the_pinned_allocation(kept_page: KeptPage) -> None:
    opened = kept_page(trained)
    page = opened.page
    page.mouse.click(*opened.strip_point(30, 80 * MIB))  # layer 0: events 0 to 100, never freed
    press(page, "{")
    assert view(page)["event"] == "0"
    page.mouse.click(*opened.strip_point(30, (64 + 3 * 32 + 16) * MIB))  # layer 3: 12 to 88
    press(page, "}")
    assert view(page)["event"] == "88"
    press(page, "{")
    assert view(page)["event"] == "12"


def test_p_brings_cursor_and_window_to_the_peak(kept_page: KeptPage) -> None:
    found = trained()
    opened = kept_page(trained)
    page = opened.page
    page.mouse.click(*opened.strip_point(1, 20 * MIB))
    press(page, "p")
    assert "event" not in view(page)  # the peak is where the page opens
    shown = window(page)
    assert shown["x0"] < found.devices[0].peak.event < shown["x1"]
    assert shown["x1"] - shown["x0"] == pytest.approx(10.1)


@pytest.mark.parametrize("way", ["shift", "tool"])
def test_a_box_is_zoomed_to(kept_page: KeptPage, way: str) -> None:
    opened = kept_page(trained)
    page = opened.page
    if way == "tool":
        page.get_by_role("button", name="Box", exact=True).click()
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
    tool = page.get_by_role("button", name="Box", exact=True)
    expect(tool).not_to_have_attribute("aria-pressed", "true")  # one box, then moving again


def test_a_page_opened_at_a_part_shows_it_finely_on_a_slow_machine_too(
    open_page: Opener,
) -> None:
    found = findings_of(SAMPLES / "training_step.pickle")
    slow = "let time = 0; performance.now = () => (time += 50)"
    at = "#view=797.5,801.5,2828939780,2846939190"
    seen, wanted = (pixels(open_page(found, at, before=each).page) for each in (slow, ""))
    assert (seen == wanted).all()


def test_the_map_moves_and_resizes_the_window(kept_page: KeptPage) -> None:
    page = kept_page(trained).page
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


def test_the_time_axis_shows_the_same_events_by_the_clock(kept_page: KeptPage) -> None:
    opened = kept_page(trained)
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
    assert "event" not in view(page)  # event 50, the peak
    assert view(page)["axis"] == "time"
    expect(page.locator(".details")).to_contain_text("100.0 MiB")
    press(page, "+")
    shown = window(page)
    page.locator(".segmented label", has_text="Events").click()
    middle = (window(page)["x0"] + window(page)["x1"]) / 2
    assert middle == pytest.approx((shown["x0"] + shown["x1"]) / 20, abs=3)


def test_without_times_the_time_axis_is_off_and_says_why(open_page: Opener) -> None:
    spec = training()
    spec.times = False
    page = open_page(findings(spec)).page
    time = page.locator(".segmented label", has_text="Time")
    expect(time.locator("input")).to_be_disabled()
    expect(time).to_have_attribute("title", "This recording has no times")


def test_a_double_click_shows_everything_and_leaves_cursor_and_pin(kept_page: KeptPage) -> None:
    opened = kept_page(trained)
    page = opened.page
    whole = window(page)
    page.mouse.click(*opened.strip_point(30, 80 * MIB))
    before = view(page)
    press(page, "+", "+")
    assert window(page) != whole
    box = strips_box(page)
    page.mouse.dblclick(box["x"] + box["width"] * 0.7, box["y"] + box["height"] * 0.6)
    assert window(page) == whole
    assert view(page) == before


@pytest.mark.browser(webgl=True)
@pytest.mark.parametrize("ratio", [1, 1.5])
def test_a_context_has_the_size_of_its_place_from_the_first(
    open_page: Opener, ratio: float
) -> None:
    count = (
        "const get = HTMLCanvasElement.prototype.getContext;"
        "HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {"
        " this.drawsWith = kind; return get.call(this, kind, ...rest) };"
        "for (const name of ['width', 'height']) {"
        " const own = Object.getOwnPropertyDescriptor(HTMLCanvasElement.prototype, name);"
        " Object.defineProperty(HTMLCanvasElement.prototype, name, { ...own, set(value) {"
        " if (this.drawsWith === 'webgl2') window.resized = true;"
        " own.set.call(this, value) } }) }"
    )
    page = open_page(findings(training()), before=count, device_scale_factor=ratio).page
    sizes = """() => {
      const { width, height } = document.querySelector('.plot').getBoundingClientRect()
      const canvas = document.querySelector('canvas.picture')
      const [x, y] = [width, height].map((side) => side * devicePixelRatio)
      return Math.max(Math.abs(canvas.width - x), Math.abs(canvas.height - y))
    }"""
    assert page.locator(".plot").count() == 1
    settle(page)
    assert page.evaluate("document.querySelector('canvas.picture').drawsWith") == "webgl2"
    assert page.evaluate(sizes) <= 0.5
    assert not page.evaluate("window.resized")  # that waits for the graphics process
    page.set_viewport_size({"width": 900, "height": 700})
    page.evaluate("""new Promise((done) => {
      const look = () => (window.resized ? done() : requestAnimationFrame(look))
      look()
    })""")
    settle(page)
    assert page.evaluate(sizes) <= 0.5
