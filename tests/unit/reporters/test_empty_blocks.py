"""A part of a document that has nothing to show is left out by every writer."""

from __future__ import annotations

from snapreport.reporters.document import (
    Block,
    Bullets,
    Document,
    Folded,
    Heading,
    Pairs,
    Paragraph,
)
from snapreport.reporters.html import fragment
from snapreport.reporters.markdown import document_blocks
from tests.documents import text_of


def test_what_is_empty_is_left_out() -> None:
    empty: list[Block] = [Paragraph(""), Bullets([]), Pairs([])]
    shown: list[Block] = [Paragraph("first"), Folded("more", [Heading("second")])]
    bare = Document("title", shown)
    below: list[Block] = [*empty, Heading("second")]
    padded = Document("title", [*empty, shown[0], *empty, Folded("more", below)])
    assert text_of(padded) == text_of(bare)
    assert list(document_blocks(padded)) == list(document_blocks(bare))
    assert fragment(padded) == fragment(bare)
