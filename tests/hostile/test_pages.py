"""``strings`` reads a page once, whatever is in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from snapreport.ground.errors import InputError
from snapreport.names.file_strings import list_strings
from snapreport.names.strings import Given
from tests.hostile import pages
from tests.hostile.cost import assert_within

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="inputs are tried in forks")


def strings(source: Path, _output: Path) -> None:
    list_strings(source)


@pytest.mark.parametrize("piece", ["comment", "tag", "quote", "end", "section", "style"])
def test_markup_that_does_not_end_takes_as_long_as_other_text(piece: str) -> None:
    data = pages.page(piece, 500_000 // len(pages.PIECES[piece])).encode()
    assert_within(data, ending=".html", attempt=strings, seconds=1.5, mib=20)


@pytest.mark.parametrize(
    "page",
    [
        pages.packed(tables=500, length=1_000_000, area=1_000_000),
        pages.script("payload", bytes(100 << 20)),
        pages.script("app", b"a\n" * (1 << 22)),
        pages.script("folded", b"<p>a</p>" * (1 << 20)),
        pages.script("folded", pages.script("folded", b"<a b='" * (1 << 16)).encode() * 100),
    ],
    ids=["columns that overlap", "a large payload", "large code", "large parts", "nested parts"],
)
def test_packed_data_are_limited_by_the_length_of_the_page(page: str) -> None:
    mib = 20 + 260 * len(page) / 2**20
    assert_within(page.encode(), ending=".html", attempt=strings, seconds=1, mib=mib)


@pytest.mark.parametrize(
    "field",
    [
        {"length": -1},
        {"kind": "u32"},
        {"length": 300},
        {"length": 1, "offset": 2000},
        {"length": 1, "offset": 2**64 - 1},
    ],
)
def test_columns_are_within_their_area_and_share_no_bytes(
    tmp_path: Path, field: dict[str, int]
) -> None:
    path = tmp_path / "x.html"
    path.write_text(pages.packed(**({"length": 250} | field)))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="damaged data"):
        list_strings(path)


def listed(tmp_path: Path, page: str) -> set[tuple[str, str]]:
    path = tmp_path / "x.html"
    path.write_text(page)
    return {(each.kind, each.text) for each in list_strings(path)}


@pytest.mark.parametrize(
    ("page", "found"),
    [
        ("<p title=okapi>a <b>1 < x</b>", {("attribute", "okapi"), ("page text", "1 < x")}),
        ("<p title=\"a>b\" lang='x'>&lt;y&gt;", {("attribute", "a>b"), ("page text", "<y>")}),
        ("<!-- okapi -->z<!-- zebra", {("comment", "okapi"), ("comment", "zebra")}),
        ("<![x okapi]>zebra <![y", {("comment", "[x okapi]"), ("page text", "zebra")}),
        ("<script>okapi()</SCRIPT >zebra", {("script", "okapi()"), ("page text", "zebra")}),
        ("<style>okapi", {("style", "okapi")}),
        ('<p>okapi<a b="zebra', {("page text", "okapi"), ("page text", '<a b="zebra')}),
        ("</okapi zebra>gnu", {("page text", "gnu")}),
    ],
)
def test_every_string_of_a_page_of_others_is_listed(
    tmp_path: Path, page: str, found: set[tuple[str, str]]
) -> None:
    assert found <= listed(tmp_path, page)


def test_texts_are_counted_by_the_columns_that_use_them(tmp_path: Path) -> None:
    page = pages.packed(strings=300, length=256, area=4096)
    path = tmp_path / "x.html"
    path.write_text(page)
    found = list_strings(path)
    assert Given("text", "text 299", 1) in found
