"""The page of a comparison in a browser: offline, without a script, on any screen."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

import snapreport
from tests.browser.conftest import Opener

pytestmark = pytest.mark.browser


@pytest.fixture
def open_diff(open_page: Opener, samples: Path, tmp_path: Path) -> Opener:
    """Open the comparison of two samples; it has no script, so none may run."""
    found = snapreport.diff(samples / "training_step.pickle", samples / "out_of_memory.pickle.gz")
    path = snapreport.render_diff(found, tmp_path / "diff.html")
    return partial(open_page, path, java_script_enabled=False)


def test_the_page_opens_offline_and_says_the_conclusion(open_diff: Opener) -> None:
    opened = open_diff()
    page = opened.page
    assert (
        page.locator(".conclusion").inner_text().startswith("NEW peaks 2.21 GiB lower (\u221250%)")
    )
    assert page.get_by_role("region", name="by call site").locator("tbody tr").count() == 19
    assert page.locator("tfoot td").nth(3).inner_text() == "\u22122,372,807,680"
    opened.check()


def test_the_page_is_styled_by_what_it_holds(open_diff: Opener) -> None:
    page = open_diff().page
    fill = "element => getComputedStyle(element).fill"
    less = page.locator(".delta .less").first.evaluate(fill)
    assert less not in ("", "rgb(0, 0, 0)")
    line = "element => getComputedStyle(element).stroke"
    colours = [page.locator(f".curves .{k}-line").first.evaluate(line) for k in ("base", "new")]
    assert colours[0] != colours[1]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_follows_the_scheme(open_diff: Opener, scheme: str) -> None:
    page = open_diff(color_scheme=scheme).page
    page_colour = "getComputedStyle(document.documentElement).backgroundColor"
    red = int(page.evaluate(page_colour).removeprefix("rgb(").split(",")[0])
    assert (red > 128) == (scheme == "light")


def test_progress_and_time_are_switched_by_key(open_diff: Opener) -> None:
    page = open_diff().page
    shown = [page.locator(".by-events"), page.locator(".by-time")]
    assert [figure.is_visible() for figure in shown] == [True, False]
    page.get_by_role("radio", name="By progress").focus()
    page.keyboard.press("ArrowRight")
    assert [figure.is_visible() for figure in shown] == [False, True]


def test_nothing_sticks_out_of_a_narrow_screen(open_diff: Opener) -> None:
    page = open_diff(viewport={"width": 400, "height": 800}).page
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    table = page.get_by_role("region", name="by call site")
    assert table.evaluate("element => element.scrollWidth - element.clientWidth") <= 0


def test_on_paper_the_page_is_light_and_has_no_switch(open_diff: Opener) -> None:
    page = open_diff(color_scheme="dark").page
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(27, 31, 38)"
    assert not page.get_by_role("radio", name="By progress").is_visible()
    assert page.locator(".by-events").is_visible()


def test_a_screen_reader_is_told_what_the_picture_shows(open_diff: Opener) -> None:
    page = open_diff().page
    picture = page.get_by_role("img", name="Allocated bytes of both recordings by progress")
    assert "BASE 4.45 GiB, NEW 2.24 GiB" in (picture.get_attribute("aria-label") or "")
    assert page.get_by_role("img", name="Stages of BASE").first.is_visible()
    for region in page.locator("main [role=region]").all():
        assert region.get_attribute("aria-label")


def test_the_moment_compared_lies_on_the_curve(open_diff: Opener) -> None:
    page = open_diff().page
    for side in ("base", "new"):
        top = page.locator(f".curves .{side}-line").first.evaluate(
            "element => element.getBoundingClientRect().top"
        )
        dot = page.locator(f"circle.{side}-mark").first.bounding_box()
        assert dot is not None
        assert dot["y"] + dot["height"] / 2 == pytest.approx(top, abs=2.5)
