"""Every real file with every panel open while the cursor moves: nothing on the page may fail."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import FilePage
from tests.corpus import NO_CORPUS, corpus_files

pytestmark = pytest.mark.browser

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


@pytest.mark.skipif(not corpus_files(), reason=NO_CORPUS)
def test_nothing_fails_while_the_cursor_moves_with_every_panel_open(file_page: FilePage) -> None:
    found, page = file_page.found, file_page.page
    if file_page.file not in corpus_files():
        return  # of a sample, each panel has tests of its own
    if not found.devices:
        return
    sweep(page, found.default)
    for device in range(len(found.devices)):
        if device != found.default and len(found.devices[device].history.allocations):
            sweep(file_page.show(device).page, device)
            break  # one more is enough of a file with several
    assert page.locator(".failure").all_inner_texts() == []
