"""The page inside of other programs' frames, as notebooks and editors show it.

None of these programs runs here. Each case has what their documents and sources say of the frame:
its sandbox, the policy around it, and what is put into the page.
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Frame, Route, expect

import snapreport
from tests.browser.conftest import Kind, OpenPage, Tabs

NOTEBOOK_POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self'"
    " 'unsafe-inline'; img-src 'self' https: http: data:; font-src 'self' https:;"
    " connect-src https:; child-src https: data:"
)
"""Of the frame in which VS Code shows the outputs of a notebook, if its setting asks for one."""
EDITOR = "allow-scripts allow-same-origin allow-forms allow-pointer-lock allow-downloads"
"""The sandbox of VS Code's webviews."""

PAGE = "http://host.test/files/report.html"
RELOADER = "http://host.test/reloader.js"
"""What Live Preview puts into each page, before all else: it listens for changes of the file."""
RELOADING = """
addEventListener("load", () => { new WebSocket("ws://host.test/").onerror = () => {} })
"""

WRITE = """(text) => {
  const inside = document.querySelector("iframe").contentDocument
  inside.open()
  inside.write(text)
  inside.close()
}"""
BLOB = """(text) => {
  const url = URL.createObjectURL(new Blob([text], { type: "text/html" }))
  document.querySelector("iframe").src = url
}"""


@dataclass(frozen=True)
class Host:
    """Where a page is shown."""

    frame: str
    """The frame's attributes; PAGE stands for the text of the page, as an attribute."""
    policy: str = ""
    """Of what is around the frame."""
    served: str = ""
    """The policy with which the page is served."""
    added: str = ""
    """What is put at the start of the page's head."""
    script: str = ""
    """What puts the page into the frame."""
    errors: int = 0
    """How often a policy stops something, which is only what each case says."""


HOSTS = {
    "a file in Jupyter": Host(
        'src="/files/report.html"', served="frame-ancestors 'self'; sandbox allow-scripts"
    ),
    # No worker may start there, so the page paints by itself.
    "a cell's output in VS Code": Host('srcdoc="PAGE"', policy=NOTEBOOK_POLICY, errors=1),
    "a frame of an origin of its own": Host('srcdoc="PAGE" sandbox="allow-scripts"'),
    "a webview of VS Code": Host(f'sandbox="{EDITOR}"', script=WRITE),
    "an artifact in MLflow": Host('sandbox="allow-scripts allow-same-origin"', script=BLOB),
    # It cannot connect, so it does not reload.
    "Live Preview in VS Code": Host(
        f'src="/files/report.html" sandbox="{EDITOR}"',
        added=f'<script src="{RELOADER}"></script>',
        errors=1,
    ),
}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, samples: Path) -> Path:
    folder = tmp_path_factory.mktemp("framed")
    return snapreport.render(samples / "two_streams.pickle", folder / "report.html")


@pytest.mark.parametrize("name", HOSTS)
def test_the_page_works_in_the_frame_of(name: str, tabs: Tabs, report: Path) -> None:
    host = HOSTS[name]
    text = report.read_text(encoding="utf-8")
    shown = text.replace("<head>", f"<head>{host.added}", 1)
    around = f"<meta http-equiv='Content-Security-Policy' content=\"{host.policy}\">"
    frame = host.frame.replace("PAGE", html.escape(shown))
    outside = f'<!doctype html>{around}<iframe {frame} width="1200" height="800"></iframe>'

    def answer(route: Route) -> None:
        if route.request.url == PAGE:
            headers = {"Content-Security-Policy": host.served} if host.served else {}
            route.fulfill(body=shown, content_type="text/html", headers=headers)
        elif route.request.url == RELOADER:
            route.fulfill(body=RELOADING, content_type="text/javascript")
        else:
            route.fulfill(body=outside, content_type="text/html")

    page = tabs.make(Kind(webgl=True), "")
    page.route("http://host.test/**", answer)
    opened = OpenPage(page, report)
    opened.listen()
    page.goto("http://host.test/")
    if host.script:
        page.evaluate(host.script, shown)
    inside = page.frames[1]
    inside.wait_for_selector("html[data-complete]")
    _use(inside)
    asked = {url for url in opened.requests if not url.startswith("blob:")}
    assert asked <= {"http://host.test/", PAGE, RELOADER, "about:srcdoc"}
    assert len(opened.errors) == host.errors, opened.errors
    assert all("violates the following Content Security Policy" in each for each in opened.errors)
    page.context.close()


def _use(inside: Frame) -> None:
    """Zoom, so that a worker paints, and open another tab, where every event has a row."""
    _settle(inside)
    before = inside.evaluate("window.snapreport.window()")
    plot = inside.locator(".plot:visible").first
    plot.click()
    plot.press("+")
    _settle(inside)
    assert inside.evaluate("window.snapreport.window()")["x1"] < before["x1"]
    assert inside.evaluate("window.snapreport.pixels().data.some((each) => each)")
    inside.get_by_role("tab", name="Events").click()
    expect(inside.locator(".events-list [data-event]").first).to_be_visible()


def _settle(inside: Frame) -> None:
    """Wait for the picture of the present window, as ``timeline_tools.settle`` does for a page."""
    for _ in range(400):
        if inside.evaluate("window.snapreport.settled()"):
            return
        inside.wait_for_timeout(25)
    raise AssertionError("never settled")
