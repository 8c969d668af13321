"""Real files in the browser: the page works out in JavaScript what the analysis did in Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import snapreport
from snapreport.ground.units import format_bytes
from snapreport.reporters.page_report import ROWS_OF_OTHERS, ROWS_WITHOUT_SCRIPT
from tests.browser.conftest import FilePage, Opener, sites, snapshots
from tests.browser.timeline_tools import settle
from tests.thorough import some

pytestmark = pytest.mark.browser(webgl=False)


def test_the_page_agrees_with_the_analysis(file_page: FilePage) -> None:
    found = file_page.found
    ours = file_page.file.parent.name == "sample_snapshots"
    assert file_page.opened.path.stat().st_size < 400_000 or not ours
    for index, device in enumerate(found.devices):
        if not len(device.history.allocations):
            continue
        if index == found.default:
            root, by_role, by_site, table = file_page.at_first
        else:
            root, by_role, by_site, table = sites(file_page.show(index), device, found.colour)
        assert root == f"{device.peak.allocated:,} bytes"
        rows = ROWS_WITHOUT_SCRIPT if index == found.default else ROWS_OF_OTHERS
        shown = [[site.name, format_bytes(site.bytes)] for site in device.sites]
        assert [[name, size] for name, _, size in table] == shown[:rows]
        live = len([site for site in device.sites if site.bytes])
        assert len(by_site) == (min(live, 12) if device.recorded else 0)
        assert by_site[:rows] == table[: len(by_site)]
        if found.colour == "role" and device.recorded:
            assert by_role == [
                [held.role, "", format_bytes(held.bytes)] for held in device.held_by_role
            ]


@pytest.mark.browser(webgl=True)
@pytest.mark.parametrize("path", some(snapshots(), 3), ids=lambda path: path.name)
def test_webgl_draws_any_file(open_page: Opener, path: Path) -> None:
    page = open_page(snapreport.load(path).findings()).page
    settle(page)
    assert page.locator(".failure").all_inner_texts() == []
