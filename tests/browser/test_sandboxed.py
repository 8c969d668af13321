"""The page where a site shows strangers' files: in a sandbox, without an origin of its own.

GitHub opens an artifact that is no zip in the browser; GitLab and others show pages in frames.
"""

from __future__ import annotations

import io
from typing import cast

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from snapreport.reporters.page_report import write_report
from tests.browser.builders import MIB, findings, training
from tests.browser.conftest import OpenPage
from tests.browser.test_page import settle, strip_colours
from tests.browser.timeline_tools import CARD, PLAIN
from tests.conftest import REPOSITORY

PAGE, SITE = "https://files.example/report.html", "https://site.example/"
FRAME = f"""<body style="margin: 0">
<iframe sandbox="allow-scripts" src="{PAGE}" style="width: 1280px; height: 900px; border: 0">"""


@pytest.mark.parametrize("framed", [False, True], ids=["by its header", "in a frame"])
def test_in_a_sandbox_the_page_draws_and_answers(browser: Browser, framed: bool) -> None:
    out = io.BytesIO()
    write_report(findings(training()), out)
    sandbox = {} if framed else {"Content-Security-Policy": "sandbox allow-scripts"}

    def serve(route: Route) -> None:
        if route.request.url == SITE:
            route.fulfill(body=FRAME, headers={"Content-Type": "text/html"})
        else:
            route.fulfill(body=out.getvalue(), headers={"Content-Type": "text/html", **sandbox})

    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.add_init_script(CARD if framed else PLAIN)
    context.route("**", serve)
    opened = OpenPage(context.new_page(), REPOSITORY)
    opened.listen()
    opened.page.goto(SITE if framed else PAGE)
    page = cast("Page", opened.page.frames[-1])
    page.wait_for_selector("html[data-complete]")
    assert page.evaluate("self.origin") == "null"

    settle(page)
    assert len([count for count in strip_colours(page).values() if count > 200]) >= 8
    x, y = OpenPage(page, REPOSITORY).strip_point(30, (64 + 3 * 32 + 16) * MIB)
    opened.page.mouse.click(x, y)
    expect(page.locator(".details")).to_have_attribute("data-allocation", "4")
    assert "allocation=4" in page.evaluate("window.snapreport.link()")
    page.get_by_role("tab", name="Recording").click()
    page.get_by_label("Event", exact=True).fill("12")
    page.get_by_label("Event", exact=True).press("Enter")
    expect(page.locator(".moment h2")).to_contain_text("event 12")
    page.get_by_label("Colour by").select_option("size")
    settle(page)
    assert "colour=size" in page.evaluate("window.snapreport.link()")
    context.close()
    assert opened.errors == []
    asked = [url for url in opened.requests if not url.startswith("blob:")]
    assert asked == ([SITE, PAGE] if framed else [PAGE])
