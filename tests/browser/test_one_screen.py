"""The page as one screen: only the inside of its parts scrolls, and nothing is out of reach."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

import snapreport
from snapreport.model.findings import Findings
from tests.browser.builders import MIB, DeviceSpec, Row, findings, trained, training
from tests.browser.conftest import KeptPage, Opener
from tests.browser.test_page import failed, until
from tests.browser.test_sharing import violations_in_both_schemes
from tests.browser.timeline_tools import SAMPLES, settle, view, window

pytestmark = pytest.mark.browser(webgl=False)

OOM = SAMPLES / "out_of_memory.pickle.gz"
TRAINING = SAMPLES / "training_step.pickle"
SIZES = ((1000, 600), (1000, 1000), (1440, 900), (2560, 1440))
FLOW = ((999, 900), (1440, 559), (390, 844))

# What does not fit: whether the document scrolls, and parts of the page that lie outside of it.
_OUTSIDE = """() => {
  const parts =
    ["masthead", "brief", "toolbar", "plot", "side", "handle", "moment", "tabs", "panel"]
  const found = []
  const root = document.scrollingElement
  if (root.scrollHeight > innerHeight || root.scrollWidth > innerWidth) found.push("scrolls")
  for (const name of parts) {
    const part = [...document.querySelectorAll(`.${name}`)].find((each) => each.checkVisibility())
    if (!part) { found.push(`no ${name}`); continue }
    const { left, top, right, bottom, height } = part.getBoundingClientRect()
    if (left < 0 || top < 0 || right > innerWidth || bottom > innerHeight || height < 5)
      found.push(name)
  }
  return found
}"""

# Whether parts follow one another on the screen without covering each other.
_COVERED = """() => {
  const parts = ["masthead", "brief", "live", "handle", "moment", "question-bar", "panels"]
  const boxes = parts.map((name) =>
    [...document.querySelectorAll(`.${name}`)].find((each) => each.checkVisibility()))
    .filter(Boolean).map((each) => each.getBoundingClientRect())
  return boxes.slice(1).filter((box, k) => box.top < boxes[k].bottom - 1).length
}"""


def _resize(page: Page, size: tuple[int, int]) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def noted() -> Findings:
    """Two devices, a stage, a failed request, notes and a finding about the file."""
    spec = training()
    spec.ooms = [(50, 700 * MIB, None)]
    spec.warnings = ["Out of memory."]
    small = DeviceSpec([Row(MIB, 1, 90, (("step", "/me/a.py", 1),))], ordinal=1)
    return findings(spec, small, notes="Of the author.")


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("source", [OOM, TRAINING, noted], ids=["oom", "training", "noted"])
def test_nothing_scrolls_but_the_inside_of_parts(
    kept_page: KeptPage, source: Any, size: tuple[int, int]
) -> None:
    page = kept_page(source).page
    _resize(page, size)
    assert page.evaluate(_OUTSIDE) == []
    assert page.evaluate(_COVERED) == 0
    for tab in page.get_by_role("tab").all():
        tab.click()
        assert page.evaluate(_OUTSIDE) == [], tab.inner_text()
    if size[1] >= 900:
        box = page.locator(".strips:visible").bounding_box()
        assert box is not None
        assert box["height"] > 120


@pytest.mark.parametrize("size", FLOW, ids=str)
def test_a_smaller_window_has_its_parts_in_the_flow(
    kept_page: KeptPage, size: tuple[int, int]
) -> None:
    page = kept_page(OOM).page
    page.get_by_role("tab", name="Findings").click()
    _resize(page, size)
    for part in (".headline", ".answer", ".finding", "footer"):
        expect(page.locator(part).first).to_be_visible()
        assert page.locator(f".panels {part}").count() == 0
    expect(page.locator("[data-tab=findings]")).to_be_hidden()
    expect(page.get_by_role("tab", selected=True)).to_have_text("Call stacks")
    expect(page.locator(".brief, .handle").first).to_be_hidden()
    order = page.evaluate(
        """[".peak .figures", ".plot", ".moment", ".panels", "footer"].map((each) =>
             document.querySelector(each).getBoundingClientRect().top)"""
    )
    assert order == sorted(order)
    assert page.evaluate("document.scrollingElement.scrollHeight > innerHeight")
    page.get_by_role("tab", name="Lines").click()
    page.get_by_role("tab", name="Lines").press("Home")
    expect(page.get_by_role("tab", selected=True)).to_have_text("Call stacks")
    # And back.
    until(page, "location.hash === ''")
    page.evaluate("location.hash = '#tab=findings'")
    _resize(page, (1440, 900))
    expect(page.get_by_role("tab", selected=True)).to_have_text("Findings")
    expect(page.locator(".panels .headline")).to_be_visible()
    assert page.evaluate(_OUTSIDE) == []


def test_no_part_of_the_page_is_there_twice(kept_page: KeptPage) -> None:
    page = kept_page(noted).page
    for size in ((1440, 900), (600, 900), (1440, 900)):
        _resize(page, size)
        for part, count in ((".headline", 2), ("main .notes", 1), ("footer", 1), (".finding", 1)):
            assert page.locator(part).count() == count, part


def test_the_first_tab_has_what_is_read_once(kept_page: KeptPage) -> None:
    page = kept_page(noted).page
    expect(page.locator(".headline:visible")).to_have_count(0)
    page.get_by_role("tab", name="Findings").click()
    panel = page.get_by_role("tabpanel")
    for part in (".headline", ".composition", ".answer", ".finding", ".notes", "footer"):
        expect(panel.locator(part)).to_be_visible()
    assert view(page) == {"tab": "findings"}
    page.locator(".switch a").nth(1).click()
    page.wait_for_selector("html[data-complete='1']")
    page.locator("#device-1").get_by_role("tab", name="Findings").click()
    for part in (".headline", ".answer", ".notes", "footer"):
        expect(page.locator(f"#device-1 .panels {part}")).to_be_visible()


def test_the_head_says_what_failed_and_what_to_do_and_goes_there(kept_page: KeptPage) -> None:
    page = kept_page(OOM).page
    (found,) = _out_of_memory().devices
    (oom,) = found.ooms
    head = page.locator(".brief")
    expect(head.locator(".brief-figure")).to_have_text("656.3 MiB failed request")
    expect(head.locator(".brief-said")).to_have_text(found.answer.split(". ")[0] + ".")
    request = head.get_by_role("button", name=f"Failed at event {oom.event}")
    expect(request).to_contain_text("452.0 MiB missing")
    request.click()
    expect(page.locator(".details[data-oom='0']")).to_be_in_viewport()
    expect(page.locator(".moment h2")).to_contain_text(f"event {oom.event}")
    head.get_by_role("button", name="adds up").click()
    expect(page.locator(".recording-panel .verdict")).to_be_in_viewport()
    page.locator(".finding summary").first.evaluate("each => each.parentElement.open = false")
    head.locator("[data-finding]").click()
    expect(page.locator(".finding .lead").first).to_be_in_viewport()
    expect(page.locator(".finding summary").first).to_be_focused()


def test_the_head_of_a_recording_without_a_failure_is_its_peak(kept_page: KeptPage) -> None:
    page = kept_page(TRAINING).page
    head = page.locator(".brief")
    expect(head.locator(".brief-figure")).to_have_text("4.45 GiB peak allocated")
    expect(head.locator("[data-finding]")).to_contain_text("frees about 1.79 GiB")
    expect(head.locator("[data-oom]")).to_have_count(0)


def test_a_failure_that_the_program_survived_leaves_the_peak_in_the_head(
    open_page: Opener,
) -> None:
    found = failed()
    (device,) = found.devices
    mild = [replace(each, severity="warning") for each in device.diagnosis.findings]
    device = replace(device, diagnosis=replace(device.diagnosis, findings=tuple(mild)))
    page = open_page(replace(found, devices=(device,))).page
    expect(page.locator(".brief-figure")).to_have_text("484.0 MiB peak allocated")
    expect(page.get_by_role("button", name="Failed at event 50")).to_be_visible()


@pytest.mark.parametrize(
    ("verdict", "says"),
    [
        ("doubtful", "✗ does not add up"),
        ("earlier", "? the peak may be earlier"),
        ("later", "? the peak may be later"),
        ("window", "✓ no contradiction"),
    ],
)
def test_the_head_says_what_is_wrong_with_the_recording(
    open_page: Opener, verdict: Any, says: str
) -> None:
    found = findings(training())
    (device,) = found.devices
    trust = replace(device.trust, verdict=verdict)
    page = open_page(replace(found, devices=(replace(device, trust=trust),))).page
    expect(page.locator(".brief [data-opens=recording]")).to_have_text(says)


def test_pointing_and_reading_take_no_scrolling(kept_page: KeptPage) -> None:
    opened = kept_page(trained)
    page = opened.page
    for event, layer in ((30, 3), (60, 5)):
        page.mouse.click(*opened.strip_point(event, (64 + layer * 32 + 16) * MIB))
        expect(page.locator(".details")).to_be_in_viewport()
        expect(page.locator(".moment h2")).to_contain_text(f"event {event}")
        expect(page.locator("[role=treegrid] .view .row").first).to_be_in_viewport()
        assert page.evaluate("scrollY") == 0


def test_the_handle_shares_the_height(open_page: Opener) -> None:
    opened = open_page(findings(training()))
    page = opened.page
    handle = page.get_by_role("separator", name="Height of the timeline")

    def height() -> float:
        box = page.locator(".plot").bounding_box()
        assert box is not None
        return box["height"]

    usual = height()
    handle.focus()
    page.keyboard.press("ArrowDown")
    taller = height()
    assert taller > usual + 20
    settle(page)
    assert "y1" in window(page)
    page.keyboard.press("Home")
    assert height() < usual
    box = handle.bounding_box()
    assert box is not None
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(*middle)
    page.mouse.down()
    page.mouse.move(middle[0], middle[1] + 300, steps=4)
    page.mouse.up()
    dragged = height()
    assert dragged > usual
    value = handle.get_attribute("aria-valuenow")
    page.reload()
    page.wait_for_selector("html[data-complete]")
    assert abs(height() - dragged) < 2
    assert handle.get_attribute("aria-valuenow") == value
    handle.dblclick()
    assert abs(height() - usual) < 2
    page.keyboard.press("End")
    assert page.evaluate(_OUTSIDE) == []


def test_lists_fill_the_room_that_there_is(kept_page: KeptPage) -> None:
    page = kept_page(TRAINING).page
    for tab in ("stacks", "lines", "live", "stages", "events"):
        page.locator(f".tabs [data-tab={tab}]").click()
        rows = page.locator(".panel .list .view:visible")
        for size in ((1440, 900), (1000, 600)):
            _resize(page, size)
            box = rows.bounding_box()
            assert box is not None
            assert box["height"] > 60, (tab, size)
            assert box["y"] + box["height"] <= size[1], (tab, size)
        # Its end can be reached.
        page.locator(".panel .list:visible").focus()
        page.keyboard.press("End")
        last = page.locator(".panel .list [aria-selected=true]:visible")
        expect(last).to_be_in_viewport(ratio=0.5)  # it is wider than the list


@pytest.mark.parametrize("tab", ["findings", "stacks", "live", "allocator", "events", "recording"])
def test_large_text_leaves_nothing_out_of_reach(kept_page: KeptPage, tab: str) -> None:
    page = kept_page(OOM).page
    _resize(page, (1440, 900))
    page.locator(f".tabs [data-tab={tab}]").click()
    page.evaluate("document.documentElement.style.fontSize = '29px'")  # twice as large
    try:
        assert page.evaluate(_COVERED) == 0
        for part in (
            ".brief-do button",
            ".plot",
            ".handle",
            ".moment-go input",
            ".tabs [role=tab]",
        ):
            for each in page.locator(part).all():
                each.scroll_into_view_if_needed()
                expect(each).to_be_in_viewport()
        last = {"findings": "footer summary", "recording": ".about .pairs > div"}.get(tab, ".list")
        rows = page.locator(f".panel {last}:visible").last
        rows.scroll_into_view_if_needed()
        expect(rows).to_be_in_viewport()
        if tab in ("stacks", "live", "events"):
            rows.focus()
            page.keyboard.press("End")
            expect(page.locator(".list [aria-selected=true]:visible")).to_be_in_viewport()
    finally:
        page.evaluate("document.documentElement.style.fontSize = ''")


def test_devices_have_room_in_the_head_and_scroll_inside(open_page: Opener) -> None:
    row = [Row(MIB, 1, 90, (("step", "train.py", 7),))]
    page = open_page(findings(*(DeviceSpec(row, ordinal=k) for k in range(40)))).page
    box = page.locator(".switch").bounding_box()
    assert box is not None
    assert box["height"] <= 0.31 * 900
    assert page.evaluate("document.scrollingElement.scrollHeight <= innerHeight")
    page.locator(".switch a").nth(39).click()
    expect(page.locator("#device-39")).to_be_visible()


def test_pages_without_a_history_or_with_nothing_fit_too(open_page: Opener) -> None:
    page = open_page(_state_only()).page
    assert page.evaluate("document.scrollingElement.scrollHeight <= innerHeight")
    expect(page.locator(".brief-figure")).to_contain_text("allocated at the end")
    expect(page.locator("[role=treegrid] .view .row").first).to_be_in_viewport()
    empty = DeviceSpec([], events=0, ordinal=1)
    page = open_page(findings(training(), empty)).page
    page.locator(".switch a").nth(1).click()
    part = page.locator("#device-1")
    expect(part.locator(".headline")).to_be_visible()  # in the flow: there are no tabs
    page.locator(".switch a").nth(0).click()
    expect(page.locator("#device-0 .brief")).to_be_visible()
    assert page.evaluate(_OUTSIDE) == []


def _state_only() -> Findings:
    return snapreport.load(SAMPLES / "state_only.pickle").findings()


@pytest.mark.parametrize("tab", ["findings", "stacks"])
def test_paper_has_everything_from_one_screen(open_page: Opener, tab: str) -> None:
    page = open_page(noted(), f"#tab={tab}", viewport={"width": 1440, "height": 900}).page
    pages = page.pdf().count(b"/Type /Page\n")
    assert pages >= 2
    expect(page.locator(".tabs [data-tab=findings]").first).to_be_visible()
    until(page, "document.querySelectorAll('.panels .notes').length === 1")
    page.emulate_media(media="print")
    for device in (0, 1):
        for part in (".headline", ".answer", ".still-curves", ".sites"):
            expect(page.locator(f"#device-{device} {part}").first).to_be_visible()
    for part in ("main > .notes", "#device-0 > .top .finding", "body > footer"):
        expect(page.locator(part).first).to_be_visible()
    for part in (".brief", ".handle", ".panels", ".moment"):
        expect(page.locator(part).first).to_be_hidden()
    assert page.evaluate("document.scrollingElement.scrollHeight > innerHeight")
    page.emulate_media(media="screen")
    expect(page.locator(f".tabs [data-tab={tab}]").first).to_have_attribute("aria-selected", "true")
    until(page, "document.querySelectorAll('.panels .notes').length === 1")
    assert page.evaluate(_OUTSIDE) == []


def test_without_javascript_the_page_reads_in_the_flow(open_page: Opener) -> None:
    page = open_page(
        failed(), java_script_enabled=False, viewport={"width": 1440, "height": 900}
    ).page
    for part in (".headline", ".answer", ".finding", "section.sites", "footer"):
        expect(page.locator(part).first).to_be_visible()
    expect(page.locator(".brief")).to_be_hidden()


def test_a_page_that_cannot_start_reads_in_the_flow(open_page: Opener) -> None:
    page = open_page(failed(), before="delete window.DecompressionStream", ready=False).page
    expect(page.locator(".note").first).to_be_visible()
    for part in (".headline", ".answer", ".finding", "section.sites", "footer"):
        expect(page.locator(part).first).to_be_visible()


def test_a_page_whose_tabs_cannot_be_made_reads_in_the_flow(
    open_page: Opener, tmp_path: Path
) -> None:
    whole = open_page(failed()).path.read_text(encoding="utf-8")
    broken = tmp_path / "broken.html"
    broken.write_text(re.sub(r'(id="later">).*?<', r"\1AAAA<", whole, flags=re.DOTALL), "utf-8")
    page = open_page(broken, ready=False)
    expect(page.page.locator(".failure-notice")).to_be_visible()
    for part in (".headline", ".answer", ".finding", ".plot", "section.sites", "footer"):
        expect(page.page.locator(part).first).to_be_visible()
    page.errors.clear()


def test_a_small_curve_stays_in_sight_where_the_page_scrolls(kept_page: KeptPage) -> None:
    page = kept_page(trained).page
    _resize(page, (390, 844))
    strip = page.locator(".curve-strip")
    expect(strip).to_be_hidden()
    page.locator(".panels").evaluate("each => each.scrollIntoView()")
    expect(strip).to_be_visible()
    box = strip.bounding_box()
    assert box is not None
    assert box["y"] == 0
    assert 40 <= box["height"] <= 56
    assert (box["x"], box["width"]) == (0, 390)
    expect(strip).to_contain_text("484.0 MiB at the peak")
    page.mouse.click(box["x"] + 0.6 * box["width"], box["y"] + 20)
    event = int(view(page)["event"])
    assert 55 <= event <= 65
    expect(page.locator(".moment-title")).to_contain_text(f"event {event}")
    total = page.locator("[data-total=allocated] dd").inner_text()
    expect(strip).to_contain_text(f"{' '.join(total.split()[:2])} at event {event}")
    expect(strip).to_have_attribute("aria-valuenow", str(event))
    strip.focus()
    page.keyboard.press("ArrowRight")
    assert int(view(page)["event"]) == event + 1
    assert violations_in_both_schemes(page, ".curve-strip") == []
    page.evaluate("scrollTo(0, 0)")
    expect(strip).to_be_hidden()
    _resize(page, (1440, 900))
    expect(strip).to_be_hidden()


@pytest.mark.parametrize("tab", ["findings", "stacks"])
def test_one_screen_keeps_nobody_out(open_page: Opener, tab: str) -> None:
    page = open_page(noted(), f"#tab={tab}", viewport={"width": 1440, "height": 900}).page
    assert violations_in_both_schemes(page) == []


def test_tab_alone_reaches_every_part(open_page: Opener) -> None:
    page = open_page(noted(), viewport={"width": 1440, "height": 900}).page
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        at = page.evaluate(
            """[".brief", ".toolbar", ".plot", ".side", ".handle", ".moment", ".tabs",
                ".share", ".panel"].find((each) => document.activeElement.closest(each)) ?? "" """
        )
        if at and at not in reached:
            reached.append(at)
    assert reached == [
        ".brief",
        ".toolbar",
        ".plot",
        ".side",
        ".handle",
        ".moment",
        ".tabs",
        ".share",
        ".panel",
    ]


@pytest.mark.browser(webgl=True)
def test_the_height_of_the_picture_is_settled_before_it_is_drawn(open_page: Opener) -> None:
    """What comes after the first picture must not make it anew."""
    heights = """
      window.heights = []
      const mark = performance.mark
      performance.mark = function (name) {
        const plot = document.querySelector(".plot")
        if (name === "first picture") window.heights.push(plot.clientHeight)
        return mark.call(this, name)
      }
    """
    for size in (*SIZES, FLOW[2]):
        viewport = {"width": size[0], "height": size[1]}
        page = open_page(_out_of_memory(), before=heights, viewport=viewport).page
        settle(page)
        assert page.evaluate("window.heights") == [
            page.locator(".plot").evaluate("e => e.clientHeight")
        ]


def _out_of_memory() -> Findings:
    return snapreport.load(OOM).findings()


@pytest.mark.parametrize("viewport", [(1280, 800), (1920, 1080)])
def test_the_still_picture_is_where_the_timelines_takes_its_place(
    open_page: Opener, viewport: tuple[int, int]
) -> None:
    width, height = viewport
    page = open_page(findings(training()), viewport={"width": width, "height": height}).page
    box = page.locator(".strips").bounding_box()
    page.evaluate("""() => {
      document.documentElement.classList.add("starting")
      document.querySelector(".static").classList.remove("covered")
      document.querySelector(".live").remove()
    }""")
    still = page.locator(".still-plot").bounding_box()
    assert box
    assert still
    for name in ("x", "y", "width", "height"):
        assert abs(box[name] - still[name]) <= 6, (name, box, still)  # fonts are whole pixels there


def test_nothing_is_made_before_the_first_picture_is_on_the_screen(open_page: Opener) -> None:
    noted = """
      window.order = []
      const mark = performance.mark
      performance.mark = function (name) {
        const made = document.querySelector(".panels, .legend") !== null
        if (["first picture", "on screen"].includes(name)) window.order.push([name, made])
        return mark.call(this, name)
      }
    """
    page = open_page(findings(training()), before=noted).page
    assert page.evaluate("window.order") == [["first picture", False], ["on screen", False]]
    expect(page.locator(".legend")).to_be_visible()
