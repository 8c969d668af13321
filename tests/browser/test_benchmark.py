"""The benchmark of pages: ours, and PyTorch's with its files from a folder."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, sync_playwright

import snapreport
from dev.benchmarks import page
from dev.benchmarks.measure import viewer
from dev.benchmarks.measure.browser import measure_pages
from dev.benchmarks.measure.peers import PeerError
from dev.benchmarks.measure.targets import OUR_PAGE, VIEWER
from dev.benchmarks.measure.viewer import check_viewer, file_for
from dev.benchmarks.page import Run, launch
from tests.browser.conftest import ARGUMENTS
from tests.unit.benchmarks.fake_peers import MOVED, PAGE, SLOW_VIEWER, viewer_files
from tests.unit.benchmarks.fake_peers import VIEWER as SCRIPT

REPOSITORY = Path(__file__).resolve().parents[2]
SAMPLE = REPOSITORY / "sample_snapshots" / "two_streams.pickle"


def test_an_address_stands_for_a_file() -> None:
    assert file_for("https://cdn.skypack.dev/d3@5") == "d3.js"
    assert file_for("https://cdn.skypack.dev/d3-axis@1?min") == "d3-axis.js"
    assert file_for("https://cdn.jsdelivr.net/gh/o/r@main/torch/utils/viz/MemoryViz.js") == (
        "MemoryViz.js"
    )


def test_a_missing_file_of_the_viewer_is_named(tmp_path: Path) -> None:
    folder = viewer_files(tmp_path / "viewer")
    check_viewer(folder)
    (folder / "d3.js").unlink()
    with pytest.raises(PeerError, match=r"holds no d3\.js"):
        check_viewer(folder)


def test_files_beside_the_script_are_needed_too(tmp_path: Path) -> None:
    folder = viewer_files(tmp_path / "viewer", SLOW_VIEWER)
    with pytest.raises(PeerError, match=r"holds no process_alloc_data\.js"):
        check_viewer(folder)
    (folder / "process_alloc_data.js").write_text(MOVED)
    check_viewer(folder)


@pytest.mark.browser
def test_a_slow_page_is_not_dragged_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = viewer_files(tmp_path / "viewer", SLOW_VIEWER)
    counted = MOVED.replace("{", "{\n  console.log('moved');", 1)
    (folder / "process_alloc_data.js").write_text(counted)
    theirs = tmp_path / "theirs.html"
    theirs.write_text(PAGE)
    monkeypatch.setattr(viewer, "PLAY_SECONDS", 0.5)
    moves: list[str] = []
    noted: list[Run] = []

    def listen(context: BrowserContext) -> None:
        context.on("console", lambda message: moves.append(message.text))

    def play() -> Run:
        with sync_playwright() as playwright:
            browser = launch(playwright)
            browser.on("context", listen)
            return viewer.measure_viewer(browser, theirs, folder, lambda run: noted.append(run))

    with ThreadPoolExecutor(1) as thread:
        run = thread.submit(play).result()
    assert set(run.frames) == {"pan", "zoom"}
    assert all(run.frames.values())
    assert len(moves) < 120  # a drag alone has 120 moves
    assert noted[-1] == run


@pytest.mark.browser
@pytest.mark.parametrize(
    ("broken", "seconds", "why"),
    [
        ("throw new Error('too | large')", 100, "too | large"),
        ("while (true) continue", 1, "not done after 1 s"),
    ],
)
def test_a_page_without_a_picture_spoils_nothing_else(
    tmp_path: Path, broken: str, seconds: float, why: str
) -> None:
    script = SCRIPT.replace("document.body", f"{broken};\n  document.body")
    folder = viewer_files(tmp_path / "viewer", script)
    theirs = tmp_path / "theirs.html"
    theirs.write_text(PAGE)
    (found,) = measure_pages([("sample", VIEWER, theirs)], 2, folder, seconds)
    assert found.failed == why
    assert math.isnan(found.first_ms)
    assert found.waited_ms == (1000 if "not done" in why else 0)
    assert found.bytes == theirs.stat().st_size


@pytest.mark.browser
def test_a_picture_is_presented_after_it_was_painted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "ACTIONS", {})
    ours = snapreport.render(SAMPLE, tmp_path / "ours.html")

    def opened() -> Run:
        with sync_playwright() as playwright, launch(playwright, ARGUMENTS) as browser:
            return page.measure(browser, ours)

    with ThreadPoolExecutor(1) as thread:
        run = thread.submit(opened).result()
    assert 0 < run.still_ms <= run.presented_ms
    assert run.first_picture_ms <= run.presented_ms + 1


@pytest.mark.browser
def test_both_pages_are_measured_without_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "ARGUMENTS", ARGUMENTS)
    monkeypatch.setattr(page, "MOVES", 4)
    monkeypatch.setattr(page, "TYPED", ["+", "d", "a", "-"])
    ours = snapreport.render(SAMPLE, tmp_path / "ours.html")
    theirs = tmp_path / "theirs.html"
    theirs.write_text(PAGE)
    pages = [("sample", OUR_PAGE, ours), ("sample", VIEWER, theirs)]
    # It starts a browser of its own, which no thread can that has one already.
    with ThreadPoolExecutor(1) as thread:
        folder = viewer_files(tmp_path / "viewer")
        found = thread.submit(measure_pages, pages, 1, folder).result()
    assert [each.tool for each in found] == [OUR_PAGE, VIEWER]
    for each in found:
        assert each.first_ms > 0
        assert each.heap > 1 << 16
        assert not math.isnan(each.p95_ms)
    assert found[0].bytes == ours.stat().st_size
