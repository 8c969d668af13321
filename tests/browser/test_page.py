"""The page in a browser: it draws, it answers, and it keeps to itself."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from playwright.sync_api import Page, expect

from snapreport.ground.units import format_bytes
from snapreport.model.findings import Findings
from snapreport.reporters.json_report import findings_as_json
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
from tests.browser.timeline_tools import NO_WEBGL, NO_WORKER, count_colours, drawn

pytestmark = pytest.mark.browser(webgl=False)

HOSTILE = "</script><img src=x onerror=alert(1)>"


def strip_colours(page: Page) -> Counter[tuple[int, ...]]:
    """How often each colour occurs among the strips."""
    return count_colours(drawn(page))


def settle(page: Page) -> None:
    """Wait until the raster of the present window is on the screen."""
    until(page, "window.snapreport.settled()")


def until(page: Page, condition: str) -> None:
    """Wait for a condition; Playwright's own wait needs eval, which the page's policy forbids."""
    for _ in range(200):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(25)
    raise AssertionError(f"never true: {condition}")


@pytest.mark.browser(webgl=True)
@pytest.mark.parametrize("before", ["", NO_WEBGL, NO_WORKER], ids=["webgl", "canvas", "no worker"])
def test_the_timeline_paints_strips_of_several_colours(open_page: Opener, before: str) -> None:
    page = open_page(findings(training()), before=before).page
    colours = strip_colours(page)
    assert len([count for count in colours.values() if count > 200]) >= 8
    assert (page.locator(".note").count() == 1) == (before == NO_WEBGL)


@pytest.mark.browser(webgl=True)
@pytest.mark.parametrize("before", ["", NO_WEBGL], ids=["webgl", "canvas"])
def test_clicking_a_strip_shows_its_call_stack(open_page: Opener, before: str) -> None:
    opened = open_page(findings(training()), before=before)
    page = opened.page
    # Layer 3 lives from event 12 to 88, on top of the baseline and the three layers below it.
    page.mouse.click(*opened.strip_point(30, (64 + 3 * 32 + 16) * MIB))
    details = page.locator(".details")
    expect(details).to_have_attribute("data-allocation", "4")
    expect(details).to_contain_text("/home/me/model.py:13")
    expect(details).to_contain_text("/home/me/train.py:7")
    expect(details).to_contain_text("32.00 MiB")
    expect(details).to_contain_text("event 12")
    expect(details).to_contain_text("76 events")
    # The call stack first; the rest is folded until it is opened, and then for the next one, too.
    assert details.locator("h4, summary").all_inner_texts()[0] == "Call stack"
    facts = details.locator("details .facts-list")
    expect(facts).to_be_hidden()
    details.get_by_text("Sizes, lifetime").click()
    expect(facts).to_be_visible()
    page.mouse.click(*opened.strip_point(30, 32 * MIB))
    expect(details).to_have_attribute("data-allocation", "0")
    expect(facts).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".legend")).to_be_visible()


def test_a_spike_of_one_event_is_the_peak_and_can_be_clicked(kept_page: KeptPage) -> None:
    opened = kept_page(trained)
    page = opened.page
    page.locator(".plot").focus()
    page.keyboard.press("p")
    settle(page)
    page.mouse.click(*opened.strip_point(50, (64 + 320 + 50) * MIB))
    expect(page.locator(".details")).to_contain_text("forward")
    expect(page.locator(".details")).to_contain_text("Freed at")


def test_keys_and_wheel_move_the_window_and_zero_shows_everything(kept_page: KeptPage) -> None:
    page = kept_page(trained).page
    window = "window.snapreport.window()"
    whole = page.evaluate(window)
    page.locator(".plot").focus()
    page.keyboard.press("+")
    closer = page.evaluate(window)
    assert closer["x1"] - closer["x0"] < whole["x1"] - whole["x0"]
    page.keyboard.press("d")
    assert page.evaluate(window)["x0"] > closer["x0"]
    page.keyboard.press("0")
    assert page.evaluate(window) == whole
    page.locator(".plot").hover()
    page.mouse.wheel(0, -300)
    until(page, f"{window}.x0 > {whole['x0']}")
    page.locator(".plot").dblclick(position={"x": 400, "y": 200})
    assert page.evaluate(window) == whole
    page.keyboard.press("?")
    expect(page.locator("dialog.help")).to_be_visible()


def test_hovering_tells_size_call_site_and_lifetime(kept_page: KeptPage) -> None:
    opened = kept_page(trained)
    opened.page.mouse.move(*opened.strip_point(60, 80 * MIB))
    tip = opened.page.locator(".tooltip")
    expect(tip).to_contain_text("32.00 MiB")
    expect(tip).to_contain_text("layer")
    expect(tip).to_contain_text("model.py:10")
    expect(tip).to_contain_text("event 0")


def test_the_figures_are_those_of_the_summary(kept_page: KeptPage) -> None:
    found = trained()
    page = kept_page(trained).page
    peak = findings_as_json(found)["devices"][0]["peak"]
    shown = page.locator(".figures dd").all_inner_texts()
    wanted = [peak[name] for name in ("allocated", "requested", "reserved", "slack", "inactive")]
    assert shown == [format_bytes(count) for count in wanted]
    exact = page.locator(".figures data").first.get_attribute("title")
    assert exact == f"{peak['allocated']:,} bytes"
    assert page.evaluate("window.snapreport.summary") == page.evaluate(
        "JSON.parse(document.getElementById('summary').textContent)"
    )


def test_the_requested_curve_can_be_stacked_instead(open_page: Opener) -> None:
    spec = DeviceSpec([Row(4 * MIB, 0, None, (USER, MAIN), block=64 * MIB)], events=10)
    page = open_page(findings(spec)).page
    before = strip_colours(page).most_common(1)
    page.locator(".segmented label", has_text="Requested").click()
    settle(page)
    assert strip_colours(page).most_common(1) != before


@pytest.mark.browser(webgl=True)
def test_devices_are_switched_between(open_page: Opener) -> None:
    small = DeviceSpec([Row(MIB, 1, None, (TORCH, USER, MAIN))], ordinal=1)
    page = open_page(findings(training(), small, default=1)).page
    expect(page.locator("article.device:visible")).to_have_count(1)
    expect(page.locator("#device-1")).to_be_visible()
    for index, value in ((0, "484.0 MiB"), (1, "1.00 MiB"), (0, "484.0 MiB")):
        page.locator(".switch a b").nth(index).click()
        page.wait_for_selector(f"html[data-ready='{index}']")
        expect(page.locator(f"#device-{index} .headline dd")).to_have_text(value)
        assert len(strip_colours(page)) > 1


def test_unused_devices_are_one_entry_that_opens(open_page: Opener) -> None:
    row = [Row(MIB, 1, 90, (("step", "train.py", 7),))]
    specs = (DeviceSpec(row if k == 1 else [], ordinal=k, reserved=0) for k in range(4))
    found = findings(*specs, default=1)
    page = open_page(found).page
    expect(page.locator(".switch a:visible")).to_have_text(["cuda:1 1.00 MiB"])
    page.get_by_text("3 unused").click()
    page.get_by_role("link", name="cuda:3").click()
    expect(page.locator("#device-3")).to_be_visible()
    other = open_page(found, "#device=2").page
    expect(other.locator(".switch a[aria-current]")).to_have_text("cuda:2 0 B")
    expect(other.locator(".switch a[aria-current]")).to_be_visible()


@pytest.mark.browser(webgl=True)
def test_the_first_picture_waits_for_no_worker_and_no_graphics_card(open_page: Opener) -> None:
    order = """
      window.order = []
      const heard = (name) => window.order.push(name)
      const get = HTMLCanvasElement.prototype.getContext
      HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
        if (kind === "webgl2") heard("context")
        return get.call(this, kind, ...rest)
      }
      const Plain = window.Worker
      window.Worker = class extends Plain {
        constructor(...given) { super(...given); heard("worker") }
      }
      const mark = performance.mark
      performance.mark = function (name) { heard(name); return mark.call(this, name) }
    """
    page = open_page(findings(training()), before=order).page
    settle(page)
    order = page.evaluate("window.order")
    told = ("first picture", "worker", "context")
    assert [each for each in order if each in told] == list(told)


@pytest.mark.parametrize("broken", [False, True], ids=["whole", "broken"])
def test_what_is_hidden_while_the_page_starts_comes_back(open_page: Opener, broken: bool) -> None:
    unpacks_nothing = "window.DecompressionStream = class { constructor() { throw Error('no') } }"
    opened = open_page(findings(training()), before=unpacks_nothing * broken, ready=not broken)
    page = opened.page
    expect(page.locator("section.sites" if broken else ".panels")).to_be_visible()
    assert page.evaluate("document.documentElement.className") == ("" if broken else "js")


@pytest.mark.browser(webgl=True)
def test_software_that_runs_webgl_is_not_asked_to_draw(open_page: Opener) -> None:
    drawn_by = "() => document.querySelector('canvas.picture').getContext('webgl2') ? 'card' : '2d'"
    assert open_page(findings(training())).page.evaluate(drawn_by) == "card"
    real = "Object.freeze(WebGL2RenderingContext.prototype)"  # which tells its own name again
    page = open_page(findings(training()), before=real).page
    settle(page)
    assert page.evaluate(drawn_by) == "2d"
    assert page.locator(".note").count() == 0  # it is the faster of the two


@pytest.mark.browser(webgl=True)
def test_a_lost_context_comes_back(open_page: Opener) -> None:
    page = open_page(findings(training())).page
    before = strip_colours(page)
    page.evaluate(
        """async () => {
          const canvas = document.querySelector("canvas.picture")
          const loser = canvas.getContext("webgl2").getExtension("WEBGL_lose_context")
          const heard = (name) => new Promise((done) => canvas.addEventListener(name, done))
          const lost = heard("webglcontextlost")
          loser.loseContext()
          await lost
          const back = heard("webglcontextrestored")
          setTimeout(() => loser.restoreContext())
          await back
          await new Promise(requestAnimationFrame)
          await new Promise(requestAnimationFrame)
        }"""
    )
    assert strip_colours(page) == before


def test_without_javascript_the_page_tells_everything_important(open_page: Opener) -> None:
    page = open_page(findings(training()), java_script_enabled=False).page
    expect(page.locator(".headline dd")).to_have_text("484.0 MiB")
    expect(page.locator(".answer")).to_be_visible()
    expect(page.locator(".static svg path.allocated")).to_be_visible()
    expect(page.locator("section.sites")).to_contain_text("layer")
    expect(page.locator("section.stages")).to_contain_text("train step")


def test_hostile_names_stay_text(open_page: Opener) -> None:
    frame = (HOSTILE, f"/tmp/{HOSTILE}.py", 1)
    spec = DeviceSpec(
        [Row(MIB, 1, 90, (frame,), free_stack=(frame,))], stages=[(HOSTILE, 0, 0, 50)]
    )
    opened = open_page(findings(spec, title=HOSTILE, notes=HOSTILE))
    page = opened.page
    page.mouse.click(*opened.strip_point(40, MIB / 2))
    expect(page.locator(".details")).to_contain_text(HOSTILE)
    expect(page.locator("[role=treegrid]")).to_contain_text(HOSTILE)
    assert page.locator("img").count() == 0
    assert page.title().startswith(HOSTILE)


def test_a_file_without_a_history_shows_its_final_state_and_no_timeline(
    open_page: Opener,
) -> None:
    rows = [Row(MIB, stack=(TORCH, USER, MAIN)), Row(3 * MIB)]
    page = open_page(findings(DeviceSpec(rows, events=1))).page
    expect(page.locator(".figures dt").first).to_contain_text("Allocated at the end")
    expect(page.locator(".headline dd")).to_have_text("4.00 MiB")
    assert page.locator(".plot, section.timeline").count() == 0
    expect(page.locator("[role=treegrid] .view .row").first).to_contain_text("4.00 MiB")
    expect(page.locator("section.sites")).to_contain_text("when the snapshot was written")
    expect(page.locator("section.sites tbody tr").nth(1)).to_contain_text("forward")


def test_an_empty_device_says_so_once(open_page: Opener) -> None:
    spec = DeviceSpec([], events=0, answer="Nothing was allocated.")
    spec.warnings = [spec.answer, "Another thing."]
    page = open_page(findings(spec)).page
    expect(page.get_by_text("Nothing was allocated.")).to_have_count(1)
    expect(page.get_by_text("Another thing.")).to_be_visible()
    assert page.locator("table").count() == 0


def test_a_device_without_an_allocator_draws(open_page: Opener) -> None:
    page = open_page(findings(DeviceSpec([Row(MIB, 1, 9, (USER, MAIN))], allocator=False))).page
    expect(page.locator(".figures dt")).to_have_text(re.compile("^Peak allocated"))
    expect(page.locator(".keys")).not_to_contain_text("reserved")
    assert len(strip_colours(page)) > 1


OOM_STACK = (TORCH, ("grow", "/home/me/model.py", 99), MAIN)


def failed() -> Findings:
    spec = training()
    spec.ooms = [(50, 700 * MIB, OOM_STACK), (70, 5 * MIB, None)]
    spec.warnings = ["Out of memory.", "Again."]
    return findings(spec)


@pytest.mark.parametrize("way", ["mark", "head", "finding"])
def test_a_failed_request_shows_its_figures_and_call_stack(kept_page: KeptPage, way: str) -> None:
    opened = kept_page(failed)
    page = opened.page
    if way == "mark":
        page.mouse.click(*opened.strip_point(50, 484 * MIB))
    elif way == "head":
        page.get_by_role("button", name="Failed at event 50").click()
    else:
        page.get_by_role("tab", name="Findings").click()
        page.get_by_role("button", name="Show its call stack").first.click()
    details = page.locator(".details[data-oom='0']")
    for text in ("700.0 MiB", "3.00 MiB", "484.0 MiB", "512.0 MiB", "event 50", "1 of 2"):
        expect(details).to_contain_text(text)
    expect(details).to_contain_text("/home/me/model.py:99")
    details.get_by_role("button", name="Next").click()
    expect(page.locator(".details[data-oom='1']")).to_contain_text("No call stack was recorded")
    page.locator(".plot").focus()
    page.keyboard.press("Escape")
    expect(page.locator(".legend")).to_be_visible()


def test_a_failed_request_without_a_timeline_opens_under_its_finding(open_page: Opener) -> None:
    spec = DeviceSpec([], events=1, ooms=[(0, 700 * MIB, OOM_STACK)], warnings=["Out of memory."])
    page = open_page(findings(spec)).page
    page.get_by_role("button", name="Show its call stack").click()
    expect(page.locator(".finding .details")).to_contain_text("/home/me/model.py:99")
    page.get_by_role("button", name="Close details").click()
    expect(page.locator(".details")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_colours_follow_the_system(open_page: Opener, scheme: str) -> None:
    page = open_page(findings(training()), color_scheme=scheme).page
    colour = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert (sum(int(part) for part in colour[4:-1].split(",")) < 200) == (scheme == "dark")


@pytest.mark.parametrize("javascript", [True, False])
def test_nothing_is_wider_than_a_telephone(open_page: Opener, javascript: bool) -> None:
    narrow = {"width": 400, "height": 800}
    found = findings(training(), DeviceSpec([Row(MIB)], ordinal=1))
    page = open_page(found, viewport=narrow, java_script_enabled=javascript).page
    width = page.locator("html").evaluate("root => root.scrollWidth") if javascript else None
    assert width in (400, None)
    for locator in (page.locator("section.peak").first, page.locator("section.timeline").first):
        box = locator.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= 400


def test_the_page_s_own_code_is_small(kept_page: KeptPage) -> None:
    opened = kept_page(trained)
    parts = re.findall(r"<(style|script)([^>]*)>(.*?)</\1>", opened.path.read_text(), re.DOTALL)
    code = sum(len(text) for _, kind, text in parts if 'id="app"' in kind or not kind)
    # The rest of the file is what it says of the recording: 152 kB for a real step of 22,000
    # events, whose page may take 320 kB in all.
    assert 100_000 < code < 167_000


def test_a_browser_that_cannot_unpack_shows_the_page_and_says_so(open_page: Opener) -> None:
    page = open_page(
        findings(training()), before="delete window.DecompressionStream", ready=False
    ).page
    expect(page.locator(".note")).to_contain_text("could not start")
    expect(page.locator("section.sites").first).to_be_visible()
