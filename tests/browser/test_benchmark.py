"""The benchmark of pages: ours, and PyTorch's with its files from a folder."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import snapreport
from benchmarks.measure.browser import measure_pages
from benchmarks.measure.peers import PeerError
from benchmarks.measure.targets import OUR_PAGE, VIEWER
from benchmarks.measure.viewer import check_viewer, file_for
from tests.unit.benchmarks.fake_peers import PAGE, viewer_files

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


@pytest.mark.browser
def test_both_pages_are_measured_without_a_network(tmp_path: Path) -> None:
    ours = snapreport.render(SAMPLE, tmp_path / "ours.html")
    theirs = tmp_path / "theirs.html"
    theirs.write_text(PAGE)
    pages = [("sample", OUR_PAGE, ours), ("sample", VIEWER, theirs)]
    # It starts a browser of its own, which no thread can that has one already.
    with ThreadPoolExecutor(1) as thread:
        viewer = viewer_files(tmp_path / "viewer")
        found = thread.submit(measure_pages, pages, 1, viewer).result()
    assert [each.tool for each in found] == [OUR_PAGE, VIEWER]
    for each in found:
        assert each.first_ms > 0
        assert each.heap > 1 << 16
        assert not math.isnan(each.p95_ms)
    assert found[0].bytes == ours.stat().st_size
