"""Reports of a comparison: strangers' text, sizes, the picture, and what the page may do."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import snapreport
from snapreport.diagnosis.compare.diff_types import Diff
from snapreport.ground.templates import LOADER, STARTER, built
from snapreport.reporters.both_curves import draw_diff
from snapreport.reporters.markdown import LIMIT
from snapreport.reporters.svg import HEIGHT, WIDTH
from tests.builders import MIB, TraceBuilder, frame, trace
from tests.documents import diff_as
from tests.payloads import folded_in

NASTY = "</style><script>alert(1)</script><b>&amp;"


def compare(base: TraceBuilder, new: TraceBuilder, **options: Any) -> Diff:
    return snapreport.diff(
        snapreport.Snapshot(base.file()), snapreport.Snapshot(new.file()), **options
    )


def page_of(diff: Diff) -> str:
    return diff_as(diff, "html")


def markdown_of(diff: Diff) -> str:
    return diff_as(diff, "md")


def nasty() -> Diff:
    base = trace().settings(PYTORCH_CUDA_ALLOC_CONF=NASTY).start(NASTY, 0)
    base = base.alloc("a", MIB, frames=[frame(NASTY, f"/x/{NASTY}.py", 3)]).end(NASTY, 5)
    new = trace().settings(PYTORCH_CUDA_ALLOC_CONF="").start(NASTY, 0)
    new = new.alloc("b", 2 * MIB, frames=[frame(f"{NASTY}`|2", "/y/\x1b[31m\nz.py", 5)])
    return compare(base, new.end(NASTY, 5))


class Elements(HTMLParser):
    """Collects the names and attributes of all elements."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]


def test_strangers_text_stays_text_in_the_page() -> None:
    page = page_of(nasty())
    elements = Elements(page + folded_in(page.encode()))
    assert elements.tags.count("script") == 5  # ours: starter, payload, app, loader, later
    names = {name for name, _ in elements.attributes}
    assert "style" not in names
    assert not [name for name in names if name.startswith("on")]
    links = [value for name, value in elements.attributes if name in ("href", "src")]
    assert all(link.startswith("#") for link in links)


def test_the_policy_names_all_styles_and_scripts_by_hash_and_nothing_else() -> None:
    page = page_of(nasty())
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    styles = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert len(styles) == 2
    scripts = [STARTER, LOADER, built("compare.js")]

    def hashes(texts: list[str]) -> str:
        found = [base64.b64encode(hashlib.sha256(text.encode()).digest()) for text in texts]
        return " ".join(f"'sha256-{each.decode()}'" for each in found)

    assert html.unescape(policy) == (
        f"default-src 'none'; script-src {hashes(scripts)}; style-src {hashes(styles)};"
        " worker-src blob:; base-uri 'none'; form-action 'none'"
    )


def test_strangers_text_stays_text_in_markdown_and_on_a_terminal() -> None:
    found = nasty()
    text = markdown_of(found)
    assert "\x1b" not in text
    outside_code = re.sub(r"(`+).*?\1", "", text)
    assert "<script>" not in outside_code
    for line in text.splitlines():
        if line.startswith("|"):
            assert line.endswith("|")
    shown = diff_as(found, "txt")
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= 100


def test_markdown_fits_into_a_comment_however_long_the_names_are() -> None:
    base, new = trace(), trace()
    for i in range(300):
        new.start(f"{i}" * 900, 10 * i).alloc(
            f"a{i}", 512 + i, frames=[frame(f"{i}" * 900, "m.py", i + 1)]
        )
        base.start(f"{i}" * 900, 10 * i).alloc(
            f"a{i}", 512, frames=[frame(f"{i}" * 900, "m.py", i + 1)]
        )
    assert len(markdown_of(compare(base, new)).encode()) < LIMIT


def test_a_peak_of_one_event_is_in_the_picture_of_a_long_recording() -> None:
    base, new = trace(), trace().alloc("x", MIB)
    for i in range(2000):
        for made in (base, new):
            made.alloc("a", (9 if i == 700 else 1) * MIB).free("a")
    picture = draw_diff(compare(base, new))
    for side, size in ((picture.base, 9 * MIB), (picture.new, 10 * MIB)):
        heights = [float(y) for y in re.findall(r"V([\d.]+)", side.line)]
        assert min(heights) == pytest.approx(HEIGHT * (1 - size / (10.6 * MIB)), abs=0.1)
        assert side.y == pytest.approx(100 * min(heights) / HEIGHT, abs=0.1)
        assert side.x == pytest.approx(35, abs=0.2)
        assert sum(float(wide) for wide in re.findall(r"h([\d.]+)", side.line)) == WIDTH


def test_a_comparison_of_nothing_has_a_page() -> None:
    page = page_of(compare(trace(), trace()))
    assert "NEW peaks as high as BASE, 0 B" in page


def test_every_changed_site_has_a_row_with_its_exact_bytes() -> None:
    base = trace().alloc("a", 3 * MIB, frames=[frame("f", "m.py", 1)])
    new = trace().alloc("a", MIB, frames=[frame("f", "m.py", 1)])
    new = new.alloc("b", 512, frames=[frame("g", "m.py", 9)])
    page = page_of(compare(base, new))
    assert 'title="\u22122,097,152 bytes">\u22122.00 MiB' in page
    assert 'title="+512 bytes">+512 B' in page
    assert "only in NEW" in page
    assert np.isclose(float(re.findall(r'class="less" x="([\d.]+)%', page)[0]), 0)
