"""Real files in the browser: the page works out in JavaScript what the analysis did in Python."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

import snapreport
from snapreport.ground.units import format_bytes
from snapreport.reporters.page.page_report import ROWS_WITHOUT_SCRIPT
from tests.browser.conftest import Opener

pytestmark = pytest.mark.browser

_SAMPLES = Path(__file__).parents[2] / "sample_snapshots"
_REFUSED = "not_a_snapshot.pickle"
_CORPUS = os.environ.get("SNAPREPORT_CORPUS")


# Name, place and size of each row of the legend, and of the table.
_SITES = """(part) => ["legend ul:not(.also) li", "sites tbody tr"].map((rows) =>
  [...part.querySelectorAll(`.${rows}`)].map((row) => ["code", "code + span", "b, td"].map(
    (each) => row.querySelector(each)?.textContent.trim() ?? "")))
"""


def snapshots() -> list[Path]:
    """Our samples, and the files of the corpus folder where one is named."""
    folders = [_SAMPLES] + ([Path(_CORPUS)] if _CORPUS else [])
    kinds = ("*.pickle", "*.pkl", "*.pickle.gz", "*.pickle.zst", "*.json")
    found = sorted(path for folder in folders for kind in kinds for path in folder.glob(kind))
    return [path for path in found if path.name != _REFUSED]


@pytest.mark.parametrize("path", snapshots(), ids=lambda path: path.name)
def test_the_page_agrees_with_the_analysis(open_page: Opener, path: Path) -> None:
    found = snapreport.load(path).findings()
    opened = open_page(found)
    page = opened.page
    assert opened.path.stat().st_size < 400_000 or path.parent != _SAMPLES
    for index, device in enumerate(found.devices):
        if len(found.devices) > 1:
            page.locator(".switch a").nth(index).click()
            page.wait_for_selector(f"html[data-ready='{index}']")
        if not len(device.history.allocations):
            continue
        part = page.locator(f"#device-{index}")
        root: Any = part.locator("[role=treegrid] .view .num span").first.get_attribute("title")
        assert root == f"{device.peak.allocated:,} bytes"
        if device.recorded:  # the list beside the picture comes a moment after it
            expect(part.locator(".legend ul:not(.also) li").first).to_be_visible()
        legend, table = part.evaluate(_SITES)
        shown = [[site.name, format_bytes(site.bytes)] for site in device.sites]
        assert [[name, size] for name, _, size in table] == shown[:ROWS_WITHOUT_SCRIPT]
        live = len([site for site in device.sites if site.bytes])
        assert legend == (table[: min(live, 12)] if device.recorded else [])
