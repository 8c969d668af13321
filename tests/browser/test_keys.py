"""The timeline's keys without its focus, where they must stay silent, and the list of all keys."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from snapreport.model.findings import Findings
from tests.browser.builders import (
    MAIN,
    MIB,
    USER,
    DeviceSpec,
    Row,
    findings,
    trained,
    training,
)
from tests.browser.conftest import KeptPage, Opener
from tests.browser.listing import frames
from tests.browser.test_sharing import violations_in_both_schemes
from tests.browser.test_stacks import tree_of
from tests.browser.timeline_tools import view, window
from tests.corpus import findings_of

pytestmark = pytest.mark.browser(webgl=False)


def _focused(page: Page) -> str:
    name: str = page.evaluate("document.activeElement.tagName")
    return name


def test_the_timelines_keys_work_while_nothing_has_the_focus(kept_page: KeptPage) -> None:
    page = kept_page(trained).page
    assert _focused(page) == "BODY"
    whole = window(page)
    page.keyboard.press("+")
    closer = window(page)
    assert closer["x1"] - closer["x0"] < whole["x1"] - whole["x0"]
    page.keyboard.press("d")
    assert window(page)["x0"] > closer["x0"]
    page.keyboard.press("0")
    assert window(page) == whole
    event = int(page.get_by_label("Event", exact=True).input_value())
    page.keyboard.press("[")
    assert view(page)["event"] == str(event - 1)
    page.locator(".brief-said").click()  # a click beside all controls focuses the main part
    assert _focused(page) == "MAIN"
    page.keyboard.press("]")
    assert "event" not in view(page)  # the peak again
    page.keyboard.press("?")
    expect(page.locator("dialog.help[open]")).to_be_visible()


def test_without_the_focus_up_and_down_scroll_the_page(kept_page: KeptPage) -> None:
    page = kept_page(trained).page
    page.keyboard.press("+")
    before = window(page)
    page.keyboard.press("ArrowDown")
    frames(page)
    assert window(page) == before
    page.locator(".plot").focus()
    page.keyboard.press("ArrowUp")
    assert window(page) != before


def test_the_timelines_keys_are_text_in_a_field_and_the_panels_own_in_a_panel(
    kept_page: KeptPage,
) -> None:
    page = kept_page(trained).page
    before = view(page), window(page)
    box = page.get_by_role("searchbox")
    box.fill("")
    box.press_sequentially("wasd+0p[]")
    assert page.locator("dialog.help[open]").is_hidden()
    box.fill("")
    tree_of(page).focus()
    for key in "wasd+0p[]":
        page.keyboard.press(key)
    page.get_by_role("tab", name="Call stacks").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    page.get_by_label("Event", exact=True).focus()
    page.keyboard.press("+")
    assert (view(page), window(page)) == before


def warned() -> Findings:
    spec = training()
    spec.warnings = ["Something was found."]
    return findings(spec)


@pytest.mark.parametrize(
    "control",
    [
        ".moment-go button:text('Peak')",
        ".tabs [data-tab=lines]",
        ".legend .group >> nth=0",
        ".toolbar .tool >> nth=0",
        "button.theme",
        ".segmented label:has-text('Flame')",
        ".finding summary >> nth=0",
        ".check:has-text('internal frames')",
    ],
)
def test_the_timelines_keys_work_after_a_click_on_a_control(
    kept_page: KeptPage, control: str
) -> None:
    page = kept_page(warned).page
    if control.startswith(".finding"):
        page.get_by_role("tab", name="Findings").click()
    page.locator(control).click()
    assert _focused(page) not in ("BODY", "MAIN")
    event = int(page.get_by_label("Event", exact=True).input_value())
    page.keyboard.press("[")
    expect(page.get_by_label("Event", exact=True)).to_have_value(str(event - 1))
    whole = window(page)
    page.keyboard.press("+")
    assert window(page) != whole


def test_a_hidden_devices_timeline_hears_no_keys(open_page: Opener) -> None:
    other = DeviceSpec([Row(MIB, 2, 50), Row(2 * MIB, 60, 70)], ordinal=1)
    page = open_page(findings(training(), other)).page
    page.locator(".switch a b").nth(1).click()
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("]")
    assert view(page) == {"device": "1", "event": "61"}
    page.locator(".switch a b").nth(0).click()
    page.evaluate("document.activeElement.blur()")
    assert "event" not in view(page)
    page.keyboard.press("]")
    assert view(page) == {"event": "51"}


def test_the_keys_without_focus_can_be_turned_off_for_good(open_page: Opener) -> None:
    page = open_page(findings(training())).page
    page.keyboard.press("?")
    page.get_by_label("without the focus", exact=False).uncheck()
    page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    for again in (False, True):
        if again:
            page.reload()
            page.wait_for_selector("html[data-complete]")
        before = window(page)
        page.keyboard.press("+")
        assert window(page) == before
        page.locator(".plot").focus()
        page.keyboard.press("+")
        assert window(page) != before


def test_the_list_of_keys_names_those_of_each_panel_there_is(
    open_page: Opener, kept_page: KeptPage
) -> None:
    page = kept_page(trained).page
    tree_of(page).focus()
    page.keyboard.press("?")
    titles = page.locator("dialog.help h3")
    stages = [title for title in titles.all_inner_texts() if title == "In stages"]
    assert stages == ["In stages"]
    stacks = page.locator("dialog.help section", has_text="In call stacks")
    for key in ("E and C", "F and B", "H", "/", "N and Shift N"):
        expect(stacks.locator("dt", has_text=key).first).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog.help[open]")).to_be_hidden()
    plain = open_page(findings(DeviceSpec([Row(MIB, 2, 50)], allocator=False))).page
    plain.keyboard.press("?")
    shown = plain.locator("dialog.help h3").all_inner_texts()
    assert "In call stacks" in shown
    assert not {"In stages", "In the allocator"} & set(shown)


_TAB_STOPS = """() => {
  const plot = [...document.querySelectorAll(".plot")].find((each) => each.checkVisibility())
  const all = document.querySelectorAll("a[href], button, input, select, summary, [tabindex]")
  return [...all].filter((each) => each.tabIndex >= 0 && !each.disabled && each.checkVisibility()
    && each.compareDocumentPosition(plot) & Node.DOCUMENT_POSITION_FOLLOWING).length
}"""


def test_few_stops_of_tab_lead_to_the_timeline(open_page: Opener, samples: Path) -> None:
    spec = replace(training(), ooms=[(30, 7 * MIB, (USER, MAIN))], warnings=["One.", "Two."])
    several = findings(spec, replace(training(), ordinal=1))
    for found in (several, findings_of(samples / "training_step.pickle")):
        page = open_page(found).page
        assert page.evaluate(_TAB_STOPS) <= 8
        stops = 0
        page.locator("h1").click()
        while _focused(page) != "DIV" and stops < 12:  # the timeline
            page.keyboard.press("Tab")
            stops += 1
        assert page.locator(".plot:focus").count() == 1
        assert stops <= 8
        # The legend is one stop: arrows go from row to row, and to the buttons of a row.
        page.keyboard.press("Tab")
        expect(page.locator(".legend .group").first).to_be_focused()
        page.keyboard.press("ArrowDown")
        expect(page.locator(".legend .group").nth(1)).to_be_focused()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        expect(page.locator(".chip")).to_be_visible()
        expect(page.locator(".legend .filters button").nth(1)).to_be_focused()
        page.keyboard.press("Tab")
        assert page.locator(".legend :focus").count() == 0


def test_arrows_reach_each_control_of_a_stop(kept_page: KeptPage, samples: Path) -> None:
    page = kept_page(samples / "training_step.pickle").page
    page.get_by_role("tab", name="Findings").click()
    page.locator("section.findings summary").first.focus()
    reached = set()
    for _ in range(4):
        reached.add(page.evaluate("[...document.all].indexOf(document.activeElement)"))
        page.keyboard.press("ArrowDown")
    assert len(reached) == 4
    page.get_by_label("Colour by").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".toolbar .tool").first).to_be_focused()
    page.keyboard.press("Home")
    expect(page.locator(".timeline .toolbar input").first).to_be_focused()
    page.keyboard.press("End")
    expect(page.get_by_role("button", name="Keys (?)", exact=True)).to_be_focused()


@pytest.mark.parametrize("tab", ["stacks", "lines", "live", "events", "recording"])
def test_a_slash_searches_wherever_the_focus_is(kept_page: KeptPage, tab: str) -> None:
    page = kept_page(trained).page
    page.locator(f"[data-tab={tab}]").click()
    for control in (f"[data-tab={tab}]", ".plot", ".legend .group >> nth=0", "button.theme"):
        page.locator(control).focus()
        page.keyboard.press("/")
        expect(page.locator(".panel input[type=search]")).to_be_focused()
        page.keyboard.type("/x")
        expect(page.locator(".panel input[type=search]")).to_have_value("/x")
        page.locator(".panel input[type=search]").fill("")


def test_one_key_tells_what_the_words_of_the_page_mean(open_page: Opener, samples: Path) -> None:
    page = open_page(findings_of(samples / "training_step.pickle")).page
    page.keyboard.press("g")
    words = page.locator("dialog .words")
    tips = page.locator(".figures [role=tooltip]").all_text_contents()
    for each in tips:
        expect(words).to_contain_text(each)
    assert violations_in_both_schemes(page, "dialog.help") == []
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)


def test_h_hides_and_shows_library_frames_in_the_tree_and_the_flame_graph(
    kept_page: KeptPage,
) -> None:
    page = kept_page(trained).page
    box = page.get_by_label("Hide library-internal frames")
    tree_of(page).focus()
    page.keyboard.press("h")
    expect(box).not_to_be_checked()
    page.get_by_text("Flame", exact=True).click()
    page.get_by_role("tree").get_by_role("treeitem").first.focus()
    page.keyboard.press("h")
    expect(box).to_be_checked()


def test_the_list_of_keys_keeps_nobody_out(kept_page: KeptPage) -> None:
    page = kept_page(trained).page
    page.keyboard.press("?")
    assert violations_in_both_schemes(page, "dialog.help") == []
