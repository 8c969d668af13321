"""The timeline in a browser: colours, filters, marks, stages and pictures."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import snapreport
from snapreport.diagnosis.conclude import find
from snapreport.ground.units import format_bytes
from snapreport.reporters.words import evidence_text
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
from tests.browser.listing import go_to
from tests.browser.timeline_tools import (
    HOSTILE,
    NO_WEBGL,
    SAMPLES,
    colour_by,
    colours,
    legend,
    pixels,
    press,
    settle,
    strips_box,
    view,
    window,
)
from tests.builders import trace
from tests.corpus import findings_of

pytestmark = pytest.mark.browser(webgl=False)


def sizes() -> DeviceSpec:
    """Three sizes that live alike, and lifetimes of 3, 40 and more events."""
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
            "10 to 99 events": 4, "live at the end": 5, "1 to 9 events": 40, "live throughout": 64,
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
        "Role": "All allocations have one role",
        "Stage": "No stages were recorded",
        "Category": "All allocations are of one category",
        "Stream": "One stream made all allocations",
        "Memory pool": "All allocations came from one pool",
        "Compiled graph": "No compiled graphs were recorded",
        "Forward line": "PyTorch notes the forward line behind a gradient only in anomaly mode",
        "Metadata": "No metadata was recorded",
    }


def test_forward_lines_and_keys_of_metadata_are_colours(open_page: Opener) -> None:
    line = '  File "model.py", line 39, in forward\n'
    node = [{"name": "MulBackward0::apply", "filename": "??", "line": 0}]
    said = '{"layer":3,"kind":"kept"}'
    made = trace().alloc("a", 8 * MIB, frames=node, forward_frames=[line], user_metadata=said)
    opened = open_page(find(made.alloc("b", MIB, frames=node).alloc("c", MIB).file()))
    page = opened.page
    colour_by(page).select_option("forward")
    assert [name for name, _ in legend(page)] == ["forward model.py:39", "no forward line"]
    colour_by(page).select_option(label="Metadata: layer")
    assert [name for name, _ in legend(page)] == ["3", "none"]
    assert view(page)["colour"] == "metadata:layer"
    page.mouse.click(*opened.strip_point(1, MIB))
    page.locator(".details summary", has_text="Sizes").click()
    facts = page.locator(".details").inner_text()
    assert "Gradient of\nforward model.py:39" in " ".join(facts.split("  "))
    assert "layer\n3\nkind\nkept" in facts


def leave_out(page: Page, group: str, row: str = "li") -> None:
    """Keep only a group of the legend, and then all but that."""
    page.locator(f".legend {row}", has_text=group).first.hover()
    page.get_by_role("button", name=f"only {group}").first.click()
    page.locator(".chip .flip").click()


def test_a_group_that_is_left_out_leaves_the_stack(kept_page: KeptPage) -> None:
    opened = kept_page(trained)
    page = opened.page
    before, whole = pixels(page), window(page)
    leave_out(page, "before recording")
    assert view(page)["without"]
    page.mouse.move(5, 5)
    after = pixels(page)
    # All that stood on the baseline stands as much lower now, on an axis that fits it.
    height, column = before.shape[0], round(30.5 / 101 * before.shape[1])
    fitted = window(page)
    for layer in range(7):
        middle = (32 * layer + 16) * MIB
        now = after[round(height * (1 - middle / fitted["y1"])), column]
        then = before[round(height * (1 - (middle + 64 * MIB) / whole["y1"])), column]
        assert (now == then).all()
    # A click finds the strip that is drawn, by its own number.
    page.mouse.click(*opened.strip_point(30, 16 * MIB))
    assert view(page)["allocation"] == "1"
    press(page, "Escape")
    page.get_by_role("button", name="Show all").click()
    page.mouse.move(5, 5)
    assert (pixels(page) == before).all()


def test_only_one_group_can_be_left(kept_page: KeptPage) -> None:
    page = kept_page(trained).page
    before = len(colours(page))
    row = page.locator(".legend li", has_text="forward").first
    row.hover()
    row.get_by_role("button", name="only").click()
    assert len(colours(page)) < before
    expect(page.locator(".legend .left-out")).not_to_have_count(0)
    # Another one is added, and the first one taken away.
    other = page.locator(".legend .left-out").first
    other.hover()
    other.get_by_role("button", name="show").click()
    expect(page.locator(".chip")).to_contain_text("is")
    row.hover()
    row.get_by_role("button", name="hide").click()
    expect(row).to_have_class("left-out")


def test_what_is_left_out_is_left_out_of_everything(kept_page: KeptPage) -> None:
    found = findings_of(SAMPLES / "training_step.pickle")
    device = found.devices[0]
    site, total = device.sites[1], device.peak.allocated
    page = kept_page(SAMPLES / "training_step.pickle").page
    colour_by(page).select_option("site")
    whole = window(page)
    chip = page.locator(".chips")
    expect(chip).to_be_hidden()
    row = page.locator(".legend ul:not(.also) li").nth(1)
    row.hover()
    row.get_by_role("button", name="only").click()
    held = format_bytes(site.bytes)
    expect(chip).to_contain_text(f"Call site is {site.name}")
    expect(chip).to_contain_text(f"{held} of {format_bytes(total)}")
    assert view(page)["only"] == "site:1"  # not the numbers of all others
    exact = f"{site.bytes:,} bytes"
    expect(page.locator("[data-total=allocated] dd")).to_have_attribute("title", exact)
    expect(page.locator("[data-total=reserved]")).to_have_count(0)
    expect(page.locator(".moment-where")).to_contain_text(f"{site.count:,} allocations")
    # The axis fits what is left.
    fitted = window(page)
    assert site.bytes <= fitted["y1"] < whole["y1"]
    assert fitted["x1"] == whole["x1"]
    first = page.locator("[role=treegrid] .view .num span").first
    expect(first).to_have_attribute("title", exact)
    page.get_by_role("tab", name="Lines").click()
    expect(page.locator(".totals-line b")).to_have_text("1 line")
    expect(page.locator(".totals-line span").first).to_have_attribute("title", exact)
    page.get_by_role("tab", name="Allocations").click()
    expect(page.locator(".totals-line b")).to_have_text(f"{site.count:,} allocations")
    expect(page.locator(".totals-line span").first).to_have_attribute("title", exact)
    page.get_by_role("tab", name="Events").click()
    expect(page.locator(".panel .range")).to_contain_text(f" of {device.history.events:,} events")
    page.get_by_role("tab", name="Allocator").click()
    expect(page.get_by_text("This tab counts all allocations")).to_be_visible()
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text }")
    page.get_by_role("button", name="Copy as Markdown").click()
    page.wait_for_function("window.copied")
    text: str = page.evaluate("window.copied")
    assert f"{held} allocated in {site.count:,} allocations" in text
    assert f"Only where call site is {site.name}" in text.replace("\\", "")
    assert len([line for line in text.splitlines() if line.startswith("| ")]) == 2
    chip.get_by_role("button", name="Show all").click()
    expect(chip).to_be_hidden()
    assert window(page) == whole
    assert "only" not in view(page)


def test_the_axis_of_a_link_with_some_left_out_fits_them(kept_page: KeptPage) -> None:
    page = kept_page(trained).page
    whole = window(page)
    press(page, "+")
    closer = window(page)
    colour_by(page).select_option("size")
    assert window(page) == closer  # nothing is left out
    page.evaluate("location.hash = '#without=site:0&event=10'")
    expect(page.locator(".chip")).to_contain_text("is not")
    fitted = window(page)
    assert fitted["y1"] < whole["y1"]
    press(page, "+", "0")
    assert window(page) == fitted
    # Where the others peak is not where all did.
    press(page, "p")
    expect(page.locator(".moment h2")).to_contain_text("peak of what is shown")


def test_a_click_during_which_the_legend_is_drawn_again_counts(kept_page: KeptPage) -> None:
    page = kept_page(trained).page
    go_to(page, 5)
    title = page.locator(".legend h3").first
    before = title.inner_text()
    page.locator(".legend .group", has_text="before recording").hover()
    page.mouse.down()
    press(page, "]")
    expect(title).not_to_have_text(before)
    page.mouse.up()
    expect(page.locator(".legend .group[aria-pressed=true]")).to_have_count(1)
    # Rows that stay do what is right by then, not what was when they were made.
    page.get_by_role("button", name="only before recording").click()
    expect(page.locator(".chip")).to_contain_text("is before recording")


@pytest.mark.browser(webgl=True)
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


@pytest.mark.browser(webgl=True)
def test_both_ways_of_drawing_give_the_same_pixels(open_page: Opener) -> None:
    found = snapreport.load(SAMPLES / "training_step.pickle").findings()
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
    found = snapreport.load(SAMPLES / "expandable_segments.pickle.zst").findings()
    opened = open_page(found, viewport={"width": 1280, "height": 1700})
    page = opened.page
    page.evaluate("scrollTo(0, 400)")  # to the foot of the plot
    other = found.devices[0].history.other
    event = int(other.event[list(other.action).index("snapshot")])
    box = strips_box(page)
    page.mouse.move(*opened.strip_point(event, 0))
    press(page, *"++++++++++")  # at the pointer, until it is apart from its neighbours
    settle(page)
    place = event - window(page)["x0"]
    x = box["x"] + place / (window(page)["x1"] - window(page)["x0"]) * box["width"] + 1
    y = box["y"] + box["height"] + 3
    page.mouse.move(x, y)
    expect(page.locator(".tooltip")).to_contain_text("snapshot")
    expect(page.locator(".tooltip")).to_contain_text(f"{event}")
    page.mouse.click(x, y)
    assert abs(int(view(page)["event"]) - event) <= 1


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
        page.get_by_role("button", name=kind.upper(), exact=True).click()
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
    assert HOSTILE.replace("\x01", "\ufffd") in texts
    assert "peak 484.0 MiB" in texts
    assert "train step" in texts
    assert any(text and text.startswith("Held the peak") for text in texts)
    named = {(text or "").split("  ")[0] for text in texts}
    assert {label for label, _ in legend(page)[:3]} <= named
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


@pytest.mark.browser(webgl=True)
def test_switching_devices_keeps_each_view(open_page: Opener) -> None:
    small = DeviceSpec([Row(MIB, 1, None, (TORCH, USER, MAIN))], ordinal=1)
    page = open_page(findings(training(), small)).page
    press(page, "+", "+")
    zoomed = window(page)
    for index in (1, 0):
        page.locator(".switch a b").nth(index).click()
        page.wait_for_selector(f"html[data-ready='{index}']")
    assert window(page) == zoomed
    press(page, "0")
    settle(page)
    assert len(colours(page)) > 5


def test_what_is_in_view_but_not_live_at_the_cursor_has_a_name(kept_page: KeptPage) -> None:
    page = kept_page(trained).page
    also = page.locator(".legend ul.also li")
    page.locator(".plot").focus()
    press(page, "Home")
    go = page.locator('.moment-go input[type="number"]')
    go.fill("95")
    go.press("Enter")
    expect(page.locator(".legend h3").first).to_have_text("Live at event 95")
    expect(also.first).to_be_visible()
    assert ("before recording", "64.00 MiB") in legend(page)
    expect(also.filter(has_text="forward")).to_have_count(1)
    groups = "(all) => all.map((row) => row.dataset.group)"
    live = page.locator(".legend ul:not(.also) li").evaluate_all(groups)
    assert not set(live) & set(also.evaluate_all(groups))
    # Whoever leaves one out takes it from the picture, and so from the list.
    leave_out(page, "forward", ".also li")
    expect(also.filter(has_text="forward")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_strips_are_coloured_by_role_each_in_its_own_colour(open_page: Opener, scheme: str) -> None:
    loaded = snapreport.load(SAMPLES / "training_step.pickle")
    opened = open_page(loaded.findings(colour="role"), color_scheme=scheme)
    page = opened.page
    assert colour_by(page).input_value() == "role"
    device = loaded.device()
    held = {each.role: each for each in device.figures.held_by_role}
    assert legend(page) == [(each.role, format_bytes(each.bytes)) for each in held.values()]
    # Activations hold the most of the picture.
    strips = colours(page)
    plot = {"light": (250, 251, 252), "dark": (24, 27, 32)}[scheme]
    del strips[plot]
    assert strips.most_common(1)[0][0] == (0x68, 0x9F, 0x73)
    group = page.locator(".legend .group", has_text="optimizer state")
    title = group.get_attribute("title") or ""
    assert "What an optimizer keeps for each parameter" in title
    assert all(evidence_text(each) in title for each in held["optimizer state"].evidence)
    page.locator(".plot").scroll_into_view_if_needed()
    page.mouse.click(*opened.strip_point(400, 20 * MIB))
    page.locator(".details summary", has_text="Sizes").click()
    facts = page.locator(".details .facts-list").inner_text()
    row = int(view(page)["allocation"])
    assert device.allocations.role[row] == "parameter"
    assert f"Role\nparameter\nKnown by\n{device.allocations.role_evidence[row]} (" in facts


def test_what_no_evidence_tells_is_said_to_be_unknown(kept_page: KeptPage) -> None:
    opened = kept_page(trained)
    page = opened.page
    off = colour_by(page).locator("option[value=role]")
    assert off.get_attribute("title") == "All allocations have one role"
    page.mouse.click(*opened.strip_point(50, MIB))
    expect(page.locator(".details .facts-list")).to_contain_text("unknown")
    expect(page.locator(".details .facts-list")).to_contain_text("nothing tells")
