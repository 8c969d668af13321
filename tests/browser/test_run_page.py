"""The page of a run in a browser: the map, the rank that is looked at, and strangers' texts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from dev.benchmarks.runs.facts import example_run
from snapreport.ground.units import format_bytes
from snapreport.model.run import Run, RunFindings, coarser
from snapreport.reporters.run_page import write_run_page
from tests.browser.conftest import Opener, OpenPage, Tabs, opener
from tests.browser.test_page import settle
from tests.browser.test_sharing import violations_in_both_schemes
from tests.hostile_text import FORBIDDEN_ELEMENTS
from tests.unit.reporters.test_run_reports import hostile

pytestmark = pytest.mark.browser

RUN, FINDINGS = example_run(40, steps=6, events=2000)
HEAVY, FAILED = 10, 20
OVER = [0xE0, 0x43, 0x1F]
"""The colour of what is above the scale, in light."""


def write(path: Path, made: tuple[Run, RunFindings] = (RUN, FINDINGS)) -> Path:
    with path.open("wb") as out:
        run, findings = made
        write_run_page(run, findings, out, {"rank3.pickle": "ranks/rank3.html"})
    return path


@pytest.fixture(scope="module")
def opened_run(tabs: Tabs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenPage]:
    folder = tmp_path_factory.mktemp("run")
    with opener(tabs, folder, webgl=True) as open_:
        yield open_(write(folder / "run.html"))


@pytest.fixture
def run_page(opened_run: OpenPage) -> Iterator[Page]:
    """The page with everything in sight, as each test leaves it to the next."""
    page = opened_run.page
    page.locator(".heat-plot").focus()
    page.keyboard.press("0")
    settle(page)
    yield page
    opened_run.check()


def rows(page: Page) -> list[str]:
    found: list[str] = page.evaluate("window.snapreport.rows()")
    return found


def test_a_rank_far_above_is_seen_and_does_not_flatten_the_others(run_page: Page) -> None:
    lines: list[list[list[int]]] = run_page.evaluate(
        """() => {
          const { data, width, height } = window.snapreport.pixels()
          return Array.from({ length: height }, (_, y) =>
            Array.from({ length: width >> 4 }, (_, x) => {
              const at = 4 * (y * width + 16 * x)
              return [...data.slice(at, at + 3)]
            }),
          )
        }"""
    )
    count = len(rows(run_page))
    over = {int(y * count / len(lines)) for y, line in enumerate(lines) if OVER in line}
    assert over == {rows(run_page).index(f"rank {HEAVY}")}
    assert (
        len({tuple(pixel) for line in lines for pixel in line}) > 12
    )  # the others have many shades
    most = format_bytes(RUN.ranks[HEAVY].devices[0].allocated)
    expect(run_page.locator(".heat-legend")).to_contain_text(f"above that, up to {most}")


def test_without_webgl_the_cells_are_the_same(
    run_page: Page, tabs: Tabs, tmp_path: Path, opened_run: OpenPage
) -> None:
    pixels = """() => {
      const { data, width, height } = window.snapreport.pixels()
      const all = new Uint32Array(data.buffer)
      return [width, height, ...all.filter((_, k) => k % 97 === 0)]
    }"""
    with opener(tabs, tmp_path, webgl=False) as open_:
        other = open_(opened_run.path).page
        settle(other)
        plain, drawn = other.evaluate(pixels), run_page.evaluate(pixels)
        assert len(plain) == len(drawn) > 3000
        # Where two cells meet within a pixel, each way may take the other one.
        assert sum(a != b for a, b in zip(plain, drawn, strict=True)) < 0.02 * len(plain)
        expect(other.locator(".heat .note")).to_contain_text("no WebGL2")


def test_a_click_tells_the_most_in_that_cell(run_page: Page) -> None:
    box = run_page.locator(".heat-plot .strips").bounding_box()
    assert box is not None
    place = rows(run_page).index("rank 6")
    height = box["height"] / len(rows(run_page))
    x, y = box["x"] + box["width"] * 0.6, box["y"] + (place + 0.5) * height
    run_page.mouse.move(x, y)
    expect(run_page.locator(".heat-plot .tooltip")).to_contain_text("rank 6")
    run_page.mouse.click(x, y)
    details = run_page.locator(".side.details")
    expect(details.locator("h3")).to_have_text("rank 6")
    said = details.locator("section", has_text="ms to").or_(
        details.locator("section", has_text="s to")
    )
    shown = said.first.locator("dd").first
    exact = int((shown.get_attribute("title") or "").replace(",", "").split()[0])
    cells = RUN.ranks[6].devices[0].by_time
    assert cells is not None
    whole = run_page.evaluate("window.snapreport.window()")
    first = min(
        each.first << each.shift
        for each in (rank.devices[0].by_time for rank in RUN.ranks if rank.devices)
        if each is not None
    )
    at = int(first + whole["x0"] + 0.6 * (whole["x1"] - whole["x0"]))
    wide = coarser(cells, cells.shift)
    near = {int(wide.allocated[(at >> wide.shift) - wide.first + step]) for step in (-1, 0, 1)}
    assert exact in near
    assert shown.inner_text() == format_bytes(exact)


def test_keys_move_from_cell_to_cell_and_keep_curves(run_page: Page) -> None:
    run_page.locator(".finding[data-row]").nth(2).locator("summary").click()
    run_page.get_by_role("button", name="Show in the heat map").nth(1).click()
    looked = "window.snapreport.looked()"
    assert run_page.evaluate(looked) == f"rank {FAILED}"
    for key, label in (("ArrowDown", f"rank {FAILED + 1}"), ("ArrowUp", f"rank {FAILED}")):
        run_page.keyboard.press(key)
        assert run_page.evaluate(looked) == label
    run_page.keyboard.press("k")
    expect(run_page.locator(".curve-keys li")).to_contain_text([f"rank {FAILED}", "median of"])
    run_page.keyboard.press("PageUp")
    expect(run_page.locator(".curve-keys li")).to_contain_text(["rank 10", "rank 20", "median of"])
    before = run_page.evaluate("window.snapreport.window()")
    run_page.keyboard.press("+")
    after = run_page.evaluate("window.snapreport.window()")
    assert after["x1"] - after["x0"] < before["x1"] - before["x0"]
    assert after["y1"] - after["y0"] < before["y1"] - before["y0"]
    run_page.get_by_role("button", name="Leave rank 20 out").click()
    expect(run_page.locator(".side.details [role=alert]")).to_have_count(0)


def test_sorting_and_filters_hold_for_the_map_and_the_table(run_page: Page) -> None:
    table = run_page.locator(".ranks-list")
    table.get_by_role("button", name="Peak allocated").click()
    assert rows(run_page)[0] == f"rank {HEAVY}"
    expect(table.locator(".view .row").first).to_contain_text(f"rank {HEAVY}")
    search = run_page.get_by_role("searchbox")
    search.fill("3-5, node003")
    assert sorted(rows(run_page), key=lambda name: int(name.split()[1])) == [
        f"rank {k}" for k in (3, 4, 5, *range(24, 32))
    ]
    expect(run_page.locator(".toolbar .found")).to_have_text("11 of 37 rows")
    expect(table.get_by_role("link", name="rank 3", exact=True)).to_have_attribute(
        "href", "ranks/rank3.html"
    )
    search.fill("")
    table.get_by_role("button", name=re.compile("^Rank")).click()
    assert rows(run_page) == [f"rank {k}" for k in range(40) if k not in (37, 38, 39)]


def test_steps_are_an_axis_with_the_peaks_of_steps(run_page: Page) -> None:
    run_page.get_by_text("Step", exact=True).click()
    settle(run_page)
    assert run_page.evaluate("window.snapreport.window()")["x1"] == 6
    run_page.locator(".ranks-list .row", has_text=re.compile(r"^rank 2\D")).first.click()
    said = run_page.locator(".side.details .facts-list").first
    peaks = {step.allocated for step in RUN.ranks[2].devices[0].steps}
    exact = said.locator("dd").first.get_attribute("title") or ""
    assert int(exact.replace(",", "").split()[0]) in peaks
    expect(said).to_contain_text("Left at its end")
    expect(run_page.locator(".side.details h4").first).to_have_text(re.compile(r"^In step \d$"))
    expect(run_page.get_by_label("Reserved", exact=True)).to_be_disabled()
    run_page.get_by_text("Time", exact=True).click()


def test_everybody_can_read_it(run_page: Page) -> None:
    assert violations_in_both_schemes(run_page) == []


def test_without_a_script_all_is_there_to_read(open_page: Opener, tmp_path: Path) -> None:
    page = open_page(write(tmp_path / "run.html"), java_script_enabled=False).page
    expect(page.locator(".conclusion")).to_have_text(FINDINGS.headline.replace("`", ""))
    expect(page.locator(".heat-still path.over")).to_have_count(1)
    expect(page.locator(".ranks-still tbody tr")).to_have_count(37)
    expect(page.get_by_role("button", name="Show in the heat map")).to_have_count(0)


def test_cells_fill_the_map_where_a_pixel_of_css_is_several(
    open_page: Opener, tmp_path: Path
) -> None:
    page = open_page(write(tmp_path / "run.html"), device_scale_factor=2).page
    settle(page)
    plot, picture = (
        page.locator(each).bounding_box() for each in (".heat-plot", ".heat-plot .picture")
    )
    assert plot is not None
    assert picture is not None
    assert abs(plot["width"] - picture["width"]) < 1
    assert abs(plot["height"] - picture["height"]) < 1


@pytest.mark.browser(webgl=False)
def test_strangers_texts_run_and_fetch_nothing(open_page: Opener, tmp_path: Path) -> None:
    opened = open_page(write(tmp_path / "run.html", hostile((RUN, FINDINGS), 3)))
    page = opened.page
    for _ in range(6):
        page.locator(".heat-plot").press("ArrowDown")
        page.locator(".heat-plot").press("k")
    box = page.locator(".heat-plot .strips").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.locator(".heat-plot .tooltip")).to_be_visible()
    page.get_by_role("searchbox").fill("</script>")
    settle(page)
    assert page.evaluate("window.fired") is None
    assert page.locator(FORBIDDEN_ELEMENTS).count() == 0
