"""Markdown as GitHub and markdown-it's previews draw it: every table is one, and has headings."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

REPORTS = sorted((Path(__file__).parent / "expected").glob("*.md"))


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name)
def test_every_table_is_drawn_and_every_heading_is_a_word(report: Path) -> None:
    text = report.read_text(encoding="utf-8")
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    headings = [after.content for token, after in pairwise(tokens) if token.type == "th_open"]
    assert headings
    assert all(headings)
    rules = [line for line in text.splitlines() if line.startswith(("| :--", "| --:"))]
    assert len(rules) == sum(token.type == "table_open" for token in tokens)


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name)
def test_the_curve_is_in_a_block_of_its_own(report: Path) -> None:
    tokens = MarkdownIt("commonmark").enable("table").parse(report.read_text(encoding="utf-8"))
    blocks = [token.content for token in tokens if token.type == "code_block"]
    curves = [block for block in blocks if block.startswith("Allocated memory")]
    assert all(len(block.splitlines()) == 3 for block in curves)
    if report.stem not in ("state_only", "diff"):
        assert any("█" in block for block in curves)
