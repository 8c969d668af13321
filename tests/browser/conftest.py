"""A headless Chromium without a network, and pages made from findings."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Error,
    Locator,
    Page,
    Request,
    ViewportSize,
    expect,
    sync_playwright,
)

import snapreport
from dev.benchmarks.page import launch
from snapreport.model.findings import DeviceFindings, Findings
from snapreport.reporters.page_report import write_report
from tests.browser.timeline_tools import CARD, PLAIN
from tests.conftest import REPOSITORY
from tests.corpus import corpus_files, findings_of, representative

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

ARGUMENTS = [
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

    def listen(self) -> None:
        """Keep what it asks for, and its errors."""
        self.page.on("request", self._keep_request)
        self.page.on("pageerror", self._keep_error)
        self.page.on("console", self._keep_message)

    def stop_listening(self) -> None:
        """Hear no more of the tab: the next page in it is another's."""
        self.page.remove_listener("request", self._keep_request)
        self.page.remove_listener("pageerror", self._keep_error)
        self.page.remove_listener("console", self._keep_message)

    def _keep_request(self, request: Request) -> None:
        self.requests.append(request.url)

    def _keep_error(self, error: Error) -> None:
        self.errors.append(str(error))

    def _keep_message(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def strip_point(self, event: float, bytes_: float) -> tuple[float, float]:
        """Where an event and a height in bytes lie on the screen while everything is shown."""
        x, y = self.page.evaluate(_STRIP_POINT, [event, bytes_])
        return x, y

    def others(self) -> list[str]:
        """What the page asked for besides itself."""
        return [url for url in self.requests if not url.startswith(("blob:", self.path.as_uri()))]

    def is_well(self) -> bool:
        """Whether the page did nothing that it should not."""
        return not self.others() and not self.errors

    def check(self) -> None:
        """Fail if the page asked for anything but itself or logged an error."""
        assert self.others() == []
        assert self.errors == []


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests."""
    with sync_playwright() as playwright:
        chromium = launch(playwright, ARGUMENTS)
        yield chromium
        chromium.close()


Opener = Callable[..., OpenPage]

_STRIP_POINT = """([event, bytes]) => {
  const seen = [...document.querySelectorAll(".strips")].find((each) => each.checkVisibility())
  const { x, y, width, height } = seen.getBoundingClientRect()
  const { x0, x1, y0, y1 } = window.snapreport.window()
  return [
    x + ((event + 0.5 - x0) / (x1 - x0)) * width,
    y + (1 - (bytes - y0) / (y1 - y0)) * height,
  ]
}"""

_VIEWPORT: ViewportSize = {"width": 1280, "height": 900}


@dataclass(frozen=True)
class Kind:
    """What a tab is made with for good."""

    webgl: bool
    """Whether there are WebGL, run by what passes for a graphics card, and a worker."""
    java_script_enabled: bool = True


class Tabs:
    """Tabs of each kind, used in turn.

    A tab of its own is a process of its own, which takes nearly as long to start as a page to open.
    """

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.kept: dict[Kind, list[Page]] = defaultdict(list)

    def take(self, kind: Kind) -> Page:
        """Return a tab that is empty, and nobody else's until it is given back."""
        if self.kept[kind]:
            return self.kept[kind].pop()
        return self.make(kind, "", viewport=_VIEWPORT)

    def make(self, kind: Kind, before: str, **context: Any) -> Page:
        """Return a new tab, in which a script runs before those of each page."""
        made = self.browser.new_context(
            offline=True, java_script_enabled=kind.java_script_enabled, **context
        )
        for script in (before, CARD if kind.webgl else PLAIN):
            if script:
                made.add_init_script(script)
        page = made.new_page()
        page.set_default_timeout(20_000)
        return page

    def give_back(self, page: Page, kind: Kind) -> None:
        """Leave a page behind as if it had never been open."""
        for other in page.context.pages:
            if other is not page:
                other.close()
        page.evaluate("localStorage.clear(), sessionStorage.clear()")
        page.goto("about:blank")  # first: the page would lay itself out anew at each of these
        page.mouse.up()
        page.mouse.move(0, 0)
        page.keyboard.up("Shift")
        page.emulate_media(media="null", color_scheme="light")
        page.set_viewport_size(_VIEWPORT)
        self.kept[kind].append(page)


@pytest.fixture(scope="session")
def tabs(browser: Browser) -> Tabs:
    """The tabs that tests share."""
    return Tabs(browser)


@pytest.fixture
def open_page(request: pytest.FixtureRequest, tabs: Tabs, tmp_path: Path) -> Iterator[Opener]:
    """Render findings, or take a page file, and open it from ``file:`` with the network off.

    Software emulates WebGL here, which takes long, and a worker takes its time to start. Tests of
    what is around the picture go without both: they are marked ``browser(webgl=False)``.
    """
    marker = request.node.get_closest_marker("browser")
    with opener(tabs, tmp_path, webgl=marker.kwargs.get("webgl", True)) as open_:
        yield open_


@contextmanager
def opener(tabs: Tabs, folder: Path, *, webgl: bool) -> Iterator[Opener]:
    """What ``open_page`` is for one test; pages are rendered into a folder."""
    opened: list[OpenPage] = []
    shared: dict[Page, Kind] = {}

    def open_(
        source: Findings | Path,
        fragment: str = "",
        *,
        before: str = "",
        ready: bool = True,
        **context: Any,
    ) -> OpenPage:
        if isinstance(source, Path):
            path = source
        else:
            path = folder / f"report-{len(opened)}.html"
            out = io.BytesIO()
            write_report(source, out)
            path.write_bytes(out.getvalue())
        kind = Kind(webgl, context.pop("java_script_enabled", True))
        if before or context.keys() - {"viewport", "color_scheme"}:
            page = tabs.make(kind, before, **{"viewport": _VIEWPORT, **context})
        else:
            page = tabs.take(kind)
            shared[page] = kind
            if "viewport" in context:
                page.set_viewport_size(context["viewport"])
            if "color_scheme" in context:
                page.emulate_media(color_scheme=context["color_scheme"])
        result = OpenPage(page, path)
        opened.append(result)
        result.listen()
        page.goto(path.as_uri() + fragment)
        if ready and kind.java_script_enabled:
            page.wait_for_selector("html[data-complete]")
        return result

    yield open_
    for result in opened:
        result.stop_listening()
        if result.page in shared and not result.errors and not result.page.is_closed():
            tabs.give_back(result.page, shared[result.page])
        else:
            result.page.context.close()
        result.check()


Source = Path | Callable[[], Findings]
"""What a page is of: a page that was written, a snapshot, or what makes findings."""

# Follows two links, of which the first one also lets go of the group that was chosen: together they
# set all that a link can tell of, as it was at first. Then what no link tells of.
_AT_FIRST = """async () => {
  const followed = (hash) => new Promise((done) => {
    addEventListener("hashchange", done, { once: true })
    location.hash = hash
  })
  document.querySelectorAll("dialog[open]").forEach((each) => each.close())
  document.querySelectorAll(".toolbar [aria-pressed=true]").forEach((each) => each.click())
  await followed(`#colour=size&left=${Math.random()}`)
  await followed("")
  delete navigator.clipboard?.writeText
  document.activeElement.blur()
  scrollTo(0, 0)
  document.querySelectorAll(".view, .panel").forEach((each) => each.scrollTo(0, 0))
  const drawn = () => new Promise(requestAnimationFrame)
  await drawn()
  await drawn()
}"""


class KeptPages:
    """Pages that stay open, each for all tests that leave nothing behind that no link tells of.

    To open a page and to leave it takes as much work as all that most tests do on it.
    """

    def __init__(self, tabs: Tabs, folder: Path) -> None:
        self.tabs = tabs
        self.folder = folder
        self.kept: dict[Source, tuple[OpenPage, ExitStack]] = {}

    def take(self, source: Source) -> OpenPage:
        """Return the page of a source, as it was when it was opened."""
        if source in self.kept:
            opened, _ = self.kept[source]
            opened.page.evaluate(_AT_FIRST)
            return opened
        stack = ExitStack()
        folder = self.folder / str(len(self.kept))
        folder.mkdir(exist_ok=True)
        open_ = stack.enter_context(opener(self.tabs, folder, webgl=False))
        shown = source if isinstance(source, Path) and source.suffix == ".html" else found(source)
        opened = open_(shown)
        self.kept[source] = opened, stack
        return opened

    def leave(self, source: Source, *, failed: bool) -> None:
        """Check what a test did; after one that failed, the next gets a new page."""
        opened, stack = self.kept[source]
        opened.page.mouse.up()
        opened.page.mouse.move(0, 0)
        opened.page.keyboard.up("Shift")
        if opened.page.viewport_size != _VIEWPORT:
            opened.page.set_viewport_size(_VIEWPORT)
        if failed or not opened.is_well():
            del self.kept[source]
            stack.close()  # which checks, too


def found(source: Source) -> Findings:
    """Return the findings of a source."""
    return findings_of(source) if isinstance(source, Path) else source()


@pytest.fixture(scope="session")
def _kept_pages(tabs: Tabs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeptPages]:
    pages = KeptPages(tabs, tmp_path_factory.mktemp("kept"))
    yield pages
    for _, stack in pages.kept.values():
        stack.close()


KeptPage = Callable[[Source], OpenPage]


@pytest.fixture
def kept_page(request: pytest.FixtureRequest, _kept_pages: KeptPages) -> Iterator[KeptPage]:
    """Take the page of a source that is kept open, without WebGL and a worker, as at first.

    For tests that change what a link tells of, and of all else only where the pointer is, what has
    the focus, which tool is chosen, how far page and lists are scrolled, which nodes of a tree are
    open, how large the window is, and whether the list of keys is shown. All other tests open a
    page of their own.
    """
    taken: list[Source] = []
    failed_before = request.session.testsfailed

    def take(source: Source) -> OpenPage:
        if source not in taken:
            taken.append(source)
        return _kept_pages.take(source)

    yield take
    for source in taken:
        _kept_pages.leave(source, failed=request.session.testsfailed > failed_before)


def snapshots() -> list[Path]:
    """Our samples, and the files of the corpus folder where one is named."""
    samples = REPOSITORY / "sample_snapshots"
    kinds = ("*.pickle", "*.pkl", "*.pickle.gz", "*.pickle.zst", "*.json")
    return sorted([*(path for kind in kinds for path in samples.glob(kind)), *corpus_files()])


@dataclass
class FilePage:
    """The page of a file, for several tests one after the other, in any order.

    Each test opens the panel that it reads, and goes to the steps that it asks for. The window is
    small and without WebGL, which software emulates here: what is drawn is tested elsewhere.
    """

    file: Path
    found: Findings
    opened: OpenPage
    at_first: Any
    """What ``SITES`` gave of the default device when the page had just been opened."""
    made: set[int]
    """Devices that were shown before."""

    @property
    def page(self) -> Page:
        """The page itself."""
        return self.opened.page

    def show(self, device: int) -> Locator:
        """Show a device, where there are several; returns its part of the page."""
        if len(self.found.devices) > 1:
            self.page.locator(".switch a b").nth(device).click()
            if device not in self.made:
                self.page.wait_for_selector(f"html[data-complete='{device}']")
                self.made.add(device)
        part = self.page.locator(f"#device-{device}")
        expect(part).to_be_visible()
        return part


_SITES = """(part) => [
  part.querySelector("[role=treegrid] .view .num span")?.title,
  ...["legend ul:not(.also) li", "sites tbody tr"].map((rows) =>
    [...part.querySelectorAll(`.${rows}`)].map((row) => ["code", "code + span", "b, td"].map(
      (each) => row.querySelector(each)?.textContent.trim() ?? "")))]
"""


def sites(part: Locator, device: DeviceFindings, colour: str) -> Any:
    """What is shown first: the root of the call tree, the legend by role and by site, the table.

    The root's bytes are in words; all else are rows. A page that opens by site has no legend by
    role yet.
    """
    if not len(device.history.allocations):
        return None
    if device.recorded:  # the list beside the picture comes a moment after it
        expect(part.get_by_role("list", name=f"By {colour}", exact=True)).to_be_visible()
    root, legend, table = part.evaluate(_SITES)
    if colour == "site" or not device.recorded:
        return root, [], legend, table
    assert colour == "role"
    choice = part.get_by_label("Colour by")
    choice.select_option("site")
    expect(part.get_by_role("list", name="By site", exact=True)).to_be_visible()
    by_site = part.evaluate(_SITES)[1]
    choice.select_option(colour)
    return root, legend, by_site, table


@pytest.fixture(scope="session", params=representative(snapshots()), ids=lambda path: path.name)
def _file_page(
    request: pytest.FixtureRequest, tabs: Tabs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FilePage]:
    with opener(tabs, tmp_path_factory.mktemp("file"), webgl=False) as open_:
        found = snapreport.load(request.param).findings()
        opened = open_(found, viewport={"width": 1000, "height": 600})
        part = opened.page.locator(f"#device-{found.default}")
        default = found.devices[found.default] if found.devices else None
        at_first = sites(part, default, found.colour) if default else None
        yield FilePage(request.param, found, opened, at_first, {found.default})


@pytest.fixture
def file_page(_file_page: FilePage) -> Iterator[FilePage]:
    """The page of each file, its default device in sight; its tests follow each other."""
    if _file_page.found.devices:
        _file_page.show(_file_page.found.default)
    yield _file_page
    _file_page.opened.check()
