"""Every real file with every panel open while the cursor moves: nothing on the page may fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page

import snapreport
from tests.browser.conftest import Opener
from tests.browser.timeline_tools import NO_WEBGL
from tests.corpus import NO_CORPUS, corpus_files

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not corpus_files(), reason=NO_CORPUS),
]

# Opens each panel and goes to events all over the trace: by the field, and by the key for the next
# one, each pair drawn before the next. A jump from much to little finds what is no longer there.
_SWEEP = """async (part) => {
  const field = part.querySelector(".moment-go input")
  const plot = part.querySelector(".plot")
  const drawn = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))
  for (const tab of part.querySelectorAll("[role=tab]")) {
    tab.click()
    await drawn()
    for (const share of field ? [1, 0.02, 0.6, 0] : []) {
      field.value = String(Math.round(field.max * share))
      field.dispatchEvent(new Event("change", { bubbles: true }))
      plot?.dispatchEvent(new KeyboardEvent("keydown", { key: "]", bubbles: true }))
      await drawn()
    }
  }
}"""


def sweep(page: Page, device: int) -> None:
    """Move the cursor with every panel of a device open, then click along its timeline."""
    part = page.locator(f"#device-{device}")
    part.evaluate(_SWEEP)
    box = part.locator(".plot").bounding_box() if part.locator(".plot").count() else None
    if not box:
        return
    for name in ("stacks", "live", "allocator"):
        for tab in part.locator(f"[data-tab={name}]").all():  # a profile has no allocator
            tab.evaluate("tab => tab.click()")
        for across in (0.95, 0.3):
            page.mouse.click(box["x"] + box["width"] * across, box["y"] + box["height"] * 0.6)


@pytest.mark.parametrize("path", corpus_files(), ids=lambda path: path.name)
def test_nothing_fails_while_the_cursor_moves_with_every_panel_open(
    open_page: Opener, path: Path
) -> None:
    found = snapreport.load(path).findings()
    # A small window and no WebGL, which software emulates here: what is drawn is tested elsewhere.
    page = open_page(found, before=NO_WEBGL, viewport={"width": 900, "height": 500}).page
    sweep(page, found.default)
    for device in range(len(found.devices)):
        if device != found.default and len(found.devices[device].history.allocations):
            page.locator(".switch a").nth(device).click()
            page.wait_for_selector(f"html[data-complete='{device}']")
            sweep(page, device)
            break  # one more is enough of a file with several
    assert page.locator(".failure").all_inner_texts() == []
