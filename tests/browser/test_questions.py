"""What the page says came, went or stayed between two moments, against a plain walk in Python."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

import snapreport
from snapreport.ground.units import format_bytes, format_signed_bytes, true_minus
from snapreport.model.findings import DeviceFindings
from snapreport.model.roles import ROLES
from tests.browser.builders import MIB, DeviceSpec, Row, findings, trained
from tests.browser.conftest import KeptPage, Opener, OpenPage
from tests.browser.test_page import until
from tests.browser.timeline_tools import SAMPLES, press, view
from tests.corpus import every_corpus_file, findings_of

pytestmark = pytest.mark.browser(webgl=False)

KINDS = ("live", "change", "stayed", "made", "passing", "freed", "throughout")


class Walk:
    """One device's allocations as plain tuples, asked one by one."""

    def __init__(self, device: DeviceFindings, curve: str) -> None:
        rows = device.history.allocations
        ends = rows.free_requested_event if curve == "allocated" else rows.free_event
        sizes = rows.block_size if curve == "allocated" else rows.size
        self.rows = list(zip(rows.alloc_event.tolist(), ends.tolist(), sizes.tolist(), strict=True))

    def answer(self, kind: str, a: int, b: int, c: int, at: int, kept: set[int]) -> dict[str, Any]:
        """Return the rows that answer, and their bytes."""
        found, net, moved = [], 0, 0
        for row, (birth, death, size) in enumerate(self.rows):
            if row not in kept:
                continue

            def live(event: int, birth: int = birth, death: int = death) -> bool:
                return birth <= event < death

            made = a < birth <= b and death > birth
            freed = a < death <= b and death > birth
            sign = {
                "live": int(live(at)),
                "made": int(made),
                "stayed": int(made and live(c)),
                "passing": int(made and freed),
                "freed": int(freed),
                "throughout": int(live(a) and live(b)),
                "change": int(live(b)) - int(live(a)),
            }[kind]
            if sign:
                found.append(row)
                net += sign * size
                moved += size
        return {"rows": found, "bytes": net, "moved": moved, "count": len(found)}


def groups_of(device: DeviceFindings) -> dict[str, Callable[[int], str]]:
    """How a row's group is called, by the colouring: as the legend says it."""
    rows = device.history.allocations
    stages = [
        (depth, start, end, name)
        for depth, start, end, name in zip(
            device.history.stages.depth.tolist(),
            device.history.stages.start_event.tolist(),
            device.history.stages.end_event.tolist(),
            device.history.stages.name,
            strict=True,
        )
    ]

    def size(row: int) -> str:
        block = int(rows.block_size[row])
        return str(block.bit_length())

    def stage(row: int) -> str:
        event = int(rows.alloc_event[row])
        around = [each for each in stages if event >= 0 and max(each[1], 0) <= event < each[2]]
        if not around:
            return "before" if event < 0 else "outside"
        return "in " + re.sub(r"#\d+", "#*", max(around)[3])

    return {
        "role": lambda row: str(ROLES[int(device.roles.role[row])]),
        "size": size,
        "stream": lambda row: str(int(rows.stream[row])),
        "stage": stage,
    }


def ask(page: Page, **parts: object) -> dict[str, Any]:
    """Open a link and return what the page answers."""
    fragment = "&".join(f"{name}={value}" for name, value in parts.items())
    page.evaluate("fragment => { location.hash = fragment }", fragment)
    # The page follows a link in its own turn: wait until it says the same link.
    page.evaluate("() => new Promise(done => setTimeout(done))")
    found: dict[str, Any] = page.evaluate("window.snapreport.answer()")
    found["rows"].sort()
    return found


@every_corpus_file
def test_every_question_and_filter_is_answered_as_a_walk_answers_it(
    open_page: Opener, path: Path
) -> None:
    found = findings_of(path)
    opened = open_page(found)
    page = opened.page
    chance = random.Random(path.name)
    for index, device in enumerate(found.devices):
        last = device.history.events - 1
        if last < 1 or not len(device.history.allocations) or not device.recorded:
            continue
        everything = set(range(len(device.history.allocations)))
        named = groups_of(device)
        for turn, kind in enumerate([*KINDS, *KINDS]):
            curve = ("allocated", "requested")[turn % 2]
            a, b = sorted(chance.randint(-1, last) for _ in "ab")
            c, at = (chance.randint(-1, last) for _ in "cd")
            link: dict[str, object] = {"device": index, "curve": curve, "event": at}
            if kind != "live":
                link |= {"a": a, "b": b, "c": c, "ask": kind}
            kept = everything
            if turn >= len(KINDS):
                colouring = chance.choice(sorted(named))
                row = chance.choice(sorted(everything))
                group = page.evaluate(
                    "([name, row]) => window.snapreport.group(name, row)", [colouring, row]
                )
                if group is not None:
                    name = named[colouring]
                    kept = {each for each in everything if name(each) == name(row)}
                    link["only"] = f"{colouring}:{group}"
            answer = ask(page, **link)
            wanted = Walk(device, curve).answer(kind, a, b, c, at, kept)
            assert {name: answer[name] for name in wanted} == wanted, (kind, link)
    opened.check()


def drag_on_axis(opened: OpenPage, start: float, end: float) -> None:
    """Drag along the axis from one event to another."""
    page = opened.page
    plot = page.locator(".plot").bounding_box()
    strips = page.locator(".strips").bounding_box()
    assert plot is not None
    assert strips is not None
    y = strips["y"] + strips["height"] + 14
    x0, x1 = (opened.strip_point(event, 0)[0] for event in (start, end))
    page.mouse.move(x0, y)
    page.mouse.down()
    page.mouse.move((x0 + x1) / 2, y)
    page.mouse.move(x1, y)
    page.mouse.up()


def kind(page: Page, name: str) -> Any:
    """The button of a question."""
    return page.locator(f".kinds [data-ask={name}]")


def test_a_range_dragged_on_the_axis_is_asked_about_everywhere(kept_page: KeptPage) -> None:
    opened = kept_page(trained)
    page = opened.page
    drag_on_axis(opened, 9.5, 29.5)  # from the end of event 9 to that of event 29
    seen = view(page)
    assert (seen["a"], seen["b"]) == ("9", "29")
    expect(kind(page, "change")).to_have_attribute("aria-pressed", "true")
    answer = page.evaluate("window.snapreport.answer()")
    change = true_minus(format_signed_bytes(answer["bytes"]))
    expect(kind(page, "change")).to_contain_text(change)
    expect(page.locator("[role=treegrid] .view .num").first).to_have_text(change)
    for name in KINDS[1:]:
        kind(page, name).click()
        answer = page.evaluate("window.snapreport.answer()")
        assert answer["kind"] == name
        told = true_minus(format_signed_bytes(answer["bytes"]))
        text = told if name == "change" else format_bytes(answer["bytes"])
        expect(kind(page, name)).to_contain_text(text)
        page.get_by_role("tab", name="Lines").click()
        total = page.locator(".totals-line span").first
        expect(total).to_have_attribute("title", f"{answer['bytes']:,} bytes")
        page.get_by_role("tab", name="Allocations").click()
        expect(page.locator(".totals-line b")).to_contain_text(f"{answer['count']:,} allocation")
        page.get_by_role("tab", name="Call stacks").click()
    opened.check()


def test_keys_pin_markers_and_the_cursor_stands_for_the_one_that_is_missing(
    kept_page: KeptPage,
) -> None:
    page = kept_page(trained).page
    page.locator(".plot").focus()
    for key in ("1", "]", "]", "]"):
        page.keyboard.press(key)
    answer = page.evaluate("window.snapreport.answer()")
    assert (answer["kind"], answer["to"] - answer["from"]) == ("change", 3)
    expect(page.locator(".moment-where")).to_contain_text("B is the cursor")
    page.keyboard.press("2")
    for key in ("]", "]", "3"):
        page.keyboard.press(key)
    kind(page, "stayed").click()
    later = page.evaluate("window.snapreport.answer()")
    assert (later["from"], later["to"]) == (answer["from"], answer["to"])
    assert later["alive"] == later["to"] + 2
    expect(page.locator(".moment-title")).to_contain_text("alive at C")
    page.locator(".plot").focus()
    page.keyboard.press("Escape")
    assert page.evaluate("window.snapreport.answer()")["kind"] == "live"


def test_a_markers_flag_can_be_dragged_and_its_button_removes_it(kept_page: KeptPage) -> None:
    opened = kept_page(trained)
    page = opened.page
    drag_on_axis(opened, 9.5, 29.5)
    x, _ = opened.strip_point(29.5, 0)
    top = page.locator(".strips").bounding_box()
    assert top is not None
    page.mouse.move(x + 7, top["y"] + 7)
    page.mouse.down()
    page.mouse.move(opened.strip_point(45, 0)[0], top["y"] + 7)
    page.mouse.move(opened.strip_point(49.5, 0)[0], top["y"] + 7)
    page.mouse.up()
    assert view(page)["b"] == "49"
    page.locator(".mark-b").click()
    assert "b" not in view(page)
    page.get_by_role("button", name="Clear").click()
    assert "a" not in view(page)


def test_back_goes_back_through_what_was_seen(open_page: Opener) -> None:
    opened = open_page(trained(), before="0")  # a tab without a history
    page = opened.page
    seen = []

    def rests() -> None:
        until(page, "location.hash.slice(1) === window.snapreport.link()")
        seen.append(page.evaluate("location.hash"))

    rests()
    for act in (
        lambda: page.get_by_role("tab", name="Lines").click(),
        lambda: drag_on_axis(opened, 9.5, 29.5),
        lambda: kind(page, "made").click(),
        lambda: press(page, "+"),
        lambda: page.get_by_role("tab", name="Events").click(),
    ):
        act()
        rests()
    for before in reversed(seen[:-1]):
        page.go_back()
        until(page, f"location.hash === {before!r}")
        until(page, "location.hash.slice(1) === window.snapreport.link()")
    # The cursor moves without a trace.
    page.locator(".plot").focus()
    entries = page.evaluate("history.length")
    for _ in range(3):
        page.keyboard.press("]")
    rests()
    assert page.evaluate("history.length") == entries


def test_a_stage_and_a_step_are_compared_at_a_click(kept_page: KeptPage) -> None:
    page = kept_page(trained).page
    page.get_by_role("tab", name="Stages").click()
    page.locator(".stages-list .view [data-stage] .compare button").first.click()
    answer = page.evaluate("window.snapreport.answer()")
    stage = page.evaluate("window.snapreport.summary.devices[0].stages[0]")
    assert (answer["from"], answer["to"]) == (
        max(stage["start_event"] - 1, -1),
        stage["end_event"] - 1,
    )
    assert answer["bytes"] == stage["change"]


def test_filters_of_several_kinds_hold_together_and_stay_in_the_link(kept_page: KeptPage) -> None:
    page = kept_page(trained).page
    for colour in ("site", "size"):
        page.get_by_label("Colour by").select_option(colour)
        row = page.locator(".legend ul:not(.also) li").first
        row.hover()
        row.get_by_role("button", name="only").click()
    expect(page.locator(".chip")).to_have_count(2)
    link = view(page)["only"] + view(page).get("without", "")
    assert "site:" in link
    assert "size:" in link
    held = page.evaluate("window.snapreport.answer()")["bytes"]
    expect(page.locator(".much")).to_contain_text(format_bytes(held))
    page.locator(".chip .remove").first.click()
    expect(page.locator(".chip")).to_have_count(1)
    assert page.evaluate("window.snapreport.answer()")["bytes"] >= held
    page.locator(".chip .remove").click()
    expect(page.locator(".chips")).to_be_hidden()


def test_back_leaves_a_link_that_the_page_writes_in_other_words(open_page: Opener) -> None:
    page = open_page(trained(), before="0").page
    page.get_by_role("tab", name="Events").click()
    until(page, "location.hash === '#tab=events'")
    entries = page.evaluate("history.length")
    page.evaluate("location.hash = '#device=0&curve=allocated&event=30&tab=lines'")
    until(page, "location.hash === '#event=30&tab=lines'")
    assert page.evaluate("history.length") == entries + 1
    page.go_back()
    until(page, "location.hash === '#tab=events'")
    expect(page.get_by_role("tab", name="Events")).to_have_attribute("aria-selected", "true")


def test_a_question_keeps_the_focus_when_it_is_asked(kept_page: KeptPage) -> None:
    opened = kept_page(trained)
    page = opened.page
    drag_on_axis(opened, 9.5, 29.5)
    kind(page, "freed").focus()
    page.keyboard.press("Enter")
    expect(kind(page, "freed")).to_have_attribute("aria-pressed", "true")
    expect(kind(page, "freed")).to_be_focused()


def test_a_new_range_forgets_the_third_moment(kept_page: KeptPage) -> None:
    opened = kept_page(trained)
    page = opened.page
    page.evaluate("location.hash = '#a=70&b=75&c=80&ask=stayed'")
    expect(kind(page, "stayed")).to_have_attribute("aria-pressed", "true")
    drag_on_axis(opened, 9.5, 29.5)
    assert {name: view(page).get(name) for name in "abc"} == {"a": "9", "b": "29", "c": None}


def test_a_cut_page_says_that_it_counts_less(open_page: Opener, tmp_path: Path) -> None:
    path = tmp_path / "cut.html"
    snapreport.render(SAMPLES / "training_step.pickle", path, min_size="1MiB")
    page = open_page(path, "#a=100&b=700&ask=made").page
    expect(kind(page, "made")).to_contain_text("\u2265")
    expect(kind(page, "change")).not_to_contain_text("\u2265")
    expect(page.locator(".moment-where")).to_contain_text("not drawn one by one is not counted")


def test_without_a_history_nothing_is_asked_between_moments(open_page: Opener) -> None:
    page = open_page(findings(DeviceSpec([Row(MIB)], events=1)), "#a=-1&b=0&ask=made").page
    assert page.evaluate("window.snapreport.answer()")["kind"] == "live"


def test_tabs_that_do_not_answer_say_so(kept_page: KeptPage) -> None:
    opened = kept_page(trained)
    page = opened.page
    drag_on_axis(opened, 9.5, 29.5)
    page.get_by_role("tab", name="Events").click()
    expect(page.locator(".counts-all")).to_contain_text("does not answer")
    page.get_by_role("tab", name="Lines").click()
    expect(page.locator(".counts-all")).to_be_hidden()
