"""Links, copies, paper, colours and access: what lets others see what one saw."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Page, expect

from snapreport.ground.units import format_bytes
from snapreport.reporters.json_report import findings_as_json
from tests.browser.builders import MIB, DeviceSpec, Row, findings, trained, training
from tests.browser.conftest import KeptPage, Opener, OpenPage
from tests.browser.listing import address, frames
from tests.browser.test_page import HOSTILE, settle, until
from tests.browser.timeline_tools import count_colours, drawn
from tests.corpus import findings_of
from tests.thorough import IN_FULL

pytestmark = pytest.mark.browser(webgl=False)

_ROOT = Path(__file__).parents[2]
_SAMPLES = _ROOT / "sample_snapshots"
_AXE = _ROOT / "templates" / "node_modules" / "axe-core" / "axe.min.js"
_SCHEMES: tuple[Literal["dark"], Literal["light"]] = ("dark", "light")
_COPIED = """() => {
  window.copied = []
  navigator.clipboard.writeText = async (text) => copied.push(text)
}"""


def test_the_view_lives_in_the_address_and_comes_back(kept_page: KeptPage) -> None:
    opened = kept_page(trained)
    page = opened.page
    page.locator(".plot").focus()
    page.keyboard.press("+")
    page.get_by_role("tab", name="Recording").click()
    page.get_by_label("Event", exact=True).fill("30")
    page.keyboard.press("Enter")
    until(page, "location.hash.includes('event=30')")
    window = page.evaluate("window.snapreport.window()")
    link = address(page)
    assert link.endswith(page.evaluate("window.snapreport.link()"))
    again = reopen(opened, link)
    expect(again.get_by_role("tab", name="Recording")).to_have_attribute("aria-selected", "true")
    expect(again.locator(".moment h2")).to_contain_text("event 30")
    restored = again.evaluate("window.snapreport.window()")
    assert restored == pytest.approx(window, rel=1e-6)


def test_a_link_survives_a_new_report_of_the_same_file(open_page: Opener) -> None:
    first = open_page(findings(training(), title="one"))
    first.page.mouse.click(*first.strip_point(30, (64 + 3 * 32 + 16) * MIB))
    expect(first.page.locator(".details")).to_have_attribute("data-allocation", "4")
    until(first.page, "location.hash.includes('allocation=4')")
    fragment = address(first.page).split("#")[1]
    second = open_page(findings(training(), title="two"))
    page = reopen(second, f"{second.path.as_uri()}#{fragment}")
    expect(page.locator(".details")).to_have_attribute("data-allocation", "4")


def test_a_link_names_its_device_and_an_older_view_is_followed_at_once(open_page: Opener) -> None:
    found = findings(training(), DeviceSpec([Row(MIB, 2, 50)], ordinal=1))
    opened = open_page(found)
    page = opened.page
    page.locator(".switch a b").nth(1).click()
    until(page, "location.hash === '#device=1'")
    page.evaluate("location.hash = '#event=12'")
    expect(page.locator("#device-0 .moment h2")).to_contain_text("event 12")
    expect(page.locator("#device-1")).to_be_hidden()
    expect(page.locator(".switch a").nth(0)).to_have_attribute("aria-current", "true")


_ALL_AT_ONCE = "event=999999&allocation=-7&oom=3&tab=nothing&colour=x&device=9"


@pytest.mark.parametrize(
    "fragment",
    [
        "event=999999",
        "view=5,1,0,0",
        "allocation=-7&oom=3",
        "tab=nothing&colour=x",
        "device=9",
        "%",
        _ALL_AT_ONCE,
    ],
)
def test_a_link_that_makes_no_sense_shows_the_page(
    open_page: Opener, kept_page: KeptPage, fragment: str
) -> None:
    page = linked(open_page, kept_page, fragment, load=fragment in ("%", _ALL_AT_ONCE))
    expect(page.locator(".moment h2")).to_contain_text("at the peak")
    expect(page.get_by_role("tab", name="Call stacks")).to_have_attribute("aria-selected", "true")


def linked(open_page: Opener, kept_page: KeptPage, fragment: str, *, load: bool) -> Page:
    """The page at a link: loaded with it, or following it from another view.

    To follow is a fraction of the work; some are loaded all the same.
    """
    if load or IN_FULL:
        return open_page(trained(), f"#{fragment}").page
    page = kept_page(trained).page
    for each in ("event=30&tab=lines", fragment):
        page.evaluate("hash => { location.hash = hash }", each)
        frames(page)
    return page


def test_the_moment_shows_the_curves_of_any_event(kept_page: KeptPage) -> None:
    found = findings_of(_SAMPLES / "training_step.pickle")
    device = found.devices[0]
    page = kept_page(_SAMPLES / "training_step.pickle").page
    for event in (-1, 0, 200, device.peak.event, device.history.events - 1):
        page.get_by_label("Event", exact=True).fill(str(event))
        page.keyboard.press("Enter")
        for curve in ("allocated", "requested", "reserved"):
            wanted = f"{int(device.curves[curve][event + 1]):,} bytes"
            total = page.locator(f"[data-total={curve}] dd")
            expect(total).to_have_attribute("title", wanted)


def test_a_moment_is_copied_as_markdown(kept_page: KeptPage) -> None:
    found = findings_of(_SAMPLES / "training_step.pickle")
    page = kept_page(_SAMPLES / "training_step.pickle").page
    page.evaluate(_COPIED)
    page.get_by_role("button", name="Copy as Markdown").click()
    until(page, "copied.length === 1")
    text: str = page.evaluate("copied[0]")
    peak = found.devices[0].peak
    assert f"{format_bytes(peak.allocated)} allocated in {peak.live} allocations" in text
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == 11
    for row, site in zip(rows[:-1], found.devices[0].sites, strict=False):
        assert row.startswith(f"| {format_bytes(site.bytes)} |")
        assert f"`{site.name}`" in row


def test_a_call_stack_is_copied_as_text(kept_page: KeptPage) -> None:
    opened = kept_page(trained)
    page = opened.page
    page.evaluate(_COPIED)
    page.mouse.click(*opened.strip_point(30, (64 + 3 * 32 + 16) * MIB))
    page.locator(".details .stack").first.get_by_role("button", name="Copy").click()
    until(page, "copied.length === 1")
    lines: list[str] = page.evaluate("copied[0]").split("\n")
    assert "/home/me/model.py:13" in "\n".join(lines)
    assert lines[-1].endswith("(/home/me/train.py:7)")


def test_the_switch_turns_the_colours_and_is_remembered(open_page: Opener) -> None:
    opened = open_page(findings(training()), color_scheme="light")
    page = opened.page

    def darkness() -> int:
        colour = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        return sum(int(part) for part in re.findall(r"\d+", colour))

    assert darkness() > 700
    page.get_by_role("button", name="Dark colours").click()
    assert darkness() < 100
    page.reload()
    page.wait_for_selector("html[data-complete]")
    assert darkness() < 100
    page.get_by_role("button", name="Light colours").click()
    assert darkness() > 700


def test_paper_has_the_summary_the_picture_and_the_tables(open_page: Opener) -> None:
    page = open_page(findings(training()), color_scheme="dark").page
    page.emulate_media(media="print")
    for part in (
        ".headline",
        ".still-curves",
        ".static .bands",
        ".still-marks text.peak",
        "section.sites",
        "section.stages",
        "section.facts",
    ):
        expect(page.locator(part).first).to_be_visible()
    for part in (".live", ".panels", ".moment", ".theme"):
        expect(page.locator(part).first).to_be_hidden()
    colour = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert colour == "rgb(255, 255, 255)"


def test_a_device_has_its_findings_once_it_is_opened_and_on_paper_before_that(
    open_page: Opener,
) -> None:
    others = [DeviceSpec([Row(MIB, 2, 50)], ordinal=k, warnings=[f"Explained {k}"]) for k in (1, 2)]
    page = open_page(findings(training(), *others)).page
    second, third = (page.locator(f"#device-{k}") for k in (1, 2))
    expect(second.locator(".folded-part")).to_have_count(2)
    page.locator('.switch a[data-device="1"]').click()
    page.wait_for_selector("html[data-complete='1']")
    expect(second.locator(".folded-part")).to_have_count(0)
    expect(second.locator("section.findings")).to_contain_text("Explained 1")
    expect(second.locator(".still section.trust")).to_have_count(1)
    page.locator('article:not([hidden]) [role="tab"]', has_text="Recording").click()
    expect(second.locator(".recording-panel section.trust")).to_be_visible()
    expect(third.locator(".folded-part")).to_have_count(2)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    expect(third.locator(".folded-part")).to_have_count(0)
    expect(third.locator("section.findings")).to_contain_text("Explained 2")
    expect(third.locator("section.trust")).to_be_visible()


def test_without_its_script_a_page_says_what_is_packed(open_page: Opener) -> None:
    other = DeviceSpec([Row(MIB, 2, 50)], ordinal=1, warnings=["Explained"])
    page = open_page(findings(training(), other), java_script_enabled=False).page
    article = page.locator("#device-1")
    for part in (".headline", ".answer", ".still-curves", "section.sites", "section.facts"):
        expect(article.locator(part).first).to_be_visible()
    expect(article.locator(".folded-part").first).to_contain_text("Findings: Odd.")
    expect(article.locator(".folded-part").last).to_contain_text("You can trust the figures.")


def test_a_page_that_cannot_start_unpacks_what_explains_the_other_devices(
    open_page: Opener,
) -> None:
    other = DeviceSpec([Row(MIB, 2, 50)], ordinal=1, warnings=["Explained"])
    broken = "JSON.parse = () => { throw new Error('broken') }"
    opened = open_page(findings(training(), other), before=broken, ready=False)
    page = opened.page
    expect(page.locator("main > .note")).to_contain_text("could not start")
    expect(page.locator("#device-1 section.findings")).to_contain_text("Explained")
    (error,) = opened.errors
    assert error.startswith("Error: broken")
    opened.errors.clear()


def test_paper_has_the_groups_colours_and_begins_with_the_device_that_opened(
    open_page: Opener,
) -> None:
    small = DeviceSpec([Row(MIB, 2, 50, (("step", "/me/a.py", 1),))], ordinal=1)
    page = open_page(findings(small, training(), default=1), color_scheme="dark").page
    first = page.locator("article.device").first
    expect(first).to_have_attribute("data-device", "1")
    settle(page)
    strips = {colour for colour, pixels in count_colours(drawn(page)).items() if pixels > 200}
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    printed = first.locator(".printed")
    expect(printed).to_be_visible()
    expect(first.locator(".still-curves")).to_be_hidden()
    colours = page.evaluate(_COLOURS)
    assert colours[0] == [255, 255, 255]  # paper, on a dark screen, too
    assert len(colours) >= len(strips)
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(printed).to_have_count(0)
    assert page.evaluate("document.documentElement.dataset.theme ?? null") is None


# The colours of many pixels of the printed picture, the commonest first.
_COLOURS = """() => {
  const canvas = document.querySelector(".printed")
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height)
  const counts = new Map()
  for (let k = 0; k < data.length; k += 4) {
    const key = `${data[k]},${data[k + 1]},${data[k + 2]}`
    counts.set(key, (counts.get(key) ?? 0) + 1)
  }
  return [...counts].filter(([, n]) => n > 800).sort((a, b) => b[1] - a[1])
    .map(([key]) => key.split(",").map(Number))
}"""


def test_paper_has_every_devices_summary_each_on_a_page_of_its_own(open_page: Opener) -> None:
    small = DeviceSpec([Row(MIB, 2, 50, ((HOSTILE, "/me/a.py", 1),))], ordinal=1)
    found = findings(training(), small, DeviceSpec([Row(2 * MIB, 1, 9)], ordinal=2))
    page = open_page(found).page
    page.locator(".switch a b").nth(1).click()
    names = page.locator(".device-name")
    expect(names.first).to_be_hidden()
    page.emulate_media(media="print")
    expect(names).to_have_text([str(device.device) for device in found.devices])
    for place, device in enumerate(found.devices):
        article = page.locator(f"#device-{place}")
        expect(article.locator(".headline")).to_contain_text(format_bytes(device.peak.allocated))
        for part in (
            ".device-name",
            ".composition",
            ".still-curves",
            ".still-marks circle",
            ".sites",
        ):
            expect(article.locator(part).first).to_be_visible()
        expect(article.locator(".sites tbody tr")).to_have_count(len(device.sites))
        expect(article.locator(".facts").first).to_be_visible(visible=place == 1)  # the open one
        expect(article.locator(".live:visible, .panels:visible")).to_have_count(0)
    assert page.pdf().count(b"/Type /Page\n") >= 3
    page.emulate_media(media="screen")
    for place in range(3):
        expect(page.locator(f"#device-{place}")).to_be_visible(visible=place == 1)


def test_stages_are_grouped_and_lead_into_the_timeline(kept_page: KeptPage) -> None:
    found = findings_of(_SAMPLES / "training_step.pickle")
    stages = found.devices[0].stages
    page = kept_page(_SAMPLES / "training_step.pickle").page
    page.get_by_role("tab", name="Stages").click()
    rows = page.locator(".stages-list [data-row]")
    expect(rows.first).to_contain_text("ProfilerStep#*")
    rows.first.click()
    second = next(stage for stage in stages if stage.name == "ProfilerStep#1")
    row = page.locator(".stages-list [data-stage]").nth(1)
    for value in (second.start_bytes, second.peak_bytes, second.end_bytes, second.allocated_bytes):
        assert value is not None
        expect(row).to_contain_text(format_bytes(value))
    row.click()
    settle(page)
    window = page.evaluate("window.snapreport.window()")
    assert window["x0"] < second.start_event < second.end_event <= window["x1"]
    assert window["x1"] - window["x0"] < 1.2 * (second.end_event - second.start_event)
    expect(page.get_by_label("Event", exact=True)).to_have_value(str(second.peak_event))


def test_scripts_read_the_summary_without_a_browser(kept_page: KeptPage) -> None:
    found = findings_of(_SAMPLES / "training_step.pickle")
    text = kept_page(_SAMPLES / "training_step.pickle").path.read_text(encoding="utf-8")
    block = re.search(r'<script type="application/json" id="summary">(.*?)</script>', text, re.S)
    assert block is not None
    read: dict[str, Any] = json.loads(block[1])
    whole = findings_as_json(found)
    assert read["devices"][0]["peak"] == whole["devices"][0]["peak"]
    assert read["source"] == whole["source"]


def _hostile() -> DeviceSpec:
    frame = (HOSTILE, f"/tmp/{HOSTILE}.py", 1)
    return DeviceSpec([Row(MIB, 1, 90, (frame,))], stages=[(HOSTILE, 0, 0, 50)])


@pytest.mark.parametrize("kind", ["training", "devices", "stateonly", "empty"])
def test_nothing_keeps_anybody_out(open_page: Opener, kept_page: KeptPage, kind: str) -> None:
    small = DeviceSpec([Row(MIB, 2, 50)], ordinal=1)
    found = {
        "devices": findings(training(), small, _hostile()),
        "stateonly": findings(DeviceSpec([Row(MIB)], events=1)),
        "empty": findings(DeviceSpec([], events=0)),
    }
    page = (open_page(found[kind]) if kind in found else kept_page(trained)).page
    tabs = page.get_by_role("tab")
    names = [name for name in tabs.all_inner_texts() if name]
    wrong = {"": violations_in_both_schemes(page)}
    # Of the whole page, a tab changes the tabs and the panel below them. Of several devices the
    # page shows the panels of one.
    for name in names if IN_FULL or kind != "devices" else ():
        page.get_by_role("tab", name=name, exact=True).click()
        wrong[name] = violations_in_both_schemes(page, ".panels")
    assert not any(wrong.values()), wrong


def violations_in_both_schemes(page: Page, part: str = "html") -> list[str]:
    """The violations in dark and in light colours, each with its scheme before it."""
    found = []
    for scheme in _SCHEMES:
        page.emulate_media(color_scheme=scheme)
        frames(page)
        dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
        assert dark == (scheme == "dark")
        # Colours are all that another scheme changes.
        rules = None if scheme == _SCHEMES[0] else ["color-contrast", "link-in-text-block"]
        found += [f"{scheme}: {line}" for line in violations(page, part, rules)]
    return found


def violations(page: Page, part: str = "html", rules: list[str] | None = None) -> list[str]:
    """What axe-core calls serious or critical in a part of a page, WCAG 2.1 AA included.

    ``rules``: of all of those, the only ones to apply.
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate(_AXE.read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = page.evaluate(
        """async ([part, rules]) => (await axe.run(part, {
          resultTypes: ["violations"],
          runOnly: rules ?? ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"],
        })).violations""",
        [part, rules],
    )
    return [
        f"{rule['id']}: {rule['help']}: {node['html'][:200]} {node.get('failureSummary', '')}"
        for rule in found
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"][:3]
    ]


def reopen(opened: OpenPage, link: str) -> Page:
    """Open an address in another tab: a change of the fragment alone loads nothing."""
    context = opened.page.context
    others = [page for page in context.pages if page is not opened.page]
    if others:
        (page,) = others
        page.goto("about:blank")
    else:
        page = context.new_page()
        page.on("pageerror", lambda error: opened.errors.append(str(error)))
    page.goto(link)
    page.wait_for_selector("html[data-complete]")
    return page
