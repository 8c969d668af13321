"""Findings as text: values in their units, words explained, ids that stay, hostile texts."""

from __future__ import annotations

import pytest
from markupsafe import escape

from snapreport.ground.glossary import GLOSSARY
from snapreport.model.diagnoses import (
    CODES,
    SUGGESTION_CODES,
    TOPICS,
    Column,
    Diagnosis,
    Figure,
    Finding,
    Frees,
    OomEvent,
    Suggestion,
    Table,
    View,
    in_order,
    names_a_finding,
)
from snapreport.reporters.document import Document
from snapreport.reporters.markdown import document_blocks
from snapreport.reporters.page_report import lay_out, lay_out_of_file
from snapreport.reporters.plain_text import cut_site
from snapreport.reporters.summary import diagnosis_blocks
from snapreport.reporters.text import lay_out_columns
from snapreport.reporters.whole_page import Definitions
from snapreport.reporters.words import (
    figure_text,
    frees_text,
    reasons,
    saving_text,
    tally,
    value_text,
)
from tests.documents import text_of

MIB = 1024 * 1024
HOSTILE = "<b>x</b> | `y` @me \x1b[31m\u202e"


def finding(code: str = "leak", severity: str = "warning", **values: object) -> Finding:
    return Finding(code, severity, "A title", "Why.", **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (2 * MIB, "bytes", "2.00 MiB"),
        (None, "bytes", "-"),
        (1234, "count", "1,234"),
        (1.5, "count", "1.5"),
        (-1, "event", "start"),
        (1200, "event", "1,200"),
        (0.125, "share", "12.5%"),
        (1500, "time_us", "1.5 ms"),
        ("full", "text", "full"),
    ],
)
def test_a_value_is_written_in_its_unit(value: object, unit: str, text: str) -> None:
    assert value_text(value, unit) == text  # type: ignore[arg-type]


def test_a_range_names_both_ends_and_an_exact_figure_one() -> None:
    assert figure_text(Figure("", MIB, most=2 * MIB)) == "1.00 MiB to 2.00 MiB"
    assert figure_text(Figure("", MIB, most=MIB)) == "1.00 MiB"
    assert figure_text(Figure("", 1024 * MIB, most=1024 * MIB + 9)) == "1.00 GiB (up to 9 B more)"


def test_what_a_suggestion_frees_names_its_bounds_and_what_is_expected() -> None:
    between = Frees(MIB, 2 * MIB, 3 * MIB, "the least", "as a rule", "the most")
    assert frees_text(between) == "frees 1.00 MiB to 3.00 MiB, about 2.00 MiB"
    assert frees_text(Frees(0, MIB, 2 * MIB)) == "frees up to 2.00 MiB, about 1.00 MiB"
    assert frees_text(Frees(0, MIB, MIB)) == "frees up to 1.00 MiB"
    assert frees_text(Frees(MIB, 2 * MIB, 2 * MIB)) == "frees at least 1.00 MiB, about 2.00 MiB"
    assert frees_text(Frees.exactly(MIB)) == "frees 1.00 MiB"
    assert frees_text(Frees.exactly(0)) == "frees no memory"
    assert frees_text(None) == ""
    assert reasons(between) == [
        "At least 1.00 MiB: the least.",
        "About 2.00 MiB: as a rule.",
        "At most 3.00 MiB: the most.",
    ]
    assert reasons(Frees(0, MIB, MIB, "nothing is sure")) == []
    assert reasons(Frees.exactly(MIB)) == reasons(None) == []


def test_the_best_saving_is_the_one_that_is_expected_to_free_the_most() -> None:
    exact, about = Frees.exactly(2 * MIB), Frees(0, 3 * MIB, 4 * MIB)
    offered = [Suggestion("leak", "", "", each) for each in (exact, about, None)]
    assert saving_text(offered) == "about 3.00 MiB"
    assert saving_text(offered[:1]) == "2.00 MiB"
    assert saving_text(offered[2:]) == saving_text([]) == ""


@pytest.mark.parametrize("sizes", [(-1, 0, 0), (2, 1, 3), (0, 2, 1)])
def test_an_estimate_lies_between_its_bounds(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="do not go up"):
        Frees(*sizes)


def test_a_suggestion_has_a_known_code() -> None:
    assert all(line.endswith(".") for line in SUGGESTION_CODES.values())
    with pytest.raises(ValueError, match="not a kind"):
        Suggestion("buy-a-gpu", "Buy one.")


def test_an_id_depends_on_code_and_subject_alone() -> None:
    assert finding().id == "leak"
    here = finding(subject="train.py:7")
    assert here.id == finding(subject="train.py:7", severity="note", bytes=5).id
    assert here.id != finding(subject="train.py:8").id
    assert names_a_finding(here.id)


def test_every_code_has_a_topic_and_no_code_is_a_topic() -> None:
    assert {topic for topic, _ in CODES.values()} == set(TOPICS)
    # "churn" alone is both: its topic has more kinds, and naming it names them all.
    assert set(CODES) & set(TOPICS) == {"churn"}
    with pytest.raises(ValueError, match="not a kind"):
        finding("leek")


@pytest.mark.parametrize("name", ["leek", "leak/", "leak/12345", "leak/zzzzzz", "growth/123456"])
def test_what_no_finding_can_be_called_names_none(name: str) -> None:
    assert not names_a_finding(name)


def test_warnings_stand_above_notes_and_what_failed_or_held_the_peak_above_its_like() -> None:
    found = in_order(
        [
            finding("slack", "note", bytes=9 * MIB),
            finding("leak", "critical", bytes=5 * MIB),
            finding("leak", "warning", bytes=1),
            finding("oom", "critical", bytes=1),
            finding("churn", "warning", bytes=2),
            finding("peak", "note", bytes=1),
        ]
    )
    assert [each.code for each in found] == ["oom", "leak", "churn", "leak", "peak", "slack"]
    assert tally(found) == "2 critical, 2 warnings, 2 notes"
    assert [each.leads for each in found] == [True, True, True, True, True, False]


def test_silencing_keeps_the_rest_and_names_what_is_gone() -> None:
    one, other = finding(subject="a"), finding(subject="b")
    kept = Diagnosis((one, other, finding("slack", "note"))).without([one.id, "allocator"])
    assert kept.findings == (other,)
    assert kept.silenced == (one.id, "slack")


def test_a_word_is_explained_once_the_longest_term_first() -> None:
    define = Definitions()
    text = define.mark("A private pool is a pool; Pools <i>differ</i>.")
    assert text.count('role="tooltip"') == 2
    assert f'private pool<span role="tooltip">{GLOSSARY["private pool"]}' in text
    assert "&lt;i&gt;differ&lt;/i&gt;" in text
    assert "tooltip" not in define.mark("another pool")


@pytest.mark.parametrize(
    "text",
    [
        "in the except block",
        "two runs of a program, during which it is alive",
        "forward (block.py:28) and step (optimizer.py:3)",
        "stream.wait_stream(other), graph.pool(), live(), enabled='state'",
        "NllLossBackward0::active, slack::peak",
    ],
)
def test_ordinary_words_and_names_of_code_are_none_of_ours(text: str) -> None:
    assert "tooltip" not in Definitions().mark(text)


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("The peak is at event 12.", "event"),
        ("events 3 to 4", "event"),
        ("made from event", "event"),
        ("before an optimizer step", "optimizer step"),
        ("streams: two", "stream"),
        ("while CUDA graphs are captured", "CUDA graph"),
    ],
)
def test_our_words_are_explained(text: str, term: str) -> None:
    assert f'<span role="tooltip">{escape(GLOSSARY[term])}' in Definitions().mark(text)


def test_two_forms_of_a_word_are_explained_once() -> None:
    text = "Checkpoint activations; checkpointed parts stay."
    assert Definitions().mark(text).count('role="tooltip"') == 2


def test_a_link_has_the_keys_that_the_page_reads() -> None:
    view = View("live", 12, "requested", "a b&c")
    (card,) = lay_out([finding(view=view)], 2)
    assert card.link == "device=2&curve=requested&event=12&tab=live&search=a%20b%26c"
    ooms = [OomEvent(event, None, 1, 1, 1, 1, 0) for event in (3, 9)]
    (card,) = lay_out([finding("oom", "critical", view=View("events", 9, oom=True))], 0, ooms)
    assert card.oom == 1
    assert "oom=1" in card.link


def hostile() -> Finding:
    return Finding(
        "leak",
        "warning",
        HOSTILE,
        HOSTILE,
        evidence=(Figure(HOSTILE, HOSTILE, "text", HOSTILE),),
        tables=(Table(HOSTILE, (Column("where", "text"),), ((HOSTILE,),), 2),),
        suggestions=(
            Suggestion("leak", HOSTILE, "```\n" + HOSTILE, costs=HOSTILE, unless=HOSTILE),
        ),
    )


def test_what_concerns_all_devices_is_one_line_unless_critical() -> None:
    listed = [finding("uneven-split", "warning"), finding("oom", "critical")]
    assert [(each.finding.code, each.opens) for each in lay_out_of_file(listed)] == [
        ("oom", True),
        ("uneven-split", False),
    ]


def told(
    found: Finding, *, rows: int | None = None, notes_in_full: bool = True, width: int = 80
) -> str:
    """Return a finding as a terminal shows it."""
    blocks = diagnosis_blocks(Diagnosis((found,)), None, rows, notes_in_full=notes_in_full)
    return text_of(Document("", list(blocks)), width)


def test_a_stranger_s_text_drives_no_terminal() -> None:
    text = told(hostile(), rows=6)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "2 more." in text


def test_a_stranger_s_text_is_no_markdown() -> None:
    from markdown_it import MarkdownIt

    text = "\n\n".join(
        document_blocks(Document("", list(diagnosis_blocks(Diagnosis((hostile(),)), 5, 8))))
    )
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
    kinds = [
        child.content for token in tokens for child in token.children or [] if "html" in child.type
    ]
    assert kinds == []
    assert "\x1b" not in text
    assert "2 more." in text


def test_notes_are_titles_until_all_is_asked_for() -> None:
    text = told(finding("slack", "note"), notes_in_full=False)
    assert "- A title  [slack]" in text
    assert "Why." not in text


def test_figures_stand_whole_and_headings_break_into_lines() -> None:
    head, lines = lay_out_columns(
        ["could serve the request", "where"],
        [["1.00 MiB", "/a/long/path/train.py:7"], ["12 B", "x"]],
        [False, True],
        28,
        [cut_site, cut_site],
    )
    assert [*head, *lines] == [
        "   could",
        "   serve",
        "     the",
        " request  where",
        "1.00 MiB  …/path/train.py:7",
        "    12 B  x",
    ]


def test_a_meaning_goes_on_below_itself() -> None:
    figures = (Figure("asked for", MIB, "bytes", "as the allocator rounds it, up to 512 bytes"),)
    assert (
        "  asked for  1.00 MiB  as the allocator rounds it, up to 512\n"
        "                       bytes" in told(finding(evidence=figures), width=60)
    )
