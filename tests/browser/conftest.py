"""A headless Chromium without a network, and pages made from findings."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Error, Page, expect, sync_playwright

from snapreport.model.findings import Findings
from snapreport.reporters.html import HtmlReporter

# Software graphics on a busy machine: what comes at all may come late.
expect.set_options(timeout=20_000)

# Chromium has one list of what is off, the last one given, so Playwright's own is here again.
_OFF = [
    "AimEnabled",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsFirstBalancedModeAutoEnable",
    "HttpsUpgrades",
    "LensOverlay",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "PaintHolding",
    "PreconnectToSearch",
    "ThirdPartyStoragePartitioning",
    # Each window has an address bar that nobody sees, whose popups are pages in a process of their
    # own: they took more than half of all that opening one of our pages did.
    "WebUIOmniboxAimPopup",
    "WebUIOmniboxFullPopup",
    "WebUIOmniboxPopup",
    # A process in reserve for the next page, which mostly belongs to another context.
    "SpareRendererForSitePerProcess",
]

_ARGUMENTS = [
    "--no-sandbox",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    # WebGL is what we draw with; that the rest of the screen is put together by the same software
    # graphics tests nothing of ours and is a third of all the work.
    "--disable-gpu-compositing",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    f"--disable-features={','.join(_OFF)}",
]


# What another test would find changed in a tab: paper, colours and size.
_LOOK = """[matchMedia("print").matches, matchMedia("(prefers-color-scheme: dark)").matches,
  matchMedia("(prefers-reduced-motion)").matches, innerWidth, innerHeight, devicePixelRatio]"""
_CLEAR = "localStorage.clear(), sessionStorage.clear()"
_MODIFIERS = ("Shift", "Control", "Alt", "Meta")


class Window:
    """A context of the browser; its first tab is used again by tests that want one like it.

    A process for each page took longer than all that most tests do in it.
    """

    def __init__(self, context: BrowserContext, kind: tuple[str, str]) -> None:
        self.context = context
        self.kind = kind
        """The script that runs before the page's own, and the context's options."""
        self._first = context.new_page()
        if kind[0]:
            self._first.add_init_script(kind[0])
        self._look = self._first.evaluate(_LOOK)
        self._used: list[Page] = []
        self._heard: list[tuple[Page, Any, Callable[[Any], None]]] = []

    def first_tab(self) -> Page:
        """The tab for the page that a test opens; it knows the script that runs before."""
        self._used.append(self._first)
        self._first.set_default_timeout(20_000)
        return self._first

    def take_tab(self) -> Page:
        """One more tab, in front of it."""
        page = self.context.new_page()
        self._used.append(page)
        return page

    def listen(self, page: Page, event: Any, call: Callable[[Any], None]) -> None:
        """Call something at an event of a tab, until the window is emptied."""
        page.on(event, call)
        self._heard.append((page, event, call))

    def empty(self) -> bool:
        """Empty the first tab and close the others; say whether all is as new."""
        try:
            as_new = all(page.evaluate(_LOOK) == self._look for page in self._used)
            for page in self._used:
                if page.url.startswith("file:"):
                    page.evaluate(_CLEAR)
            for page, event, call in self._heard:
                page.remove_listener(event, call)
            for page in self.context.pages:
                if page is not self._first:  # what lies behind another tab is drawn seldom
                    page.close()
            for key in _MODIFIERS:
                self._first.keyboard.up(key)
            self._first.mouse.up()
            self._first.goto("about:blank")
            self._first.mouse.move(0, 0)
        except Error:  # closed, crashed or hanging
            return False
        self._used, self._heard = [], []
        return as_new


class Windows:
    """The windows that no test uses just now."""

    MOST = 5

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._free: list[Window] = []

    def take(self, before: str, options: dict[str, Any]) -> Window:
        """A window with these options whose first tab runs a script before the page's own."""
        kind = (before, repr(sorted(options.items())))
        for window in self._free:
            if window.kind == kind:
                self._free.remove(window)
                return window
        return Window(self._browser.new_context(offline=True, **options), kind)

    def give_back(self, window: Window) -> None:
        """Keep an emptied window for another test, or close it."""
        if window.empty():
            self._free.append(window)
        else:
            window.context.close()
        if len(self._free) > self.MOST:
            self._free.pop(0).context.close()


@dataclass
class OpenPage:
    """A page that was opened, and what it did that it should not."""

    page: Page
    path: Path
    window: Window
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def strip_point(self, step: float, bytes_: float) -> tuple[float, float]:
        """Where a step and a height in bytes lie on the screen while everything is shown."""
        box = self.page.locator(".strips").bounding_box()
        whole = self.page.evaluate("window.snapreport.window()")
        assert box is not None
        across = (step + 0.5 - whole["x0"]) / (whole["x1"] - whole["x0"])
        up = (bytes_ - whole["y0"]) / (whole["y1"] - whole["y0"])
        return box["x"] + across * box["width"], box["y"] + (1 - up) * box["height"]

    def reopen(self, link: str) -> Page:
        """Open an address in a tab of its own: a change of the fragment alone loads nothing."""
        page = self.window.take_tab()
        self.listen(page)
        page.goto(link)
        page.wait_for_selector("html[data-complete]")
        return page

    def listen(self, page: Page) -> None:
        """Hear what a tab asks for and what fails in it."""
        self.window.listen(page, "request", lambda request: self.requests.append(request.url))
        self.window.listen(page, "pageerror", lambda error: self.errors.append(str(error)))
        self.window.listen(
            page,
            "console",
            lambda said: self.errors.append(said.text) if said.type == "error" else None,
        )

    def check(self) -> None:
        """Fail if the page asked for anything but itself or logged an error."""
        others = [url for url in self.requests if not url.startswith(("blob:", self.path.as_uri()))]
        assert others == []
        assert self.errors == []


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests: the system's Chromium, else Playwright's own."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=_ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def windows(browser: Browser) -> Windows:
    """The windows of all tests' pages."""
    return Windows(browser)


Opener = Callable[..., OpenPage]


@pytest.fixture
def open_page(windows: Windows, tmp_path: Path) -> Iterator[Opener]:
    """Render findings, or take a page file, and open it from ``file:`` with the network off."""
    opened: list[OpenPage] = []

    def open_(
        source: Findings | Path, *, before: str = "", ready: bool = True, **context: Any
    ) -> OpenPage:
        if isinstance(source, Path):
            path = source
        else:
            path = tmp_path / f"report-{len(opened)}.html"
            out = io.BytesIO()
            HtmlReporter().render(source, out)
            path.write_bytes(out.getvalue())
        context.setdefault("viewport", {"width": 1280, "height": 900})
        window = windows.take(before, context)
        result = OpenPage(window.first_tab(), path, window)
        opened.append(result)
        result.listen(result.page)
        result.page.goto(path.as_uri())
        if ready and context.get("java_script_enabled", True):
            result.page.wait_for_selector("html[data-complete]")
        return result

    yield open_
    for result in opened:
        windows.give_back(result.window)
    for result in opened:
        result.check()
