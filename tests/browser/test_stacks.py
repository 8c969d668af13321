"""The panel of call stacks: the API's bytes at any event, keys, search, focus, flame, links."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from snapreport.figures.callsites import find_call_tree
from snapreport.ground.units import format_bytes, format_count
from snapreport.model.asked import Question
from snapreport.model.findings import CallTree
from tests.browser.builders import MIB, DeviceSpec, Row, findings, trained, training
from tests.browser.conftest import KeptPage, Opener
from tests.browser.listing import address, all_rows, fragment, frames, go_to, in_bytes
from tests.browser.test_sharing import reopen, violations_in_both_schemes
from tests.corpus import findings_of
from tests.thorough import some

pytestmark = pytest.mark.browser(webgl=False)


def tree_of(page: Page) -> Locator:
    return page.locator("article:visible [role=treegrid]")


def names(page: Page) -> list[str]:
    """Functions of the rows in sight."""
    return tree_of(page).locator(".view .row .frame").all_inner_texts()


def collapse(page: Page) -> None:
    page.get_by_role("button", name="Collapse").click()


def selected(page: Page) -> Locator:
    return tree_of(page).locator(".view [aria-selected=true]")


@pytest.mark.parametrize(
    ("name", "curve"),
    some(
        [
            ("training_step.pickle", "allocated"),
            ("training_step.pickle", "requested"),
            ("truncated_ring.pickle", "requested"),
            ("truncated_ring.pickle", "allocated"),
        ],
        2,
    ),
)
def test_every_row_is_the_models_at_any_event(
    kept_page: KeptPage, samples: Path, name: str, curve: str
) -> None:
    found = findings_of(samples / name)
    page = kept_page(samples / name).page
    device = found.devices[0]
    page.locator(".segmented label", has_text=curve.capitalize()).first.click()
    page.get_by_label("Hide library-internal frames").uncheck()
    for event in (-1, device.peak.event, device.history.events // 3, device.history.events - 1):
        go_to(page, event)
        page.get_by_role("button", name="Expand all").click()
        tree = find_call_tree(
            device.history, found.history.stacks, Question(curve, alive=(event, event))
        )
        assert shown_paths(tree_of(page)) == model_paths(tree, found.tree_frames)


def test_each_call_is_indented_by_the_same_width(kept_page: KeptPage, samples: Path) -> None:
    page = kept_page(samples / "training_step.pickle").page
    page.get_by_role("button", name="Expand all").click()
    rows = (
        tree_of(page)
        .locator(".view [role=row]")
        .evaluate_all(
            """rows => rows.map((row) => [Number(row.ariaLevel),
          parseFloat(getComputedStyle(row.querySelector(".node")).paddingLeft)])"""
        )
    )
    widths = {round(px / (level - 1), 1) for level, px in rows if level > 1}
    assert len({level for level, _ in rows}) > 4
    assert len(widths) == 1


Paths = Counter[tuple[tuple[str, ...], int, int]]


def shown_paths(part: Locator) -> Paths:
    path: list[str] = []
    found: Paths = Counter()
    for row in all_rows(part):
        path[row["level"] - 1 :] = [row["cells"][4] if row["level"] > 1 else ""]
        count = int(row["cells"][3].replace(",", ""))
        found[(tuple(path), in_bytes(row["titles"][0]), count)] += 1
        assert row["cells"][0] == format_bytes(in_bytes(row["titles"][0]))
    return found


def frame_text(frames_: Any, frame: int) -> str:
    base = frames_.filenames[frame].rsplit("/", 1)[-1]
    line = int(frames_.lines[frame])
    place = "" if base in ("", "??") else f" {base}:{line}" if line > 0 else f" {base}"
    return str(frames_.names[frame]) + place


def model_paths(tree: CallTree, frames_: Any) -> Paths:
    paths: list[tuple[str, ...]] = []
    found: Paths = Counter()
    for node in range(len(tree)):
        frame = int(tree.frame[node])
        text = tree.label[node] if frame < 0 and node else ""
        if frame >= 0:
            text = frame_text(frames_, frame)
        above = paths[int(tree.parent[node])] if node else ()
        paths.append((*above, text))
        found[(paths[node], int(tree.bytes[node]), int(tree.count[node]))] += 1
    return found


def test_the_first_row_is_the_curve_at_the_cursor(kept_page: KeptPage, samples: Path) -> None:
    path = samples / "training_step.pickle"
    found = findings_of(path)
    page = kept_page(path).page
    device = found.devices[0]
    first = tree_of(page).locator(".view .row").first
    expect(first).to_contain_text(format_bytes(device.peak.allocated))
    expect(first).to_contain_text(format_count(device.peak.live))
    go_to(page, 100)
    expect(first).to_contain_text(format_bytes(int(device.curves["allocated"][101])))


def test_bottom_up_begins_with_the_call_sites(kept_page: KeptPage, samples: Path) -> None:
    path = samples / "training_step.pickle"
    found = findings_of(path)
    page = kept_page(path).page
    page.get_by_text("Bottom-up").click()
    collapse(page)
    # Each call site of this sample is the innermost frame of its stacks that is not internal, but
    # for one: a line called backward, and in its own thread autograd made room for a gradient.
    rows = Counter((row["cells"][4], row["cells"][0]) for row in all_rows(tree_of(page))[1:])
    sites = Counter(
        (
            site.name if site.frame is None else frame_text(found.tree_frames, site.frame),
            format_bytes(site.bytes),
        )
        for site in found.devices[0].sites
    )
    assert rows - sites == Counter({("gradient accumulation (AccumulateGrad)", "512 B"): 1})
    assert sites - rows == Counter({("training_step train.py:42", "512 B"): 1})


def test_rows_open_and_close_by_key(kept_page: KeptPage) -> None:
    page = kept_page(trained).page
    collapse(page)
    tree_of(page).focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")  # it is open: goes to the largest below it
    expect(selected(page)).to_contain_text("<module>")
    assert len(names(page)) == 3
    page.keyboard.press("ArrowRight")
    expect(tree_of(page)).to_have_attribute("aria-rowcount", "15")
    expect(selected(page)).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowRight")
    expect(selected(page)).to_have_attribute("aria-level", "3")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(selected(page)).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("Enter")
    expect(selected(page)).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("c")
    assert len(names(page)) == 3
    page.keyboard.press("e")
    expect(tree_of(page)).to_have_attribute("aria-rowcount", "15")
    assert tree_of(page).get_attribute("aria-activedescendant") == selected(page).get_attribute(
        "id"
    )


def test_a_click_on_the_arrow_opens_and_on_the_row_selects(kept_page: KeptPage) -> None:
    page = kept_page(trained).page
    collapse(page)
    row = tree_of(page).locator(".view .row", has_text="<module>")
    row.locator(".twist").click()
    expect(row).to_have_attribute("aria-expanded", "true")
    expect(row).to_have_attribute("aria-selected", "false")
    row.click()
    expect(row).to_have_attribute("aria-selected", "true")
    expect(row).to_have_attribute("aria-expanded", "true")
    row.dblclick()
    expect(row).to_have_attribute("aria-expanded", "false")


def test_searching_counts_marks_and_walks_the_matches(kept_page: KeptPage) -> None:
    page = kept_page(trained).page
    page.set_viewport_size({"width": 1280, "height": 1400})  # for all rows of the tree
    collapse(page)
    tree_of(page).focus()
    page.keyboard.press("/")
    page.keyboard.type("model.py")
    told = page.locator(".found")
    expect(told).to_have_text("1 of 11 \u00b7 420.0 MiB, 86.8%")
    expect(tree_of(page).locator(".match")).to_have_count(11)
    page.keyboard.press("Enter")
    expect(told).to_contain_text("2 of 11")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("n")
    expect(told).to_contain_text("3 of 11")
    page.keyboard.press("N")
    page.keyboard.press("N")
    page.keyboard.press("N")
    expect(told).to_contain_text("11 of 11")
    expect(selected(page)).to_have_class("row match present")
    box = page.get_by_role("searchbox")
    box.fill("nowhere")
    expect(told).to_have_text("nothing found")
    box.fill("/(/")
    expect(told).to_have_text("Not a regular expression")
    expect(box).to_have_attribute("aria-invalid", "true")
    box.fill("/layer|forward/")
    expect(told).to_contain_text("of 11")
    box.press("Escape")
    expect(told).to_have_text("")
    expect(box).to_have_value("")


def test_a_subtree_in_focus_stands_alone_until_back(open_page: Opener) -> None:
    page = open_page(trained()).page
    page.get_by_label("Hide library-internal frames").uncheck()
    page.get_by_role("button", name="Expand all").click()
    tree_of(page).locator(".view .row", has_text="layer").first.click()
    page.keyboard.press("f")
    expect(tree_of(page)).to_have_attribute("aria-rowcount", "3")
    expect(tree_of(page).locator(".view .row").first).to_have_attribute("aria-level", "1")
    trail = page.get_by_role("navigation", name="Focused subtree")
    expect(trail.get_by_role("listitem")).to_have_text(
        ["Everything", "<module> train.py:7", "layer model.py:10"]
    )
    trail.get_by_role("button", name="<module>").click()
    expect(tree_of(page)).to_have_attribute("aria-rowcount", "24")
    tree_of(page).focus()
    page.keyboard.press("b")
    expect(tree_of(page)).to_have_attribute("aria-rowcount", "3")
    page.keyboard.press("Backspace")
    expect(trail).to_be_hidden()
    expect(tree_of(page)).to_have_attribute("aria-rowcount", "26")


def test_the_flame_graph_is_as_wide_as_its_bytes(kept_page: KeptPage, samples: Path) -> None:
    path = samples / "training_step.pickle"
    found = findings_of(path)
    device = found.devices[0]
    page = kept_page(path).page
    page.get_by_text("Flame", exact=True).click()
    tree = page.get_by_role("tree")
    whole = tree.bounding_box()
    assert whole is not None
    sites = {site.name: site.bytes for site in device.sites}
    for name in ("backward of nll_loss (NllLossBackward0)", "before recording"):
        tile = tree.get_by_role("treeitem", name=name).bounding_box()
        assert tile is not None
        share = sites[name] / device.peak.allocated
        assert tile["width"] / whole["width"] == pytest.approx(share, abs=0.002)
    first = tree.get_by_role("treeitem").first
    label = first.get_attribute("aria-label") or ""
    assert format_bytes(device.peak.allocated) in label
    assert f"{device.peak.live} allocations" in label


def test_the_flame_graph_zooms_and_moves_by_key(kept_page: KeptPage) -> None:
    page = kept_page(trained).page
    page.get_by_text("Flame", exact=True).click()
    tree = page.get_by_role("tree")
    expect(tree.get_by_role("treeitem")).to_have_count(1 + 2 + 11)
    tree.get_by_role("treeitem").first.click()
    page.keyboard.press("ArrowDown")
    expect(tree.locator(":focus")).to_contain_text("<module>")
    page.keyboard.press("ArrowRight")
    expect(tree.locator(":focus")).to_contain_text("before recording")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowDown")
    expect(tree.locator(":focus")).to_contain_text("forward")  # the spike is the largest
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(tree.get_by_role("treeitem").first).to_contain_text("<module>")
    expect(tree.locator(":focus")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("b")
    expect(tree.get_by_role("treeitem").first).to_contain_text("Everything")
    tree.get_by_role("treeitem", name="forward").dblclick()
    expect(tree.get_by_role("treeitem")).to_have_count(1)


def test_a_double_click_during_which_the_flame_graph_is_drawn_again_zooms(
    kept_page: KeptPage,
) -> None:
    page = kept_page(trained).page
    page.get_by_text("Flame", exact=True).click()
    tree = page.get_by_role("tree")
    tree.get_by_role("treeitem", name="forward").hover()
    page.mouse.down()
    page.mouse.up()
    page.mouse.down(click_count=2)
    frames(page)  # of what the first click chose
    page.mouse.up(click_count=2)
    expect(tree.get_by_role("treeitem")).to_have_count(1)


def test_tiles_too_narrow_are_shown_together(open_page: Opener) -> None:
    small = [
        Row(MIB // 100, 1, None, ((f"f{k}", "/me/model.py", k + 1), ("main", "/me/train.py", 1)))
        for k in range(50)
    ]
    rows = [Row(900 * MIB, 0, None, (("big", "/me/model.py", 99), ("main", "/me/train.py", 1)))]
    page = open_page(findings(DeviceSpec([*rows, *small]))).page
    page.get_by_text("Flame", exact=True).click()
    rest = page.get_by_role("treeitem", name="50 smaller, 512.0 KiB")
    expect(rest).to_have_count(1)
    assert "in 50 allocations" in (rest.get_attribute("aria-label") or "")


def test_what_is_selected_goes_into_the_link_and_comes_back(kept_page: KeptPage) -> None:
    opened = kept_page(trained)
    page = opened.page
    tree_of(page).locator(".view .row", has_text="layer").nth(2).click()
    label = selected(page).inner_text()
    fragment(page, "selected=stacks:down-")
    again = reopen(opened, address(page))
    expect(selected(again)).to_contain_text(label.split("\n")[-1])
    again.get_by_text("Bottom-up").click()
    tree_of(again).locator(".view .row", has_text="forward").click()
    fragment(again, "selected=stacks:up-")


def test_an_allocation_pinned_in_the_timeline_is_revealed(kept_page: KeptPage) -> None:
    opened = kept_page(trained)
    page = opened.page
    collapse(page)
    # Layer 3 lives from event 12 to 88, on top of the baseline and the three layers below it.
    page.mouse.click(*opened.strip_point(30, (64 + 3 * 32 + 16) * MIB))
    revealed = tree_of(page).locator(".view .leaf-end")
    expect(revealed).to_contain_text("layer model.py:13")
    expect(revealed).to_be_in_viewport(ratio=1)
    expect(tree_of(page).locator(".view .pinned")).to_have_count(2)
    tree_of(page).hover()
    page.mouse.wheel(0, -1000)  # the root is above what the list shows
    expect(tree_of(page).locator(".view .pinned")).to_have_count(3)
    go_to(page, 95)
    expect(page.locator(".stacks .pin-note")).to_contain_text("not live at this event")
    page.get_by_role("button", name="Go to where it was made").click()
    expect(page.get_by_role("spinbutton", name="Event")).to_have_value("12")
    expect(tree_of(page).locator(".view .leaf-end")).to_contain_text("layer model.py:13")


def test_each_panel_keeps_its_own_search(open_page: Opener) -> None:
    page = open_page(findings(training())).page
    page.get_by_role("searchbox").fill("layer")
    expect(page.locator(".found")).to_contain_text("of 10")
    page.get_by_role("tab", name="Lines").click()
    expect(page.get_by_role("searchbox")).to_have_value("")
    page.get_by_role("searchbox").fill("train.py")
    page.get_by_role("tab", name="Call stacks").click()
    expect(page.get_by_role("searchbox")).to_have_value("layer")
    fragment(page, "search=layer")


def test_nothing_live_says_so(open_page: Opener) -> None:
    page = open_page(findings(DeviceSpec([Row(MIB, 5, 9, (("f", "/me/a.py", 1),))]))).page
    go_to(page, -1)
    expect(page.locator(".stacks .empty:visible")).to_have_text("No allocations.")
    page.get_by_text("Flame", exact=True).click()
    frames(page)
    expect(page.locator(".stacks .empty:visible")).to_have_text("No allocations.")


def test_escape_lets_go_of_what_is_selected(kept_page: KeptPage) -> None:
    page = kept_page(trained).page
    tree_of(page).locator(".view .row", has_text="layer").first.click()
    fragment(page, "selected=")
    page.keyboard.press("Escape")
    expect(selected(page)).to_have_count(0)
    until_gone(page, "selected=")


def until_gone(page: Page, part: str) -> None:
    for _ in range(100):
        if part not in page.evaluate("location.hash"):
            return
        page.wait_for_timeout(25)
    raise AssertionError(f"{part} is still in {address(page)}")


def test_the_flame_graph_keeps_nobody_out(kept_page: KeptPage, samples: Path) -> None:
    page = kept_page(samples / "training_step.pickle").page
    page.get_by_text("Flame", exact=True).click()
    page.get_by_role("searchbox").fill("attend")
    page.get_by_role("treeitem").nth(2).click()
    page.keyboard.press("f")
    assert violations_in_both_schemes(page, ".panels") == []
