"""The page of a comparison: two timelines on linked axes, both reports, and no need of a script."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

import snapreport
from snapreport.diagnosis.compare.diff_types import Diff
from tests.browser.conftest import Opener, OpenPage
from tests.browser.test_sharing import violations_in_both_schemes
from tests.browser.timeline_tools import settle
from tests.corpus import NO_CORPUS, corpus_files, loaded, representative

pytestmark = pytest.mark.browser(webgl=False)
_FILES = [path for path in representative(corpus_files()) if "nothing" not in path.name]
PAIRS = [*pairwise(_FILES)][:4]
_FOLLOW = """hash => new Promise((done) => {
  addEventListener("hashchange", () => setTimeout(done), { once: true })
  location.hash = hash
})"""


@pytest.fixture
def compared(samples: Path) -> Diff:
    return snapreport.diff(samples / "training_step.pickle", samples / "out_of_memory.pickle.gz")


@pytest.fixture
def open_diff(open_page: Opener, compared: Diff, tmp_path: Path) -> Callable[..., OpenPage]:
    """Open the comparison of two samples."""
    path = snapreport.render_diff(compared, tmp_path / "diff.html")
    return partial(open_page, path)


@pytest.fixture
def without_script(open_diff: Opener) -> Opener:
    return partial(open_diff, java_script_enabled=False)


def plots(page: Page) -> list[Locator]:
    """The timelines of BASE and of NEW."""
    return page.locator("#compare .plot").all()


def bytes_of(text: str) -> int:
    """The exact bytes in a tooltip; what shrank is negative."""
    found = re.search(r"(-|\u2212)?([\d,]+) bytes", text)
    assert found is not None, text
    return int(found[2].replace(",", "")) * (-1 if found[1] else 1)


def root(page: Page) -> int:
    """The bytes of the root of the call tree."""
    cell = page.locator("#compare .tree-list .view .num span").first
    return bytes_of(cell.get_attribute("title") or "")


def link(page: Page) -> dict[str, str]:
    parts: str = page.evaluate("snapreport.link()")
    return dict(part.split("=", 1) for part in parts.split("&") if part)


def test_the_page_opens_at_the_compared_moments_and_asks_nobody(
    open_diff: Opener, compared: Diff
) -> None:
    opened = open_diff()
    page = opened.page
    settle(page)
    expect(page.locator("#compare .moment-title")).to_have_text(
        re.compile("^NEW has 2.21 GiB less")
    )
    assert bytes_of(page.locator("#compare .moment-title").get_attribute("title") or "") == -(
        compared.base.bytes - compared.new.bytes
    )
    text = page.locator("#compare .moment-where").inner_text()
    assert text.startswith("BASE at the peak (event 793): 4.45 GiB")
    assert link(page) == {}
    assert page.get_by_role("region", name="by call site").last.locator("tbody tr").count() == 19
    expect(page.locator(".folded-part")).to_have_count(0)  # both recordings are there in full
    opened.check()


def test_the_tree_adds_up_to_the_change_of_any_two_moments(
    open_diff: Opener, compared: Diff
) -> None:
    page = open_diff("#tab=stacks").page
    assert root(page) == compared.change
    curves = compared.curves()
    base, new = plots(page)
    for plot, keys in ((base, "[["), (new, "]]]")):
        plot.focus()
        for key in keys:
            page.keyboard.press(key)
    expect(page.locator("#compare .moment-where")).to_contain_text("event 791")
    now = link(page)
    assert now == {"tab": "stacks", "a": "791", "b": "121"}
    page.wait_for_timeout(100)
    assert root(page) == curves[1][122] - curves[0][792]
    page.get_by_role("button", name="As compared").click()
    assert link(page) == {"tab": "stacks"}
    page.wait_for_timeout(100)
    assert root(page) == compared.change


def test_a_link_opens_the_moments_the_window_and_the_tab(open_diff: Opener, compared: Diff) -> None:
    fragment = "#view=0,624,0,4e9&a=100&b=10&tab=lines"
    page = open_diff(fragment).page
    settle(page)
    expect(page.get_by_role("tab", name="Lines")).to_have_attribute("aria-selected", "true")
    curves = compared.curves()
    title = page.locator("#compare .moment-title")
    assert bytes_of(title.get_attribute("title") or "") == curves[1][11] - curves[0][101]
    shown = page.evaluate("snapreport.window()")
    assert (shown["x0"], shown["x1"]) == (0, 624)
    assert page.evaluate("snapreport.link()") == fragment[1:].replace("4e9", "4000000000")


@pytest.mark.skipif(not PAIRS, reason=NO_CORPUS)
@pytest.mark.parametrize(("one", "other"), PAIRS, ids=lambda path: path.name)
def test_real_files_differ_by_their_curves_at_any_two_moments(
    open_page: Opener, tmp_path: Path, one: Path, other: Path
) -> None:
    found = snapreport.diff(loaded(one), loaded(other))
    page = open_page(snapreport.render_diff(found, tmp_path / "diff.html")).page
    picked = random.Random(one.name)
    for curve in ("allocated", "requested"):
        sides = [
            (side.figures.curves[curve], side.figures.history) for side in (found.base, found.new)
        ]
        for k in range(4):
            a, b = (picked.randrange(-1, history.events) for _, history in sides)
            page.evaluate(_FOLLOW, f"#left={k}&curve={curve}&a={a}&b={b}")
            answer = page.evaluate("snapreport.answer()")
            held = [int(values[at + 1]) for (values, _), at in zip(sides, (a, b), strict=True)]
            live = [
                int(history.allocations.live_at(at, curve).sum())
                for (_, history), at in zip(sides, (a, b), strict=True)
            ]
            assert (answer["bytes"], answer["moved"]) == (held[1] - held[0], held[1] + held[0])
            assert answer["count"] == sum(live)


@pytest.mark.parametrize("axis", ["events", "time"])
def test_what_one_timeline_shows_the_other_shows_too(open_diff: Opener, axis: str) -> None:
    page = open_diff(f"#axis={axis}").page
    settle(page)
    windows = "snapreport.windows()"
    whole: list[dict[str, float]] = page.evaluate(windows)
    for plot, other in (plots(page), plots(page)[::-1]):
        plot.focus()
        for key in "+d+w":
            page.keyboard.press(key)
        settle(page)
        now: list[dict[str, float]] = page.evaluate(windows)
        assert now[0] != whole[0]
        assert (now[0]["y0"], now[0]["y1"]) == (now[1]["y0"], now[1]["y1"])
        for at in ("x0", "x1"):
            if axis == "time":
                assert now[0][at] == pytest.approx(now[1][at])
                continue
            shares = [
                (each[at] - all_["x0"]) / (all_["x1"] - all_["x0"])
                for each, all_ in zip(now, whole, strict=True)
            ]
            assert shares[0] == pytest.approx(shares[1])
        other.focus()
        page.keyboard.press("0")
        settle(page)
        assert page.evaluate(windows) == whole


def test_on_the_axis_of_time_both_have_the_same_scale(open_diff: Opener) -> None:
    page = open_diff("#axis=time").page
    base, new = page.evaluate("snapreport.windows()")
    assert base == new


def test_a_filter_of_one_timeline_filters_both_and_the_panels(
    open_diff: Opener, compared: Diff
) -> None:
    page = open_diff("#tab=stacks").page
    settle(page)
    rows = page.locator("#compare .legend").first.locator("li", has_text="activation")
    rows.get_by_role("button", name="only activation").click()
    page.wait_for_timeout(200)
    held = [
        sum(use.bytes for use in side.figures.held_by_role if use.role == "activation")
        for side in (compared.base, compared.new)
    ]
    assert root(page) == held[1] - held[0]
    expect(page.locator("#compare .chip")).to_contain_text("activation")
    legends = page.locator("#compare .live .legend").all()
    assert [each.locator("ul:not(.also) li:not(.left-out)").count() for each in legends] == [1, 1]
    page.get_by_role("tab", name="Groups").click()
    row = page.locator(".groups-panel li", has_text="activation")
    assert bytes_of(row.locator(".group").get_attribute("title") or "") == held[1] - held[0]


@pytest.fixture
def open_unlike(open_page: Opener, samples: Path, tmp_path: Path) -> Opener:
    """Open the comparison of a recording with one role and two streams, and one with one stream."""
    found = snapreport.diff(samples / "two_streams.pickle", samples / "training_step.pickle")
    return partial(open_page, snapreport.render_diff(found, tmp_path / "diff.html"))


@pytest.mark.parametrize(
    "fragment", ["only=role:0", "only=stage:0", "without=stream:1", "only=pool:0"]
)
def test_a_link_with_a_filter_counts_the_same_in_title_panels_and_timelines(
    open_unlike: Opener, fragment: str
) -> None:
    """Also where only one recording has several roles, stages or streams."""
    page = open_unlike().page
    plain = page.evaluate("snapreport.answer().bytes")
    page.evaluate(_FOLLOW, f"#{fragment}")
    title = page.locator("#compare .moment-title")
    asked = fragment != "only=pool:0"  # of which there is one
    expect(page.locator("#compare .chip")).to_have_count(int(asked))
    for _ in range(2):
        change = page.evaluate("snapreport.answer().bytes")
        assert (change != plain) == asked
        expect(title).to_have_attribute("title", f"{change:,} bytes")
        # And no window that nobody chose.
        assert page.evaluate("snapreport.link()") == (fragment if asked else "")
        page.evaluate("location.reload()")
        page.wait_for_selector("html[data-complete]")
        settle(page)


def test_a_colour_and_a_line_that_one_recording_has_are_offered(open_unlike: Opener) -> None:
    toolbar = open_unlike().page.locator("#compare .toolbar").first
    offered = toolbar.locator(".colour-by option:not([disabled])").all_inner_texts()
    assert offered == ["Call site", "Role", "Stage", "Size", "Lifetime", "Category", "Stream"]
    expect(toolbar.locator(".key-reserved")).to_be_visible()


def test_on_the_axis_a_drag_moves_the_cursor_and_no_key_pins_a_marker(open_diff: Opener) -> None:
    opened = open_diff()
    page = opened.page
    settle(page)
    plot = plots(page)[0]
    window = page.evaluate("snapreport.window()")
    left, bottom = opened.strip_point(200, window["y0"])
    page.mouse.move(left, bottom + 12)
    assert plot.get_attribute("data-over") == "axis"
    page.mouse.down()
    for event in (300, 450):
        page.mouse.move(opened.strip_point(event, 0)[0], bottom + 12)
        assert int(link(page)["a"]) == pytest.approx(event, abs=1)
    page.mouse.up()
    page.keyboard.press("1")
    page.keyboard.press("?")
    help_ = page.locator("dialog.help")
    expect(help_).to_contain_text("cursor to the event before or after")
    expect(help_).not_to_contain_text(re.compile("pin A|A, B and C|In the allocator|In stages"))
    assert page.evaluate("snapreport.window()") == window
    assert link(page).keys() == {"a"}


def test_steps_of_a_cursor_are_no_entries_in_the_history_and_tabs_are(open_diff: Opener) -> None:
    page = open_diff("#a=100&b=10").page
    settle(page)
    page.evaluate(
        """() => {
          window.pushed = []
          history.pushState = (...entry) => {
            pushed.push(entry[2])
            History.prototype.pushState.apply(history, entry)
          }
        }"""
    )
    plots(page)[1].focus()
    for key in "[[":
        page.keyboard.press(key)
        page.wait_for_function("key => location.hash === '#' + snapreport.link()", arg=key)
    assert link(page) == {"a": "100", "b": "8"}
    assert page.evaluate("pushed") == []
    page.get_by_role("tab", name="Lines").click()
    page.wait_for_function("() => location.hash.includes('tab=lines')")
    assert page.evaluate("pushed") == ["#a=100&b=8&tab=lines"]


def test_a_change_in_percent_reads_the_same_in_title_and_conclusion(open_diff: Opener) -> None:
    page = open_diff().page
    for place in (".conclusion", ".moment-title"):
        expect(page.locator(f"#compare {place}")).to_contain_text("(\u221250%)")


def test_in_a_low_window_the_tabs_are_in_sight(open_diff: Opener) -> None:
    page = open_diff(viewport={"width": 1000, "height": 600}).page
    settle(page)
    assert page.evaluate("document.documentElement.scrollHeight") <= 600
    tabs = page.locator("#compare .tab-row").bounding_box()
    assert tabs is not None
    assert tabs["y"] + tabs["height"] < 530
    strips = page.locator("#compare .strips").all()
    assert min(each.evaluate("e => e.clientHeight") for each in strips) > 25


def test_a_group_has_the_same_colour_in_both_timelines(open_diff: Opener) -> None:
    page = open_diff("#colour=site").page
    settle(page)
    colours: list[dict[str, str]] = page.evaluate(
        """[...document.querySelectorAll("#compare .live .legend")].map((legend) =>
          Object.fromEntries([...legend.querySelectorAll("li")].map((row) =>
            [row.querySelector(".group").title.split("\\n").slice(0, 2).join(),
             row.querySelector("svg *, i, .swatch").getAttribute("style")])))"""
    )
    shared = colours[0].keys() & colours[1].keys()
    assert len(shared) > 5
    assert all(colours[0][name] == colours[1][name] for name in shared)


def test_a_row_of_the_tree_is_highlighted_and_a_strip_is_marked_there(open_diff: Opener) -> None:
    opened = open_diff("#tab=stacks")
    page = opened.page
    settle(page)
    before = page.evaluate("[...snapreport.pixels().data].reduce((a, b) => a + b)")
    page.locator("#compare .tree-list .node", has_text="attend").first.click()
    settle(page)
    assert page.evaluate("[...snapreport.pixels().data].reduce((a, b) => a + b)") != before
    page.mouse.click(*opened.strip_point(350, 100 << 20))
    expect(page.locator("#compare .tree-list .leaf-end")).to_have_count(1)
    expect(page.locator("#compare .details")).to_have_count(1)


def test_a_function_is_found_and_shown_in_the_tree_of_both(open_diff: Opener) -> None:
    page = open_diff().page
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Find").fill("attend")
    page.get_by_role("option", name="attend").first.click()
    expect(page.get_by_role("tab", name="Call stacks")).to_have_attribute("aria-selected", "true")
    expect(page.locator("#compare .tree-list [aria-selected=true]")).to_contain_text("attend")
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Find").fill("NEW")
    page.get_by_role("option", name="NEW").first.click()
    expect(page.locator("#device-1")).to_be_visible()


def test_what_stands_at_the_end_of_the_page_is_at_the_end_of_the_first_tab(
    open_diff: Opener,
) -> None:
    page = open_diff().page
    page.get_by_text("About this page").locator("visible=true").click()
    expect(page.get_by_text("MIT").locator("visible=true").first).to_be_visible()
    page.set_viewport_size({"width": 600, "height": 800})
    expect(page.get_by_text("About this page").locator("visible=true")).to_have_count(1)


def test_nobody_is_left_out_of_any_tab(open_diff: Opener) -> None:
    page = open_diff().page
    for name in ("What changed", "Call stacks", "Lines", "Groups"):
        page.get_by_role("tab", name=name).click()
        assert not violations_in_both_schemes(page)


@pytest.mark.parametrize("side", [0, 1])
def test_each_recording_has_its_full_report_in_the_same_file(
    open_diff: Opener, compared: Diff, side: int
) -> None:
    opened = open_diff()
    page = opened.page
    page.locator(".switch a", has_text=("BASE", "NEW")[side]).click()
    page.wait_for_selector(f"html[data-complete='{side}']")
    article = page.locator(f"#device-{side}")
    expect(article).to_be_visible()
    expect(page.locator("#compare")).to_be_hidden()
    figures = (compared.base, compared.new)[side].figures
    exact = article.locator(".figures .headline data").get_attribute("value") or ""
    assert bytes_of(exact) == figures.peak.allocated
    assert article.locator(".finding").count() > 0
    expect(article.get_by_role("tab", name="Allocator")).to_be_visible()
    article.get_by_role("tab", name="Recording").click()
    hashed = (compared.base, compared.new)[side].source.sha256
    expect(article.locator(".recording-panel")).to_contain_text(hashed)
    page.locator(".switch a", has_text="Compare").click()
    expect(page.locator("#compare")).to_be_visible()
    assert len(plots(page)) == 2
    opened.check()


def test_each_report_names_its_own_lines_and_the_comparison_those_of_new(
    open_page: Opener, tmp_path: Path
) -> None:
    from tests.builders import MIB, frame, trace

    def recorded(line: int, size: int) -> snapreport.Snapshot:
        frames = [frame("layer", "model.py", line), frame("main", "train.py", 3)]
        made = trace().alloc("a", size, frames=frames).alloc("b", MIB, frames=frames).free("b")
        return snapreport.Snapshot(made.file())

    found = snapreport.diff(recorded(10, MIB), recorded(12, 3 * MIB))
    page = open_page(snapreport.render_diff(found, tmp_path / "d.html"), "#tab=stacks").page
    expect(page.locator("#compare .tree-list .node").last).to_contain_text("layer model.py:12")
    assert page.locator("#compare .tree-list .node").count() == 3
    assert root(page) == 2 * MIB
    for side, line in (("BASE", 10), ("NEW", 12)):
        page.locator(".switch a", has_text=side).click()
        tree = page.locator("article:visible .tree-list .node").last
        expect(tree).to_contain_text(f"model.py:{line}")


def test_a_side_without_a_history_is_compared_in_the_panels(
    open_page: Opener, samples: Path, tmp_path: Path
) -> None:
    found = snapreport.diff(samples / "state_only.pickle", samples / "training_step.pickle")
    page = open_page(snapreport.render_diff(found, tmp_path / "d.html"), "#tab=stacks").page
    assert root(page) == found.change


@pytest.mark.parametrize("curve", ["requested", "reserved"])
def test_the_page_counts_the_curve_that_was_compared(
    open_page: Opener, samples: Path, tmp_path: Path, curve: str
) -> None:
    names = ("training_step.pickle", "out_of_memory.pickle.gz")
    found = snapreport.diff(*(samples / name for name in names), curve=curve)
    page = open_page(snapreport.render_diff(found, tmp_path / "d.html"), "#tab=stacks").page
    shown = curve if curve == "requested" else "allocated"  # timelines stack no reserved bytes
    curves = [side.figures.curves[shown] for side in (found.base, found.new)]
    moments = (found.base.event, found.new.event)
    held = [int(each[event + 1]) for each, event in zip(curves, moments, strict=True)]
    assert root(page) == held[1] - held[0]
    expect(page.locator("#compare .moment-title")).to_contain_text(shown)


def test_nothing_sticks_out_of_a_narrow_screen(open_diff: Opener) -> None:
    for size in ({"width": 390, "height": 844}, {"width": 1000, "height": 600}):
        page = open_diff(viewport=size).page
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]


# Without a script.


def test_without_a_script_the_page_says_the_conclusion_and_has_the_tables(
    without_script: Opener,
) -> None:
    opened = without_script()
    page = opened.page
    said = page.locator(".conclusion").inner_text()
    assert said.startswith("NEW peaks 2.21 GiB lower (\u221250%)")
    table = page.get_by_role("region", name="by call site").first
    assert table.locator("tbody tr").count() == 19
    assert page.locator("tfoot td").nth(3).inner_text() == "\u22122,372,807,680"
    assert page.locator("article.device").count() == 3
    opened.check()


def test_the_page_is_styled_by_what_it_holds(without_script: Opener) -> None:
    page = without_script().page
    fill = "element => getComputedStyle(element).fill"
    less = page.locator(".delta .less").first.evaluate(fill)
    assert less not in ("", "rgb(0, 0, 0)")
    line = "element => getComputedStyle(element).stroke"
    colours = [page.locator(f".curves .{k}-line").first.evaluate(line) for k in ("base", "new")]
    assert colours[0] != colours[1]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_follows_the_scheme(without_script: Opener, scheme: str) -> None:
    page = without_script(color_scheme=scheme).page
    page_colour = "getComputedStyle(document.documentElement).backgroundColor"
    red = int(page.evaluate(page_colour).removeprefix("rgb(").split(",")[0])
    assert (red > 128) == (scheme == "light")


def test_without_a_script_nothing_sticks_out_either(without_script: Opener) -> None:
    page = without_script(viewport={"width": 400, "height": 800}).page
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    table = page.get_by_role("region", name="by call site").first
    assert table.evaluate("element => element.scrollWidth - element.clientWidth") <= 0


def test_on_paper_the_page_is_light(open_diff: Opener) -> None:
    page: Any = open_diff(color_scheme="dark").page
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(27, 31, 38)"
    expect(page.locator("#compare .changes.still")).to_be_visible()
    expect(page.locator("#compare .live").first).to_be_hidden()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    pictures = page.locator("#compare .printed")
    assert [each.is_visible() for each in pictures.all()] == [True, True]
    expect(page.locator("#compare .both")).to_be_hidden()


def test_a_curve_does_not_cross_out_the_labels_of_the_axis(without_script: Opener) -> None:
    page = without_script().page
    style: list[str] = page.locator("#compare .marks text").first.evaluate(
        "element => [getComputedStyle(element).paintOrder, getComputedStyle(element).stroke]"
    )
    plot = page.locator("#compare .plot-area").evaluate("e => getComputedStyle(e).backgroundColor")
    assert style == ["stroke", plot]


def test_a_screen_reader_is_told_what_the_picture_shows(without_script: Opener) -> None:
    page = without_script().page
    picture = page.get_by_role("img", name="Allocated bytes of both recordings")
    assert "BASE 4.45 GiB, NEW 2.24 GiB" in (picture.get_attribute("aria-label") or "")
    for region in page.locator("main [role=region]").all():
        assert region.get_attribute("aria-label")


def test_the_moment_compared_lies_on_the_curve(without_script: Opener) -> None:
    page = without_script().page
    for side in ("base", "new"):
        top = page.locator(f".curves .{side}-line").first.evaluate(
            "element => element.getBoundingClientRect().top"
        )
        dot = page.locator(f"circle.{side}-mark").first.bounding_box()
        assert dot is not None
        assert dot["y"] + dot["height"] / 2 == pytest.approx(top, abs=2.5)
