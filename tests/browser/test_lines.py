"""The panel of source lines: the same numbers as plain loops in Python give, filters, sorting."""

from __future__ import annotations

from itertools import product
from math import floor
from pathlib import Path
from statistics import median

import pytest
from playwright.sync_api import Locator, Page, expect

import snapreport
from snapreport.ground.units import format_bytes, format_count
from snapreport.model.snapshot import short_name
from snapreport.roles.frames import is_native_file, native_words
from tests.browser.builders import MIB, findings, trained, training
from tests.browser.conftest import KeptPage, Opener
from tests.browser.listing import all_rows, fragment, go_to, in_bytes
from tests.builders import frame, trace
from tests.corpus import findings_of
from tests.golden.page_golden import Golden, Label, sizes_of_lines
from tests.thorough import some

pytestmark = pytest.mark.browser(webgl=False)


def table(page: Page) -> Locator:
    page.get_by_role("tab", name="Lines").click()
    return page.locator("article:visible").get_by_role("grid", name="Source lines")


def location(label: Label) -> str:
    name, file, line = label
    base = file.replace("\\", "/").rsplit("/", 1)[-1]
    place = "" if base in ("", "??", "none") else f"{base}:{line} " if line else f"{base} "
    return place + (native_words(name) if is_native_file(file) else short_name(name))


def medians(sizes: list[int]) -> tuple[str, str]:
    """The text and the title of the median of some sizes: of two that differ, both are told."""
    told = sorted(sizes) if len(sizes) == 2 else [floor(median(sizes))]
    told = list(dict.fromkeys(told))
    return "".join(map(format_bytes, told)), " and ".join(f"{each:,} bytes" for each in told)


@pytest.mark.parametrize("curve", ["allocated", "requested"])
def test_lines_are_those_of_plain_loops_and_add_up_to_the_curve(
    kept_page: KeptPage, samples: Path, curve: str
) -> None:
    found = findings_of(samples / "training_step.pickle")
    device = found.devices[0]
    page = kept_page(samples / "training_step.pickle").page
    page.locator(".segmented label", has_text=curve.capitalize()).first.click()
    lines = table(page)
    golden = Golden(found)
    events = (device.peak.event, 200, device.history.events - 1)
    filters = ("", "model.py, train*", "-torch", "nowhere.py")
    for typed, event in some(list(product(filters, events)), 5):
        page.get_by_role("searchbox").fill(typed)
        go_to(page, event)
        live, ever = sizes_of_lines(golden, device, event, curve, typed)
        rows = all_rows(lines)
        assert sorted(
            [
                location(label),
                sum(sizes),
                *medians(sizes),
                format_count(len(sizes)),
                sum(ever[label]),
            ]
            for label, sizes in live.items()
        ) == sorted(
            [
                row["cells"][7],
                in_bytes(row["titles"][0]),
                row["cells"][4],
                row["titles"][4],
                row["cells"][5],
                int(row["titles"][6].split(" ")[0].replace(",", "")),
            ]
            for row in rows
        )
        sums = [in_bytes(row["titles"][3]) for row in rows]
        assert sums == sorted(sums)
        assert sums[-1] == int(device.curves[curve][event + 1])


def test_memory_from_before_the_recording_is_a_line_of_its_own(kept_page: KeptPage) -> None:
    page = kept_page(trained).page
    lines = table(page)
    row = lines.locator(".view .row", has_text="before recording")
    expect(row).to_contain_text("64.00 MiB")
    page.get_by_role("searchbox").fill("model.py")
    expect(row).to_contain_text("64.00 MiB")
    page.get_by_role("searchbox").fill("nowhere")
    expect(lines.locator(".view .row")).to_have_count(2)
    expect(lines.locator(".view .row").first).to_contain_text("no matching frame")
    expect(lines.locator(".view .row").first).to_contain_text("420.0 MiB")


def test_lines_of_a_def_are_said_to_be_those(open_page: Opener, kept_page: KeptPage) -> None:
    forward = frame("forward", "model.py", 12) | {"line_is": "function start"}
    file = trace().alloc("a", MIB, frames=[forward]).file()
    page = open_page(snapreport.Snapshot(file).findings()).page
    note = "An operator such as a @ b has the line of the def that it is in."
    table(page)
    expect(page.locator(".lines .note")).to_have_text(note)
    expect(page.get_by_text(note)).to_have_count(2)  # and below the call sites
    page = kept_page(trained).page
    table(page)
    expect(page.locator(".lines .note")).to_have_count(0)


def test_a_filter_that_is_no_expression_says_so_and_filters_nothing(kept_page: KeptPage) -> None:
    page = kept_page(trained).page
    page.set_viewport_size({"width": 1280, "height": 1400})  # for all rows of the list
    lines = table(page)
    expect(lines.locator(".view .row")).to_have_count(12)
    box = page.get_by_role("searchbox")
    box.fill("/(/")
    expect(box).to_have_attribute("aria-invalid", "true")
    expect(page.locator(".totals-line")).to_contain_text("Not a regular expression")
    expect(lines.locator(".view .row")).to_have_count(12)
    box.fill("/model\\.py$/")
    expect(box).to_have_attribute("aria-invalid", "false")


def test_columns_sort_and_the_running_sum_follows(open_page: Opener) -> None:
    found = findings(training())
    page = open_page(found).page
    lines = table(page)
    first = lines.locator(".view .row").first
    expect(first).to_contain_text("forward")
    lines.get_by_role("button", name="Bytes").click()
    expect(lines.get_by_role("columnheader", name="Bytes")).to_have_attribute(
        "aria-sort", "ascending"
    )
    expect(first).to_contain_text("32.00 MiB")
    lines.get_by_role("button", name="Location").hover()
    page.mouse.down()
    go_to(page, 60)  # which draws the list again during the click
    go_to(page, found.devices[0].peak.event)
    page.mouse.up()
    expect(lines.get_by_role("columnheader", name="Location")).to_have_attribute(
        "aria-sort", "ascending"
    )
    expect(first).to_contain_text("model.py:10")
    sums = [in_bytes(row["titles"][3]) for row in all_rows(lines)]
    assert sums[0] == 32 * MIB
    assert sums[-1] == 484 * MIB


def test_a_selected_line_is_in_the_link_and_comes_back(kept_page: KeptPage) -> None:
    opened = kept_page(trained)
    page = opened.page
    lines = table(page)
    lines.locator(".view .row", has_text="model.py:13").click()
    fragment(page, "selected=lines:")
    page.reload()
    page.wait_for_selector("html[data-complete]")
    expect(page.locator(".lines-list [aria-selected=true]")).to_contain_text("model.py:13")


def test_the_line_of_the_pinned_allocation_is_marked(kept_page: KeptPage) -> None:
    opened = kept_page(trained)
    page = opened.page
    lines = table(page)
    page.mouse.click(*opened.strip_point(30, (64 + 3 * 32 + 16) * MIB))
    expect(lines.locator(".view .now")).to_contain_text("model.py:13")


def test_the_text_of_a_line_is_shown_as_it_is_wherever_the_line_is(open_page: Opener) -> None:
    hostile = "x = '</script><img src=x onerror=alert(1)>'"
    stack = [
        frame("forward", "model.py", 12) | {"source": hostile},
        frame("main", "train.py", 7) | {"source": "loss = model(batch)"},
    ]
    file = trace().alloc("b", 512).alloc("a", MIB, frames=stack).file()
    page = open_page(snapreport.Snapshot(file).findings(), "#allocation=1").page
    expect(page.locator(".details .frames .code")).to_have_text([hostile, "loss = model(batch)"])
    expect(page.locator(".tree-list .code").first).to_have_text(" loss = model(batch)")
    table(page)
    expect(page.locator(".lines-list .view .code")).to_have_text(f" {hostile}")
    assert page.locator("img[src=x]").count() == 0
