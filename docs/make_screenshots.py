"""Takes the README's picture, docs/report.png, of the page made from a sample snapshot."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import snapreport
from dev.benchmarks.page import launch

HERE = Path(__file__).resolve().parent
SAMPLE = HERE.parent / "sample_snapshots" / "training_step.pickle"
WIDTH, HEIGHT = 1440, 900


def take_picture(target: Path) -> None:
    """Render the sample, open it in headless Chromium, and save what the first screen shows."""
    # SwiftShader draws WebGL without a GPU; Chromium's sandbox does not start as root.
    flags = ["--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
    if hasattr(os, "getuid") and os.getuid() == 0:
        flags.append("--no-sandbox")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = snapreport.render(SAMPLE, Path(folder) / "report.html")
        browser = launch(playwright, flags)
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(page_file.resolve().as_uri())
        page.wait_for_timeout(3000)  # the timeline is drawn by a worker, coarse before fine
        page.screenshot(path=target)
        browser.close()


if __name__ == "__main__":
    take_picture(HERE / "report.png")
    print(HERE / "report.png")
