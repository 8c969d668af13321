"""A link is a stranger's text: whatever it holds, the page answers and shows what it can."""

from __future__ import annotations

import itertools
import random

import pytest
from playwright.sync_api import expect

import snapreport
from snapreport.model.findings import Findings
from tests.browser.conftest import Opener
from tests.builders import MIB, trace

pytestmark = pytest.mark.browser(webgl=False)

_LONG = 100_000

# The browser's own expressions would try 2 ** 100,000 ways, or at best 100,000 ** 2.
_PATTERNS = [
    "/(x+)+y/",
    "/(x|xx)*y/",
    "/^(x*)*x*x*x*y$/",
    "*x*x*x*x*x*x*y",
    ",".join(["/(x|\\w)*x(x|\\w){99}y/"] * 40),
    "/x{9999}{9999}/",
    "/(((){9999}){9999}){9999}/",
    "/" + "(" * 50_000 + "/",
    "a " * 50_000,
    "-" * 50_000,
    ">" + "1" * 50_000,
    "x" * 90_000,
]

_FRAGMENTS = [
    "view=1e308,-1e308,0,1",
    "view=-1e308,1e308,-1e308,1e308",
    "view=1e308,1.5e308,1e308,1.5e308",
    "view=0,1e-320,0,1e-320",
    "view=NaN,Infinity,-Infinity,0",
    "view=1e15,1000000000000001,1,2",
    "axis=time&view=1e300,1.1e300,0,1",
    "a=999999999999999&b=-999999999999999&c=1e9&ask=__proto__",
    "a=1&b=0&c=-1&ask=stayed",
    "axis=time&b=1&ask=constructor",
    "event=999999999999999&allocation=999999999999999&oom=999999999999999",
    "event=-999999999999999&allocation=-1&oom=-1&focus=-1&device=-1",
    "device=999999999999999&focus=999999999999999",
    "without=site:" + ",".join(map(str, range(50_000))),
    "without=" + ";".join(f"site:{k}" for k in range(50_000)),
    "without=size:1e300,-1,0.5,NaN,,;;:;role",
    "colour=__proto__&without=__proto__:0;constructor:0&axis=__proto__&curve=constructor&tab=__proto__&stacks=valueOf",
    "selected=stacks:down-" + "9" * 400,
    "selected=__proto__:x&frames=toString",
    "tab=lines&selected=lines:-1",
    "tab=stages&selected=stages:99999999999999999999",
    "tab=events&selected=events:NaN",
    "%&%=%&==&search=%E0%A4%A&event=%00",
    "&" * 100_000,
]


def _long_names() -> Findings:
    letters = random.Random(3)
    builder = trace()
    for name in ["x" * _LONG, "a::b" * (_LONG // 4), "".join(letters.choices("xz", k=_LONG))]:
        frames = [{"name": name, "filename": f"/x/{name}.py", "line": 3}]
        builder.alloc(name[:9], 4 * MIB, frames=frames)
    return snapreport.Snapshot(builder.file()).findings()


# The title changes after the link was followed and its picture drawn.
_FOLLOW = """([hash, title]) => {
  location.hash = hash
  setTimeout(() => requestAnimationFrame(() => setTimeout(() => { document.title = title })))
}"""


def test_no_link_hangs_the_page_or_fails(open_page: Opener) -> None:
    page = open_page(_long_names()).page
    everywhere = [f"tab={tab}&search={_PATTERNS[0]}" for tab in ("stacks", "lines", "live")]
    others = [
        f"tab={tab}&search={pattern}"
        for pattern, tab in zip(_PATTERNS[1:], itertools.cycle(["lines", "live", "events"]))
    ]
    for k, fragment in enumerate([*_FRAGMENTS, *everywhere, *others]):
        page.evaluate(_FOLLOW, [f"event={k % 2}&{fragment}", str(k)])
        expect(page).to_have_title(str(k))
    page.evaluate(_FOLLOW, ["event=0", "end"])
    expect(page.locator(".moment-title")).to_have_text("Live at event 0")
    assert page.locator(".failure").count() == 0


def test_a_search_that_takes_too_long_says_so(open_page: Opener) -> None:
    page = open_page(_long_names()).page
    page.evaluate("hash => { location.hash = hash }", r"search=/(x|\w)*x(x|\w){400}y/")
    expect(page.locator(".found")).to_have_text("This search takes too long here")
    search = page.get_by_label("Search functions and files")
    search.fill("/(?=x)/")
    expect(page.locator(".found")).to_have_text("Lookahead and lookbehind are not supported here")
    search.fill("/^x+/")
    expect(page.locator(".found")).to_contain_text("1 of ")
