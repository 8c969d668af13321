"""What a link holds of the panel of call stacks, and what becomes of links that do not fit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect

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
from tests.browser.listing import address, fragment
from tests.browser.test_page import until
from tests.browser.test_sharing import linked, reopen
from tests.browser.test_stacks import selected, tree_of
from tests.browser.timeline_tools import colours
from tests.thorough import IN_FULL

pytestmark = pytest.mark.browser(webgl=False)


def _top_of_trail(page: Page) -> str:
    return page.locator(".trail [aria-current]").inner_text()


def test_mode_frames_and_focus_of_call_stacks_come_back(kept_page: KeptPage) -> None:
    opened = kept_page(trained)
    page = opened.page
    page.get_by_label("Hide library-internal frames").uncheck()
    page.get_by_role("button", name="Expand all").click()
    tree_of(page).locator(".view .row", has_text="layer").nth(2).click()
    page.keyboard.press("f")
    top = _top_of_trail(page)
    page.get_by_text("Flame", exact=True).click()
    fragment(page, "stacks=flame")
    fragment(page, "focus=")
    again = reopen(opened, address(page))
    expect(again.get_by_role("tree")).to_be_visible()
    expect(again.get_by_label("Hide library-internal frames")).not_to_be_checked()
    expect(again.locator(".trail [aria-current]")).to_have_text(top)
    until(again, f"location.hash === {page.evaluate('location.hash')!r}")
    again.get_by_role("button", name="Back", exact=False).first.click()
    expect(again.locator(".trail")).to_be_hidden()
    until(again, "!location.hash.includes('focus')")


def test_going_back_shows_the_call_stacks_as_they_were(open_page: Opener) -> None:
    page = open_page(trained()).page
    page.evaluate("location.hash = '#stacks=up'")
    expect(page.get_by_label("Bottom-up")).to_be_checked()
    page.evaluate("location.hash = '#stacks=flame&frames=all&focus=1'")
    expect(page.get_by_role("radio", name="Flame")).to_be_checked()
    expect(page.locator(".trail [aria-current]")).to_have_text("<module> train.py:7")
    page.go_back()
    expect(page.get_by_label("Bottom-up")).to_be_checked()
    expect(page.get_by_label("Hide library-internal frames")).to_be_checked()
    expect(page.locator(".trail")).to_be_hidden()
    page.go_forward()
    expect(page.get_by_role("radio", name="Flame")).to_be_checked()
    page.go_back()
    page.go_back()
    expect(page.get_by_label("Top-down")).to_be_checked()


# The page writes its address a quarter of a second after a key: here just after a link was
# followed, and before the page hears of that.
_FOLLOWED_LATE = """(hash) => {
  const key = new KeyboardEvent("keydown", { key: "+", bubbles: true })
  document.querySelector(".plot").dispatchEvent(key)
  return new Promise((done) => setTimeout(() => {
    location.hash = hash
    for (const until = performance.now() + 30; performance.now() < until; );
    setTimeout(done, 400)
  }, 245))
}"""


def test_a_link_followed_as_the_page_writes_its_own_is_not_lost(kept_page: KeptPage) -> None:
    page = kept_page(trained).page
    for event in range(10, 18 if IN_FULL else 13):
        page.evaluate(_FOLLOWED_LATE, f"#event={event}")
        expect(page.locator(".moment h2")).to_contain_text(f"event {event}")
        until(page, f"location.hash === '#event={event}'")


def test_a_selection_of_one_order_and_the_sight_of_another_both_come_back(
    kept_page: KeptPage,
) -> None:
    opened = kept_page(trained)
    page = opened.page
    page.get_by_text("Bottom-up").click()
    tree_of(page).locator(".view .row", has_text="forward").click()
    fragment(page, "selected=stacks:up-")
    assert "stacks=up&" not in address(page)  # the selection says so
    page.get_by_text("Top-down").click()
    fragment(page, "stacks=down")
    again = reopen(opened, address(page))
    expect(again.get_by_label("Top-down")).to_be_checked()
    until(again, f"location.hash === {page.evaluate('location.hash')!r}")
    again.get_by_text("Bottom-up").click()
    until(again, "!location.hash.includes('stacks=down')")


def test_a_pinned_allocation_outside_of_a_links_focus_leaves_it(kept_page: KeptPage) -> None:
    opened = kept_page(trained)
    page = opened.page
    tree_of(page).locator(".view .row", has_text="layer").nth(2).click()
    label = selected(page).locator(".frame").inner_text()
    page.keyboard.press("f")
    fragment(page, "focus=")
    focus = address(page).split("focus=")[1].split("&")[0]
    again = reopen(opened, f"{opened.path.as_uri()}#allocation=0&focus={focus}")
    expect(again.locator(".trail [aria-current]")).to_have_text(label)


@pytest.mark.parametrize(
    ("typed", "left"),
    [
        ("colour=nothing&without=0", ""),
        ("colour=pool", ""),  # one pool made all: the page offers no such colouring
        ("colour=size&without=site:0,77,-1,1", "#colour=size&without=site:0-1"),
        ("colour=size&only=size:77", "#colour=size"),
        ("without=site:99;nothing:1;pool:0", ""),
        ("a=1e9&b=30&ask=nothing", "#b=30"),
        ("ask=made&c=3", "#c=3"),
        ("tab=nothing&search=layer", ""),
        ("tab=lines&search=layer", "#tab=lines&search=layer"),
        ("stacks=sideways&frames=some&focus=99999", ""),
        ("stacks=flame&focus=-3", "#stacks=flame"),
        ("selected=stacks:down-99999", ""),
        ("selected=nothing:1", ""),
        ("event=30&allocation=99&oom=1", "#event=30"),
    ],
)
def test_the_address_shows_what_the_page_does(
    open_page: Opener, kept_page: KeptPage, typed: str, left: str
) -> None:
    # A colour and a selection need what the page unpacks last.
    load = typed.startswith(("colour=size", "selected=stacks", "tab=lines"))
    page = linked(open_page, kept_page, typed, load=load)
    until(page, f"location.hash === {left!r}")


def test_a_tab_that_this_recording_lacks_stays_out_of_the_address(open_page: Opener) -> None:
    page = open_page(findings(DeviceSpec([Row(MIB, 2, 50)])), "#tab=stages").page
    expect(page.get_by_role("tab", name="Call stacks")).to_have_attribute("aria-selected", "true")
    until(page, "location.hash === ''")


def test_a_link_into_a_snapshot_without_a_history_is_followed(open_page: Opener) -> None:
    page = open_page(findings(DeviceSpec([Row(MIB)], events=1)), "#tab=lines").page
    expect(page.get_by_role("tab", name="Lines")).to_have_attribute("aria-selected", "true")


def _three_devices() -> Findings:
    """The second one is the default; the third has no history to draw over time."""
    first = DeviceSpec([Row(MIB, 2, 50, (TORCH, USER, MAIN)), Row(2 * MIB, 60, None)])
    main = replace(training(), ordinal=1, ooms=[(30, 7 * MIB, (USER, MAIN))])
    return findings(first, main, DeviceSpec([Row(MIB)], events=1, ordinal=2), default=1)


# What a link says, and what the page shows then of the device that it names.
_KINDS = [
    ("device=0", "0", [".moment h2:has-text('peak (event 60)')", ".legend li"]),
    ("tab=events", "1", [".events-list .row.now"]),
    ("device=0&event=20&tab=live", "0", [".live-list [data-allocation='0']"]),
    ("device=0&allocation=0&only=site:1", "0", [".details", ".chip:has-text('is forward')"]),
    ("device=0&view=10,40,0,2000000&axis=time", "0", [".toolbar label:has(:checked) >> text=Time"]),
    ("device=2&tab=lines", "2", [".lines-list .view .row"]),
    (
        "oom=0&view=10,40,0,90000000&a=12&b=20",
        "1",
        [".kinds [data-ask=change][aria-pressed=true]", ".details[data-oom='0']"],
    ),
    ("stacks=flame&frames=all&focus=2&without=site:1", "1", [".trail [aria-current]", ".chip"]),
]


def test_a_link_to_a_tab_scrolls_to_it(kept_page: KeptPage) -> None:
    opened = kept_page(trained)
    panel = "document.querySelector('.panel').getBoundingClientRect()"
    in_sight = f"scrollY > 100 && {panel}.top < 0.7 * innerHeight"
    again = reopen(opened, opened.path.as_uri())
    again.set_viewport_size({"width": 900, "height": 900})  # a page that scrolls
    again.goto("about:blank")
    again.goto(f"{opened.path.as_uri()}#tab=lines")
    until(again, in_sight)
    again.evaluate("scrollTo(0, 0)")
    again.evaluate("location.hash = '#tab=live&event=30'")
    until(again, in_sight)
    again.evaluate("scrollTo(0, 0)")
    again.evaluate("location.hash = '#event=20'")  # about the timeline
    expect(again.locator(".moment h2")).to_contain_text("event 20")
    assert again.evaluate("scrollY") == 0
    again.set_viewport_size({"width": 1280, "height": 900})


def _opens_every_kind_of_link(open_page: Opener) -> None:
    opened = open_page(_three_devices())
    page = opened.page
    for link, device, shown in _KINDS:
        page.goto("about:blank")  # a change of the fragment alone loads nothing
        page.goto(f"{opened.path.as_uri()}#{link}")
        page.wait_for_selector(f"html[data-complete='{device}']:not(.starting)")
        assert page.locator("article:visible").count() == 1, link
        part = page.locator(f"#device-{device}")
        expect(part.locator(".panels")).to_be_visible()
        for each in shown:
            expect(part.locator(each).first).to_be_visible()
        if device != "2":
            box = part.locator(".plot").bounding_box()
            assert box is not None, link
            assert box["height"] > 200, link
            assert len(colours(page)) > 1, link
        assert page.locator(".failure").count() == 0, link


def test_every_kind_of_link_opens_cold_on_a_page_of_several_devices(open_page: Opener) -> None:
    _opens_every_kind_of_link(open_page)


@pytest.mark.browser(webgl=True)
def test_every_kind_of_link_opens_cold_with_webgl(open_page: Opener) -> None:
    _opens_every_kind_of_link(open_page)
