"""What the tests of the timeline share: reading its window, its pixels and its legend."""

from __future__ import annotations

import base64
import urllib.parse
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Locator, Page

SAMPLES = Path(__file__).parents[2] / "sample_snapshots"
NO_WEBGL = """
const get = HTMLCanvasElement.prototype.getContext
HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
  return kind === "webgl2" ? null : get.call(this, kind, ...rest)
}
"""
CARD = """
const parameter = WebGL2RenderingContext.prototype.getParameter
WebGL2RenderingContext.prototype.getParameter = function (name) {
  return name === 0x9246 ? "A graphics card" : parameter.call(this, name)
}
"""
"""Has the software that runs WebGL here pass for a card: else Canvas 2D would draw."""
NO_WORKER = "window.Worker = class { constructor() { throw new Error('no worker') } }\n"
PLAIN = NO_WEBGL + NO_WORKER
"""Canvas draws, and the page itself works pictures out: the same ones with a fifth less work."""
HOSTILE = '</svg><script>alert(1)</script> & "co" \x01'


def settle(page: Page) -> None:
    """Wait until the raster of the present window is on the screen."""
    for _ in range(200):
        if page.evaluate("window.snapreport.settled()"):
            return
        page.wait_for_timeout(25)
    raise AssertionError("never settled")


def view(page: Page) -> dict[str, str]:
    """What the link of the present view says."""
    fields = urllib.parse.parse_qsl(page.evaluate("window.snapreport.link()"))
    return dict(fields)


def window(page: Page) -> dict[str, float]:
    """The part of the axis and the bytes shown."""
    found: dict[str, float] = page.evaluate("window.snapreport.window()")
    return found


def pixels(page: Page) -> Any:
    """The strips' pixels once they are settled, without alpha: shape (height, width, 3)."""
    settle(page)
    return drawn(page)


# As text, since a list of millions of numbers takes the driver half a minute, and as runs of one
# colour, since the driver and three processes would have four megabytes each to copy and to read.
_RUNS = """(() => {
  const { data, width } = window.snapreport.pixels()
  const all = new Uint32Array(data.buffer)
  const runs = new Uint32Array(2 * all.length)
  let n = 0
  for (let from = 0; from < all.length; n += 2) {
    const colour = all[from]
    const first = from
    while (from < all.length && all[from] === colour) from++
    runs[n] = colour
    runs[n + 1] = from - first
  }
  const bytes = new Uint8Array(runs.buffer, 0, 4 * n)
  let text = ""
  for (let k = 0; k < bytes.length; k += 32768)
    text += String.fromCharCode(...bytes.subarray(k, k + 32768))
  return [btoa(text), width]
})()"""


def drawn(page: Page) -> Any:
    """The strips' pixels as they are now, likewise."""
    text, width = page.evaluate(_RUNS)
    colour, count = np.frombuffer(base64.b64decode(text), dtype="<u4").reshape(-1, 2).T
    data = np.repeat(colour, count).view(np.uint8)
    return data.reshape(-1, width, 4)[:, :, :3]


def colours(page: Page) -> Counter[tuple[int, ...]]:
    """How often each colour occurs among the strips, once they are settled."""
    return count_colours(pixels(page))


def count_colours(shown: Any) -> Counter[tuple[int, ...]]:
    """How often each colour occurs in pixels of shape (height, width, 3)."""
    # As one number each: NumPy sorts a million of those in a tenth of the time of as many rows.
    numbers = shown.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], dtype=np.uint32)
    found, counts = np.unique(numbers, return_counts=True)
    return Counter(
        {
            (number >> 16, number >> 8 & 255, number & 255): count
            for number, count in zip(found.tolist(), counts.tolist(), strict=True)
        }
    )


def strips_box(page: Page) -> dict[str, float]:
    """Where the strips are on the screen."""
    box = page.locator(".strips:visible").bounding_box()
    assert box is not None
    return {name: float(box[name]) for name in ("x", "y", "width", "height")}


def legend(page: Page) -> list[tuple[str, str]]:
    """Label and size of each row of the legend, once it is drawn."""
    settle(page)
    rows = page.locator(".legend:visible ul:not(.also) li")
    texts = zip(rows.locator("code").all(), rows.locator("b").all(), strict=True)
    return [(name.inner_text().replace("\u200b", ""), size.inner_text()) for name, size in texts]


def colour_by(page: Page) -> Locator:
    """The choice of what strips are coloured by."""
    return page.get_by_label("Colour by").locator("visible=true")


def press(page: Page, *keys: str) -> None:
    """Press keys while the plot has the focus."""
    page.locator(".plot:visible").focus()
    for key in keys:
        page.keyboard.press(key)
