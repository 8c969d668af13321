"""Answers about a device: each writer lays them out, and no name in them does any harm."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

import snapreport
from snapreport.model.answers import (
    BatchGrowth,
    BatchPeak,
    Plan,
    PlanStep,
    QueryAnswer,
    RoleGrowth,
    RoleLeft,
)
from snapreport.model.diagnoses import Frees, Suggestion
from snapreport.reporters import answers
from snapreport.reporters.document import Block, Document
from snapreport.reporters.html import fragment
from snapreport.reporters.plans import growth_document, plan_document
from tests.documents import markdown_of, text_of
from tests.hostile_text import ATTACKS, is_calm, write_snapshot

GIB = 1 << 30


def documents(hostile: Path) -> dict[str, Document]:
    """The answers about a file whose names are attacks."""
    device = snapreport.load(hostile).device(None)
    moment = device.at(None)
    amounts, parts, entry = moment.amounts, moment.parts(), moment.entry()
    live, tree = moment.live(), moment.tree(folded=True)
    sites = device.site_names(live.rows[:5])
    every = device.what_if("site", "allocated", None)
    left = device.peak_without(every[0].name, by="site", curve="allocated", rules=None)
    held: dict[str, Block] = {
        "group": answers.group_table("stack", moment.by("stack"), moment.bytes, 5),
        "line": answers.line_table(moment.lines((), ()), 5),
        "allocation": answers.allocation_table(live, device.allocations, sites, device.events, 5),
        "tree": answers.tree_listing(tree, device.tree_frames, 5),
        "signed tree": answers.tree_listing(tree, device.tree_frames, 5, signed=True),
        "changes": answers.changes_table("site", device.changed("start", "end").by("site"), 5),
    }
    named = [(text, stage) for stage in device.stages for text in ATTACKS.values()]
    tops = [moment.by("stack")[:1]] * len(named)
    return {
        **{
            name: answers.live_document("cuda:0", amounts, parts, 0, entry, block)
            for name, block in held.items()
        },
        "stages": answers.stages_document("cuda:0", named, tops, device.steps, None),
        "no stages": answers.stages_document("cuda:0", [], [], None, None),
        "profile": answers.profile_document(
            "cuda:0", hostile.name, device.profile("stage", None, "allocated", 0), "stage"
        ),
        "what if": answers.what_if_document("cuda:0", "was", every, "site", 1),
        "without": answers.without_document("cuda:0", "was", left, "site", 1),
    }


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Document]:
    path = tmp_path_factory.mktemp("hostile") / "hostile.pickle"
    write_snapshot(path)
    return documents(path)


def test_every_writer_lays_out_every_answer(hostile: dict[str, Document]) -> None:
    for name, document in hostile.items():
        written = [text_of(document), fragment(document)]
        written.append(markdown_of(partial(_as_it_is, document), (1,)))
        for text in written:
            assert is_calm(text), name


def _as_it_is(document: Document, _: int) -> Document:
    return document


def test_a_title_of_a_stage_is_one_line(hostile: dict[str, Document]) -> None:
    titles = [line for line in text_of(hostile["stages"]).splitlines() if "at its peak" in line]
    assert len(titles) >= len(ATTACKS)


def test_a_plan_with_its_reasons() -> None:
    frees = Frees(GIB, 2 * GIB, 3 * GIB, why_least="seen", why_expected="likely", why_most="all")
    change = Suggestion("accumulate", "Use less.", frees=frees, change="a = 1\nb = 2")
    plan = Plan(GIB, 4 * GIB, (PlanStep(change, GIB, 2 * GIB),), "expected", (RoleLeft("x", GIB),))
    text = text_of(plan_document("cuda:0", plan, None, failed=True, full=True))
    assert "1. accumulate: the peak is then 1.00 GiB, 2.00 GiB at most\n  - Use less. Fr" in text
    assert "    - At least 1.00 GiB: seen.\n" in text
    assert "      a = 1\n      b = 2\n" in text
    assert "What the peak then consists of\n   bytes   share  role\n1.00 GiB  100.0%  x\n" in text
    assert text.endswith("is not counted.\n")
    assert "At least" not in text_of(plan_document("cuda:0", plan, None, failed=False, full=False))


def test_what_shrinks_as_the_batch_grows_has_a_minus() -> None:
    growth = BatchGrowth(
        (BatchPeak(8, GIB, GIB, "backward"),), (RoleGrowth("cache", GIB, -1024, 3, GIB),), 8
    )
    text = text_of(growth_document("cuda:0", growth, None, failed=False))
    assert "bytes     fixed  per sample  per sample²  role" in text
    assert "1.00 GiB  1.00 GiB   -1.00 KiB          3 B  cache" in text


def test_of_a_query_only_the_rows_that_are_shown_are_taken_and_one_more() -> None:
    rows = iter([(number, f" {number}") for number in range(9)])
    document = answers.query_document(QueryAnswer(("id", "text"), rows), 2)
    assert len(list(rows)) == 6
    assert text_of(document).splitlines() == [
        "id  text",
        " 0   0",
        " 1   1",
        "There are more than these 2 rows; --full shows all.",
    ]
    assert text_of(answers.query_document(QueryAnswer(("id",), iter(())), 2)) == "id\n(no rows)\n"
