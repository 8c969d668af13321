"""A link that the terminal explorer gives shows the same view on the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from snapreport import render
from tests.browser.conftest import Opener
from tests.browser.test_page import until
from tests.explorer.exploring_tools import Explored

pytestmark = pytest.mark.browser(webgl=False)


def test_the_page_takes_every_part_of_a_link(
    open_page: Opener, samples: Path, tmp_path: Path
) -> None:
    source = samples / "training_step.pickle"
    page = open_page(render(source, tmp_path / "report.html")).page
    explored = Explored(source)
    views = (
        ("@", *"300", "enter", "4", "i", *"model.py", "enter"),
        ("2", "+", "+", "up"),
        ("2", "t", "+", "L"),
        ("3", "u", "h", "/", *"forward", "enter"),
        ("v", "8", "i", *"alloc", "space", *">=1MiB", "enter"),
        ("6",),
    )
    for keys in views:
        link = explored.press(*keys).panes.desk.link
        page.evaluate("link => { location.hash = '#' + link }", link)
        until(page, f"window.snapreport.link() === {link!r}")
        assert page.evaluate("window.snapreport.link()") == link
    expect(page.get_by_role("tab", name="Stages")).to_have_attribute("aria-selected", "true")
