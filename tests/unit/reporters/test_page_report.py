"""The page as text: nothing in it is markup that should not be, and it names no address."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import re
from html.parser import HTMLParser

import orjson
import pytest

from snapreport.model.findings import Findings
from snapreport.reporters.json_report import findings_as_json, with_format
from snapreport.reporters.page_report import write_report
from tests.browser.builders import MIB, DeviceSpec, Row, findings, training
from tests.payloads import folded_in

HOSTILE = "</script><img src=x onerror=alert(1)><!--"


def render(found: Findings) -> str:
    out = io.BytesIO()
    write_report(found, out)
    return out.getvalue().decode()


class Elements(HTMLParser):
    """Collects the start tags of a page, and the text of its scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[tuple[str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] in ("script", "style") and self.cdata_elem:
            self.raw.append((self.tags[-1][0], data))


def unpacked_app(elements: Elements) -> str:
    """The page's own code, as its loader unpacks it."""
    place = [attrs.get("id") for tag, attrs in elements.tags if tag == "script"].index("app")
    packed = [text for tag, text in elements.raw if tag == "script"][place]
    return gzip.decompress(base64.b64decode(packed)).decode()


def test_no_name_path_title_or_note_becomes_markup() -> None:
    spec = DeviceSpec(
        [Row(MIB, 1, 3, ((HOSTILE, f"/{HOSTILE}.py", 1),))],
        stages=[(HOSTILE, 0, 0, 9)],
        warnings=[HOSTILE],
    )
    page = render(findings(spec, title=HOSTILE, notes=f"{HOSTILE}\n\n<b>bold</b>"))
    elements = Elements(page)
    assert "<img" not in page
    assert "<b>bold" not in page
    assert sum(tag == "script" for tag, _ in elements.tags) == 6
    assert not any(name.startswith("on") for _, attrs in elements.tags for name in attrs)


def test_what_explains_another_device_is_packed_and_its_figures_stand_in_the_html() -> None:
    other = DeviceSpec(
        [Row(MIB, 1, 3, ((HOSTILE, f"/{HOSTILE}.py", 1),))],
        ordinal=1,
        stages=[(HOSTILE, 0, 0, 9)],
        warnings=[HOSTILE],
    )
    page = render(findings(training(), other))
    html = page.partition('id="device-1"')[2].partition("</article>")[0]
    for part in ("Peak allocated", 'class="allocated"', 'class="sites"', 'class="facts"'):
        assert part in html
    # What is packed is named.
    assert "Findings: Odd. They are explained with JavaScript." in html
    assert "You can trust the figures. The checks" in html
    packed = folded_in(page.encode())
    for part in ('class="findings"', 'class="stages"', 'class="trust"'):
        assert part in packed
        assert part not in html
    tags = Elements(packed).tags
    assert {"img", "script"}.isdisjoint(tag for tag, _ in tags)
    assert not any(name.startswith("on") or name == "style" for _, each in tags for name in each)
    assert re.findall(r'data-part="(\d+)"', html) == ["0", "1"]
    assert [tag for tag, _ in tags].count("article") == 0


def test_the_page_of_one_device_has_nothing_of_it_packed() -> None:
    page = render(findings(training()))
    assert folded_in(page.encode()) == ""
    assert 'class="trust"' in page


def test_the_page_holds_no_address() -> None:
    page = render(findings(training()))
    for text in (page, unpacked_app(Elements(page))):
        assert not re.search(r"(?i)\b(?:(?:https?|ftp|wss?)://|(?:data|javascript):)", text)
        assert not re.search(r"[\"'(]//\w", text)
    allowed = {("a", "href")}
    for tag, attrs in Elements(page).tags:
        for name in ("src", "href", "action", "srcset", "xmlns", "style"):
            if name in attrs:
                assert (tag, name) in allowed
                assert (attrs[name] or "").startswith("#")


def test_the_policy_allows_this_script_and_this_style_and_nothing_else() -> None:
    elements = Elements(render(findings(training())))
    policy = next(
        attrs["content"]
        for tag, attrs in elements.tags
        if attrs.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))

    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    style = next(text for tag, text in elements.raw if tag == "style")
    attributes = [attrs for tag, attrs in elements.tags if tag == "script"]
    scripts = [text for tag, text in elements.raw if tag == "script"]
    run = [text for text, attrs in zip(scripts, attributes, strict=True) if "type" not in attrs]
    assert rules == {
        "default-src": "'none'",
        "script-src": " ".join(map(digest, [*run, unpacked_app(elements)])),
        "style-src": digest(style),
        "worker-src": "blob:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_notes_are_markdown_without_pictures_and_script_links() -> None:
    notes = "# Before\n\n![x](https://example.com/x.png)\n\n[click](javascript:alert(1))"
    page = render(findings(training(), notes=notes))
    assert "<h1>Before</h1>" in page
    assert "<img" not in page
    assert 'href="javascript:' not in page


def test_the_summary_block_is_json_with_the_figures() -> None:
    found = findings(training())
    match = re.search(r'<script type="application/json" id="summary">(.*?)</script>', render(found))
    assert match is not None
    expected = orjson.loads(orjson.dumps(with_format("summary", findings_as_json(found))))
    assert orjson.loads(match[1]) == expected


def test_the_figures_stand_in_the_html() -> None:
    page = render(findings(training()))
    assert '<data value="507,510,784 bytes" title="507,510,784 bytes">484.0 MiB</data>' in page
    assert "layer" in page
    assert "train step" in page
    assert '<path class="allocated"' in page


@pytest.mark.parametrize("spec", [DeviceSpec([], events=0), DeviceSpec([Row(512)], events=1)])
def test_a_device_without_a_trace_renders(spec: DeviceSpec) -> None:
    assert "<article" in render(findings(spec))


def test_equal_findings_give_equal_pages() -> None:
    assert render(findings(training())) == render(findings(training()))
