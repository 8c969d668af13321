"""Strings that attack, in every place of a page at once, with a network there: none fires."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Browser, Dialog, Page

import snapreport
from tests.browser.listing import frames
from tests.browser.test_page import settle, until
from tests.browser.timeline_tools import NO_WEBGL
from tests.hostile_text import (
    ATTACKS,
    FORBIDDEN_ELEMENTS,
    NAMES,
    attacks,
    is_calm,
    write_snapshot,
)
from tests.ready_workers import fork_workers
from tests.thorough import IN_FULL
from tests.unit.reporters.test_hostile_outputs import check_markdown

pytestmark = pytest.mark.browser(webgl=False)

_WATCH = """
window.violations = []
window.copied = []
addEventListener("securitypolicyviolation", (event) =>
  violations.push(event.effectiveDirective + " " + event.blockedURI))
if (navigator.clipboard) navigator.clipboard.writeText = async (text) => copied.push(text)
"""

# Every text and attribute that a reader can come upon; scripts and their data are none.
_TEXTS = """() => {
  const found = [document.title]
  const shown = NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT
  const walker = document.createTreeWalker(document.body, shown)
  for (let node = walker.currentNode; node; node = walker.nextNode()) {
    if (node.nodeType === Node.TEXT_NODE) {
      if (!["SCRIPT", "STYLE"].includes(node.parentElement.tagName)) found.push(node.data)
    } else for (const attribute of node.attributes) found.push(attribute.value)
  }
  const odd = /[\\p{Cc}\\p{Cf}\\p{Cs}\\p{Zl}\\p{Zp}]/u
  return found.filter((text) => odd.test(text.replace(/[\\n\\t]/g, "")))
}"""


@dataclass
class Elsewhere:
    """A server that attacks name, and what was asked of it."""

    origin: str
    asked: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Elsewhere]:
    found = Elsewhere("")

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(PAGES.get(self.path, "").encode())

        do_POST = do_HEAD = do_OPTIONS = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            """Say nothing of requests."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    found.origin = f"http://127.0.0.1:{server.server_port}"
    yield found
    server.shutdown()
    server.server_close()


PAGES: dict[str, str] = {}
"""What the server answers, by path; nothing to all others."""


@dataclass
class Watched:
    """A page with the network on, and all that it did."""

    page: Page
    address: str
    elsewhere: Elsewhere
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    def dismiss(self, dialog: Dialog) -> None:
        """Keep what a dialog says, and close it."""
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def check(self) -> None:
        """Fail if any attack came to anything."""
        page = self.page
        assert page.evaluate("window.fired") is None
        assert (
            page.locator(FORBIDDEN_ELEMENTS).evaluate_all("all => all.map(e => e.outerHTML)") == []
        )
        assert page.evaluate("violations") == []
        assert page.evaluate("Object.keys(Object.prototype)") == []
        assert [text for text in page.evaluate(_TEXTS) if not is_calm(text)] == []
        assert page.url.split("#")[0] == self.address
        ours = (self.address, "blob:")
        assert [url for url in self.requests if not url.startswith(ours)] == []
        assert (self.errors, self.dialogs, self.others) == ([], [], [])
        assert self.elsewhere.asked == []


Watch = Callable[[str], Watched]


@contextmanager
def watching(browser: Browser, elsewhere: Elsewhere) -> Iterator[Watch]:
    """What opens pages with the network on, and listens to all that they do."""
    contexts = []

    def open_(address: str) -> Watched:
        context = browser.new_context(
            viewport={"width": 1280, "height": 900}, accept_downloads=True
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        watched = Watched(page, address, elsewhere)
        page.on("request", lambda request: watched.requests.append(request.url))
        page.on("pageerror", lambda error: watched.errors.append(str(error)))
        page.on("dialog", watched.dismiss)
        context.on("page", lambda other: watched.others.append(other.url))
        page.on(
            "console",
            lambda said: watched.errors.append(said.text) if said.type == "error" else None,
        )
        page.add_init_script(_WATCH + NO_WEBGL)
        elsewhere.asked.clear()
        page.goto(address)
        return watched

    yield open_
    for context in contexts:
        context.close()


@pytest.fixture
def watch(browser: Browser, elsewhere: Elsewhere) -> Iterator[Watch]:
    """Open a page with the network on, and listen to all that it does."""
    with watching(browser, elsewhere) as open_:
        yield open_


@pytest.fixture(scope="module")
def snap(tmp_path_factory: pytest.TempPathFactory, elsewhere: Elsewhere) -> Path:
    return write_snapshot(tmp_path_factory.mktemp("hostile") / NAMES[0], elsewhere.origin)


@pytest.fixture(scope="module")
def pages(snap: Path) -> dict[str, str]:
    """The report, a comparison, and the page of a run, of files with odd names."""
    other = write_snapshot(snap.with_name(NAMES[2]))
    found = snapreport.diff(snap, other)
    with pytest.MonkeyPatch.context() as patch:
        fork_workers(patch)
        run = snapreport.render_run([snap, other], snap.parent / "many").path
    assert run is not None
    return {
        "report": snapreport.render(snap, snap.parent / "report.html").as_uri(),
        "diff": snapreport.render_diff(found, snap.parent / "diff.html").as_uri(),
        "run": run.as_uri(),
    }


@pytest.fixture(scope="module")
def opened_report(
    browser: Browser, elsewhere: Elsewhere, pages: dict[str, str]
) -> Iterator[Watched]:
    """The report, which takes long to open: for all tests that leave it as a reader would."""
    with watching(browser, elsewhere) as open_:
        found = open_(pages["report"])
        found.page.wait_for_selector("html[data-complete]")
        yield found


@pytest.fixture
def watched(opened_report: Watched) -> Watched:
    opened_report.page.evaluate("copied.length = 0, scrollTo(0, 0)")
    return opened_report


def test_no_attack_fires_when_the_page_opens(watched: Watched) -> None:
    assert "window.fired='script'" in watched.page.locator("body").inner_text()
    watched.check()
    watched.page.emulate_media(media="print")
    if IN_FULL:  # Chromium takes ten seconds for so strange a text
        assert len(watched.page.pdf(page_ranges="1-3")) > 10_000
    watched.check()
    watched.page.emulate_media(media="screen")


def test_no_attack_fires_in_any_panel(watched: Watched) -> None:
    page = watched.page
    names = [name for name in page.get_by_role("tab").all_inner_texts() if name]
    assert len(names) >= 7
    searches = [
        ATTACKS[name] for name in ("picture-that-fails", "sql", "bidi-override", "template")
    ]
    for name in names:
        page.get_by_role("tab", name=name, exact=True).click()
        frames(page)
        panel = page.locator(".panel:visible")
        for row in panel.locator("[data-row]:visible").all()[: 6 if IN_FULL else 2]:
            row.hover()
            row.click(position={"x": 200, "y": 8})
            page.keyboard.press("ArrowRight")
        for box in panel.locator("input[type=search]:visible, input[type=text]:visible").all():
            for text in searches:
                box.fill(text)
                box.press("Enter")
                frames(page)
            box.fill("")
        for choice in panel.locator("select:visible").all():
            for value in choice.locator("option:enabled").evaluate_all(
                "all => all.map(o => o.value)"
            ):
                choice.select_option(value)
                frames(page)
        view = panel.locator(".view:visible")
        if view.count():
            view.first.evaluate(
                "async (e) => { for (let y = 0; y < e.scrollHeight; y += e.clientHeight) "
                "{ e.scrollTop = y; await new Promise(requestAnimationFrame) } }"
            )
        for button in panel.get_by_role("button", name="Copy").all():
            if button.is_visible():
                button.click()
        watched.check()
    assert [text for text in page.evaluate("copied") if not is_calm(text)] == []


def test_no_attack_fires_in_the_finder(watched: Watched) -> None:
    page = watched.page
    for name in ("picture-that-fails", "svg-that-loads", "clobbered-names", "bidi-override", "sql"):
        page.keyboard.press("Control+k")
        page.locator(".finder input").fill(ATTACKS[name][:40])
        page.wait_for_timeout(150)
        watched.check()
        page.locator(".finder input").fill(ATTACKS[name][:4])
        page.wait_for_timeout(50)
        watched.check()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        frames(page)
        watched.check()
        if page.locator(".finder").is_visible():
            page.keyboard.press("Escape")


def test_no_attack_fires_in_the_timeline_and_what_it_says(watched: Watched) -> None:
    page = watched.page
    box = page.locator(".strips").bounding_box()
    assert box is not None
    top = box["y"] - 60
    for across in range(1, 12):
        for down in range(14):
            page.mouse.move(
                box["x"] + across * box["width"] / 12, top + down * (box["height"] + 60) / 14
            )
    choice = page.get_by_label("Colour by").locator("visible=true")
    colours = choice.locator("option:enabled").evaluate_all("all => all.map(o => o.value)")
    assert len(colours) > 3
    for k, colour in enumerate(colours):
        choice.select_option(colour)
        settle(page)
        page.mouse.click(box["x"] + 0.9 * box["width"], box["y"] + (0.9 - k / 20) * box["height"])
        pick(page, 8 * k)
        watched.check()
    page.locator(".plot").focus()
    for key in ("?", "Escape", "]", "[", "p", "+", "0"):
        page.keyboard.press(key)
    watched.check()


def pick(page: Page, allocation: int) -> None:
    """Follow a link to an allocation; the page may just be writing a link of its own there."""
    details = page.locator(f".details[data-allocation='{allocation}']:visible")
    for _ in range(100):
        page.evaluate(f"location.hash = 'allocation={allocation}'")
        frames(page)
        if details.count():
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"allocation {allocation} was not shown")


# Follows the link to each allocation, as pick() does, and copies its call stack: all in the page,
# since to ask the browser for each costs many times what the page does.
_COPY_EACH = """async (count) => {
  const drawn = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))
  for (let k = 0; k < count; k++) {
    let details = null
    for (let tries = 0; tries < 500 && !details; tries++) {
      location.hash = `tab=recording&allocation=${k}` // a panel that stays as it is
      await drawn()
      details = document.querySelector(`.details[data-allocation="${k}"]`)
    }
    details.querySelector(".stack button").click()
    while (window.copied.length <= k) await drawn()
  }
}"""


def test_every_allocation_is_copied_as_text_and_markdown(watched: Watched) -> None:
    page = watched.page
    page.evaluate(_COPY_EACH, len(ATTACKS))
    page.get_by_role("button", name="Copy as Markdown").click()
    until(page, f"copied.length === {len(ATTACKS) + 1}")
    *stacks, markdown = page.evaluate("copied")
    for stack in stacks:
        assert is_calm(stack)
        assert stack.count("\n") == 1  # two frames
    check_markdown(markdown)
    watched.check()


def test_pictures_that_are_saved_hold_text_alone(watched: Watched) -> None:
    page = watched.page
    for kind in ("SVG", "PNG"):
        with page.expect_download() as saved:
            page.get_by_role("button", name=kind).locator("visible=true").click()
        data = Path(saved.value.path()).read_bytes()
        assert is_calm(saved.value.suggested_filename)
        if kind == "SVG":
            root = ElementTree.fromstring(data)
            space = "{http://www.w3.org/2000/svg}"
            tags = {element.tag.removeprefix(space) for element in root.iter()}
            assert tags <= {"svg", "title", "g", "path", "rect", "text", "clipPath"}
            assert is_calm(data.decode())
            for element in root.iter():
                assert not [name for name in element.attrib if name.startswith("on")]
        else:
            assert data.startswith(b"\x89PNG")
    watched.check()


@pytest.mark.parametrize("kind", ["diff", "run"])
def test_no_attack_fires_in_the_other_pages(watch: Watch, pages: dict[str, str], kind: str) -> None:
    watched = watch(pages[kind])
    text = "<script>" if kind == "run" else "window.fired='"
    assert text in watched.page.locator("body").inner_text()
    watched.check()


_INSERT = """(texts) => {
  for (const [name, text] of texts) {
    document.body.insertAdjacentHTML("beforeend", text)
    const script = document.createElement("script")
    script.textContent = `window.fired = ${JSON.stringify(name)}`
    document.body.append(script)
  }
}"""


@pytest.mark.parametrize("kind", ["report", "diff", "run"])
def test_the_policy_alone_would_stop_them(
    watch: Watch, pages: dict[str, str], elsewhere: Elsewhere, kind: str
) -> None:
    page = watch(pages[kind]).page
    # A page can be left, which no policy forbids: that attack is kept off by being text.
    texts = attacks(elsewhere.origin)
    page.evaluate(_INSERT, [[name, texts[name]] for name in texts if name != "refresh"])
    page.locator("a[href^=javascript]").first.evaluate("link => link.click()")
    page.locator("form button").first.evaluate("button => button.click()")
    page.wait_for_timeout(500)
    assert page.evaluate("window.fired") is None
    assert elsewhere.asked == []
    assert page.url.split("#")[0] == pages[kind]
    stopped = {each.split()[0] for each in page.evaluate("violations")}
    assert {"script-src-elem", "script-src-attr", "img-src", "style-src-elem"} <= stopped


def test_the_attacks_do_fire_where_nothing_stops_them(watch: Watch, elsewhere: Elsewhere) -> None:
    fired = set()
    page = watch("about:blank").page
    for name, text in attacks(elsewhere.origin).items():
        if "window.fired" in text:
            address = f"/page/{name}"
            PAGES[address] = (
                f"<!doctype html><body><script>'{text}'</script><p title=\"{text}\">{text}"
            )
            page.goto(f"{elsewhere.origin}{address}")
            page.wait_for_timeout(100)
            if page.evaluate("window.fired") == name or f"/{name}" in elsewhere.asked:
                fired.add(name)
    assert len(fired) >= 12, fired
