"""The index of several reports in a browser: offline, without a script, for everybody."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from playwright.sync_api import expect

import snapreport
from tests.browser.conftest import Opener
from tests.browser.test_sharing import violations
from tests.builders import MIB, trace

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The index of eight ranks: one is larger, one failed, one has two devices, one is broken."""
    folder = tmp_path_factory.mktemp("run")
    samples = Path(__file__).resolve().parents[2] / "sample_snapshots"
    for rank in range(6):
        made = trace().alloc("a", (64 if rank == 3 else 48) * MIB).alloc("b", MIB).free("a")
        (folder / f"rank{rank}.pickle").write_bytes(pickle.dumps(made.snapshot()))
    for name in ("three_devices.pickle", "out_of_memory.pickle.gz"):
        (folder / name).write_bytes((samples / name).read_bytes())
    (folder / "broken.pickle").write_bytes((folder / "rank0.pickle").read_bytes()[:200])
    batch = snapreport.render_many(folder, folder / "out", title="Run <b>12</b>")
    assert batch.index is not None
    return batch.index


def test_the_page_opens_offline_and_leads_to_each_report(open_page: Opener, index: Path) -> None:
    opened = open_page(index, java_script_enabled=False)
    page = opened.page
    expect(page.locator("h1")).to_have_text("Run <b>12</b>")
    expect(page.locator("tbody tr")).to_have_count(10)
    links = page.locator("tbody a")
    assert links.all_inner_texts() == [
        "out_of_memory", *[f"rank{rank}" for rank in range(6)], "three_devices", "three_devices"
    ]  # fmt: skip
    opened.check()
    links.nth(3).click()
    expect(page.locator("h1")).to_have_text("Run <b>12</b>: rank2")
    assert opened.requests.pop() == (index.parent / "rank2.html").as_uri()


def test_a_link_opens_the_device_of_its_row(open_page: Opener, index: Path) -> None:
    opened = open_page(index, ready=False)
    page = opened.page
    rows = page.locator("tbody tr", has_text="three_devices")
    expect(rows).to_have_count(2)
    name = rows.nth(1).locator("td").first.inner_text()
    rows.nth(1).get_by_role("link").click()
    expect(page.locator(".switch a[aria-current]")).to_contain_text(name)
    opened.path = index.parent / "three_devices.html"  # which asks for nothing but itself either
    opened.requests.remove(index.as_uri())


def test_the_largest_peak_and_the_failure_stand_out(open_page: Opener, index: Path) -> None:
    page = open_page(index, java_script_enabled=False).page
    most = page.locator("tr.largest")
    expect(most).to_have_count(1)
    expect(most).to_contain_text("out_of_memory")
    expect(most).to_contain_text("656.3 MiB refused")
    expect(page.locator("tr.broken")).to_contain_text("No report: ")
    used = "row => row.querySelector('.used').getBoundingClientRect().width"
    held = "row => row.querySelector('.amounts').getBoundingClientRect().width"
    assert 0.9 < most.evaluate(used) / most.evaluate(held) <= 1
    assert most.locator(".used").evaluate("each => getComputedStyle(each).fill") != "rgb(0, 0, 0)"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_keeps_anybody_out(open_page: Opener, index: Path, scheme: str) -> None:
    page = open_page(index, ready=False, color_scheme=scheme, bypass_csp=True).page
    colour = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert (int(colour.removeprefix("rgb(").split(",")[0]) > 128) == (scheme == "light")
    assert violations(page) == []


def test_nothing_sticks_out_of_a_narrow_screen(open_page: Opener, index: Path) -> None:
    page = open_page(index, java_script_enabled=False, viewport={"width": 400, "height": 800}).page
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    expect(page.locator("td.num").first).to_be_visible()


def test_on_paper_the_page_is_light(open_page: Opener, index: Path) -> None:
    page = open_page(index, java_script_enabled=False, color_scheme="dark").page
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(27, 31, 38)"
