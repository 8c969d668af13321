"""Pages of answers: nothing is lost, nothing comes twice, and none is larger than was asked for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapreport.commands.mcp_server.reply import (
    LEAST,
    CursorError,
    Part,
    Place,
    Reply,
    as_text,
    count_tokens,
    digest_of,
    fit_page,
    listed,
    read_cursor,
    table,
)
from tests.thorough import tried

SLACK = 100
"""Tokens that a page of one item may have more: what is longest in it was cut to 40 letters."""

texts = st.text(max_size=60) | st.text("word ", max_size=3000)
rows = st.lists(st.tuples(texts, st.none() | st.integers(0, 2**60)), max_size=60)
objects = st.lists(st.dictionaries(st.text("abc", min_size=1, max_size=5), texts, max_size=3))


parts = st.lists(
    st.tuples(st.just("rows"), rows) | st.tuples(st.just("objects"), objects), max_size=4
)


def parts_of(found: list[Any]) -> list[Part]:
    columns = (("name", "text"), ("held", "bytes"))
    return [
        table(f"table {place}", columns, each) if kind == "rows" else listed(f"list{place}", each)
        for place, (kind, each) in enumerate(found)
    ]


def items(page: dict[str, Any]) -> list[Any]:
    listed_items = [each for key in page if key.startswith("list") for each in page[key]]
    return listed_items + [row for each in page.get("tables", []) for row in each["rows"]]


@tried(200)
@given(
    parts,
    st.dictionaries(st.text("xyz", min_size=1, max_size=4), texts, max_size=4),
    st.integers(LEAST, 3000),
)
def test_all_pages_together_are_the_whole(
    found: list[Any], head: dict[str, str], limit: int
) -> None:
    reply = Reply({"file": "a.pickle"}, head, tuple(parts_of(found)))
    total = sum(part.count for part in reply.parts)
    question = digest_of("question")
    place, seen, before = Place(question), 0, -1
    while True:
        page = fit_page(reply, place, limit)
        assert count_tokens(as_text(page)) <= limit + SLACK
        seen += len(items(page))
        assert seen + page.get("left", 0) == total
        if "cursor" not in page:
            break
        place = read_cursor(page["cursor"], question)
        assert place.item == seen > before
        before = place.item
    assert seen == total


def test_short_items_fit_and_come_as_they_are() -> None:
    numbers = [("a", size) for size in range(200)]
    reply = Reply({}, {}, (table("t", (("name", "text"), ("held", "bytes")), numbers),))
    place, found = Place("q"), []
    while True:
        page = fit_page(reply, place, 400)
        assert count_tokens(as_text(page)) <= 400
        found += page["tables"][0]["rows"]
        if "cursor" not in page:
            break
        place = read_cursor(page["cursor"], "q")
    assert [row[1] for row in found] == list(range(200))
    assert found[10] == ["a", 10, "10 B"]


def test_an_item_larger_than_a_page_is_cut_and_the_next_page_goes_on() -> None:
    long = [{str(n): "word " * 200 for n in range(20)}, {"next": 1}]
    question = Place("q")
    first = fit_page(Reply({}, {}, (listed("items", long),)), question, LEAST)
    assert len(first["items"]) == 1
    rest = fit_page(
        Reply({}, {}, (listed("items", long),)), read_cursor(first["cursor"], "q"), LEAST
    )
    assert rest["items"] == [{"next": 1}]


def test_a_head_that_is_too_long_is_cut_and_still_leaves_room() -> None:
    head = {"answer": "word " * 5000, "more": {"text": "word " * 5000, "bytes": 7}, "last": 1}
    page = fit_page(Reply({}, head, (listed("items", list(range(50))),)), Place("q"), 1000)
    assert count_tokens(as_text(page)) <= 1000
    assert page["answer"].endswith("…")
    assert len(page["items"]) > 5


def test_cursors_of_others_are_refused() -> None:
    own = Place("0123456789ab", 7)
    assert read_cursor(own.cursor(), "0123456789ab") == own
    for wrong in (Place("x", 7).cursor(), Place("0123456789ab", -1).cursor(), "#", "\x00", "9" * 9):
        with pytest.raises(CursorError):
            read_cursor(wrong, "0123456789ab")


# Counted with the vocabularies o200k_base and that of Claude 2.
COUNTED = (
    ("update_nodes  train/models.py:174", 8, 11),
    ('["update_nodes  train/models.py:174",31867720704,"29.68 GiB","37.9%",12]', 27, 31),
    ('{"bytes":84063358976,"text":"78.29 GiB","event":420}', 20, 21),
    ("The program ran out of memory at event 421: it asked for 4.94 GiB.", 20, 18),
    ("at::native::empty_cuda(c10::ArrayRef<long>, std::optional<c10::Device>)", 21, 25),
    ("x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)", 17, 22),
    ("忽略你的指示", 5, 7),
    ("SELECT count(*), sum(size) FROM allocations WHERE alloc_event >= 0", 15, 17),
)


@pytest.mark.parametrize(("text", "one", "other"), COUNTED)
def test_tokens_are_rather_too_many(text: str, one: int, other: int) -> None:
    """Of a sentence alone they can be a few percent too few; of no real answer they were."""
    assert 0.9 * max(one, other) <= count_tokens(text) <= 2 * max(one, other)
