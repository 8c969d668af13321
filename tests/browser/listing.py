"""Reading the page's long lists, of which only the rows in sight exist."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Locator, Page

_ROWS = """async (list) => {
  const view = list.querySelector(".view")
  const found = new Map()
  const next = () => new Promise(requestAnimationFrame)
  const frame = async () => (await next(), await next())
  for (let top = 0; ; top += view.clientHeight / 2) {
    view.scrollTop = top
    await frame()
    for (const row of view.querySelectorAll("[data-row]")) {
      found.set(Number(row.dataset.row), {
        ...row.dataset,
        level: Number(row.getAttribute("aria-level")),
        cells: [...row.children].map((cell) => cell.textContent.trim()),
        titles: [...row.children].map((cell) => cell.firstElementChild?.title ?? ""),
      })
    }
    if (top >= view.scrollHeight - view.clientHeight) break
  }
  view.scrollTop = 0
  await frame()
  return [...found.keys()].sort((a, b) => a - b).map((key) => found.get(key))
}"""


def all_rows(part: Locator) -> list[dict[str, Any]]:
    """Every row of a list, read while it is scrolled: data attributes, level, texts and titles."""
    rows: list[dict[str, Any]] = part.evaluate(_ROWS)
    assert len(rows) == int(part.get_attribute("aria-rowcount") or 0) - 1
    return rows


def in_bytes(title: str) -> int:
    """What a title such as ``1,024 bytes`` counts."""
    return int(title.removesuffix(" bytes").replace(",", ""))


# In the page: to ask the browser for each part costs many times what the page does.
_GO_TO = """async (event) => {
  const box = [...document.querySelectorAll(".moment-go input")].find((each) => each.offsetParent)
  box.value = String(event)
  box.dispatchEvent(new Event("change", { bubbles: true }))
  const drawn = () => new Promise(requestAnimationFrame)
  await drawn()
  await drawn()
}"""


def go_to(page: Page, event: int) -> None:
    """Move the cursor to an event, and wait until the panels show it."""
    page.evaluate(_GO_TO, event)


def frames(page: Page) -> None:
    """Wait for two animation frames: what a change caused has been drawn."""
    page.evaluate("new Promise((f) => requestAnimationFrame(() => requestAnimationFrame(f)))")


def address(page: Page) -> str:
    """The page's address as it is now: Playwright's ``page.url`` may be one change behind."""
    found: str = page.evaluate("location.href")
    return found


def fragment(page: Page, part: str) -> None:
    """Wait until the page's address holds a part of a view."""
    for _ in range(100):
        if part in page.evaluate("decodeURIComponent(location.hash)"):
            return
        page.wait_for_timeout(25)
    raise AssertionError(f"{part} is not in {address(page)}")
