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
from playwright.sync_api import Browser, Page, expect, sync_playwright

from snapreport.model.findings import Findings
from snapreport.reporters.page.page_report import HtmlReporter

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


@dataclass
class OpenPage:
    """A page that was opened, and what it did that it should not."""

    page: Page
    path: Path
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


Opener = Callable[..., OpenPage]


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Opener]:
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
        page = browser.new_context(offline=True, **context).new_page()
        page.set_default_timeout(20_000)
        result = OpenPage(page, path)
        opened.append(result)
        page.on("request", lambda request: result.requests.append(request.url))
        page.on("pageerror", lambda error: result.errors.append(str(error)))
        page.on(
            "console",
            lambda message: result.errors.append(message.text) if message.type == "error" else None,
        )
        if before:
            page.add_init_script(before)
        page.goto(path.as_uri())
        if ready and context.get("java_script_enabled", True):
            page.wait_for_selector("html[data-complete]")
        return result

    yield open_
    for result in opened:
        result.page.context.close()
        result.check()
