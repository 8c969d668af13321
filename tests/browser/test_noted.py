"""What was noted while recording is on the page: in the tab *Recording* and on the timeline."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.sync_api import expect

from snapreport.diagnosis.card_fit import fit_card
from snapreport.ground.cards import Card, CardWanted
from snapreport.model.findings import Findings
from snapreport.model.snapshot import recorder_info
from tests.browser.builders import MIB, DeviceSpec, Row, findings
from tests.browser.conftest import Opener

pytestmark = pytest.mark.browser(webgl=False)

HOSTILE = "<img src=x onerror=alert(1)>"


def recorded(capacity: int) -> Findings:
    spec = DeviceSpec([Row(MIB, k, 90, (("step", "/app/train.py", 7),)) for k in range(1, 40)])
    made = findings(spec)
    noted = recorder_info(
        {
            "made_by": "0.1.0",
            "torch": "2.13.0",
            "driver": HOSTILE,
            "devices": [{"device": "cuda:0", "name": "NVIDIA H100", "capacity": capacity}],
        }
    )
    return replace(made, history=replace(made.history, recorder=noted))


def test_the_recording_tab_names_device_versions_and_file(open_page: Opener) -> None:
    page = open_page(recorded(80 * 1024 * MIB)).page
    page.get_by_role("tab", name="Recording").click()
    panel = page.locator(".recording-panel")
    for text in ("NVIDIA H100, 80.00 GiB", "2.13.0", HOSTILE, "SHA-256"):
        expect(panel.get_by_text(text, exact=True)).to_be_visible()


def test_the_timeline_is_as_high_as_the_device_unless_that_dwarfs_all(open_page: Opener) -> None:
    for capacity, high in ((50 * MIB, True), (5000 * MIB, False)):
        page = open_page(recorded(capacity)).page
        whole = page.evaluate("window.snapreport.window()")
        assert (whole["y1"] >= capacity) == high


def test_the_card_that_was_asked_about_is_a_line_of_text_and_in_the_timeline(
    open_page: Opener,
) -> None:
    made = recorded(5000 * MIB)
    (device,) = made.devices
    fit = fit_card(made.history, device, CardWanted(Card("x", "a card of 50MiB", 50 * MIB), 0))
    page = open_page(replace(made, devices=(replace(device, card=fit),))).page
    line = page.locator(".card-fit")
    expect(line).to_have_text(fit.text)
    assert (fit.outcome, line.get_attribute("class")) == ("fits", "card-fit fits")
    # Not the 5,000 MiB that were noted, which would dwarf all.
    assert 50 * MIB <= page.evaluate("window.snapreport.window()")["y1"] < 100 * MIB
