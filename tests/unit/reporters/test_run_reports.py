"""A run as Markdown, text and a page: what is said, what is left out, and that texts stay texts."""

from __future__ import annotations

import base64
import hashlib
import io
import itertools
import re
from dataclasses import replace
from functools import partial
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest

from dev.benchmarks.runs.facts import example_run
from snapreport.diagnosis.ranks.find_run import find_run
from snapreport.model.run import (
    Cells,
    Difference,
    GroupChange,
    RankChange,
    RankFacts,
    RankFinding,
    Replicated,
    Run,
    RunDiff,
    RunFindings,
)
from snapreport.names.strings import Tally, page_strings
from snapreport.reporters.document import Code
from snapreport.reporters.html import inline
from snapreport.reporters.markdown import LIMIT
from snapreport.reporters.run import (
    ROOMS,
    SCREEN,
    missing_text,
    run_as_json,
    run_diff_document,
    run_document,
    run_findings_document,
)
from snapreport.reporters.run_page import write_run_page
from tests.documents import markdown_of, text_of
from tests.hostile_text import ATTACKS, is_calm
from tests.unit.reporters.test_hostile_outputs import check_markdown

Made = tuple[Run, RunFindings]


@pytest.fixture(scope="module")
def small() -> Made:
    return example_run(12)


def html_of(made: Made, pages: dict[str, str] | None = None) -> str:
    out = io.BytesIO()
    write_run_page(*made, out, pages)
    return out.getvalue().decode()


def markdown(made: Made, pages: dict[str, str] | None = None) -> str:
    return markdown_of(partial(run_document, *made, pages=pages), ROOMS)


def text(made: Made) -> str:
    return text_of(run_document(*made, SCREEN))


def test_missing_ranks_in_a_row_are_a_range_and_a_pattern_is_named(small: Made) -> None:
    def said(*missing: int) -> str:
        text, killed, rest = missing_text(replace(small[1], missing=missing)).partition(
            " A process that is killed leaves none."
        )
        assert bool(killed) == bool(missing)
        assert not rest
        return text

    assert said() == ""
    assert said(4) == "There is no file for rank 4."
    assert said(7, 5, 8, 9, 1, 2) == "There is no file for ranks 1, 2, 5 and 7 to 9."
    assert said(*range(0, 40, 2)).endswith("34, 36 and 38.")
    every_second = "There is no file for these ranks: every second rank from 0 to 98."
    assert said(*range(0, 100, 2)) == every_second


def test_every_form_names_what_is_odd_missing_and_broken(small: Made) -> None:
    run, findings = small
    broken = run.ranks[findings.broken[0]]
    html = html_of(small)
    for said in (html, markdown(small).replace("\\", ""), text(small)):
        code = "<code>{}</code>" if said is html else "`{}`"
        said = " ".join(said.split())
        for sentence in (findings.headline, *(odd.sentence for odd in findings.odd)):
            assert re.sub("`(.*?)`", lambda name: code.format(name[1]), sentence) in said  # noqa: B023
        assert "There is no file for ranks 9 and 10." in said
        assert broken.source in said
        assert broken.error in said
        for group in findings.groups:
            assert group.name in said


def test_names_are_code_on_the_page_and_no_backticks_are_printed(small: Made) -> None:
    shown = re.sub(r"(?s)<(script|style)\b.*?</\1>", "", html_of(small))
    assert "`" not in shown
    assert "<code>attend attention.py:40</code>" in shown


def test_a_row_is_linked_to_its_page_where_there_is_one(small: Made) -> None:
    page = html_of(small, {"rank3.pickle": "ranks/rank3.html"})
    assert page.count('href="ranks/rank3.html"') == 2  # the odd rank's card, and the table
    assert "[`rank 3`](<ranks/rank3.html>)" in markdown(small, {"rank3.pickle": "ranks/rank3.html"})


def test_an_odd_rank_is_linked_to_its_page_where_it_is_named(small: Made) -> None:
    said = markdown(small, {"rank3.pickle": "ranks/rank3.html"})
    assert "  - Its page: [`rank 3`](<ranks/rank3.html>)\n" in said
    assert "Its page" not in markdown(small)
    page = inline(Code("rank 3", link='a".html'))
    assert page == '<a href="a&#34;.html"><code>rank 3</code></a>'
    assert "](" not in markdown(small, {"rank3.pickle": "a>b.html"})


def test_two_runs_say_what_there_was_before() -> None:
    more = Difference("site", "attend attention.py:40", 5 << 30, 2 << 30, 0, 0, 0, 0)
    groups = (GroupChange("all", (0,), 2 << 30, 5 << 30, (more,), "All peak higher."),)
    ranks = tuple(
        RankChange(f"rank {k}", k, k, 2 << 30, 5 << 30, (more,), odd=k == 1) for k in range(3)
    )
    said = text_of(run_diff_document(RunDiff("NEW peaks higher.", ranks, groups, (), ()), 2))
    assert (
        "  - All peak higher.\n"
        "    - call site attend attention.py:40: +3.00 GiB; now 5.00 GiB, 2.00 GiB before\n"
    ) in said
    assert re.search(r"change +before +now +rank *\n\+3.00 GiB .* rank 1 +unlike its group\n", said)
    assert said.endswith("1 more rank is left out.\n")


def test_findings_of_one_code_are_one_and_the_worst_words_it(small: Made) -> None:
    found = [RankFinding("oom", severity, severity.upper()) for severity in ("note", "critical")]
    ranks = [
        replace(rank, devices=(replace(rank.devices[0], findings=(found[k == 2],)),))
        for k, rank in enumerate(small[0].ranks[:9])
    ]
    said = text_of(run_findings_document(Run("", tuple(ranks)), full=False))
    names = ", ".join(f"rank {k}" for k in range(8))
    assert " ".join(said.split()) == (
        f"- critical: CRITICAL - oom, in {names} and 1 more; worded for rank 2."
    )


def test_a_row_of_another_device_is_linked_to_that_device(small: Made) -> None:
    run = small[0]
    second = replace(run.ranks[3].devices[0], device="cuda:1", place=1, opens=False)
    ranks = list(run.ranks)
    ranks[3] = replace(ranks[3], devices=(*ranks[3].devices, second))
    made = (run := replace(run, ranks=tuple(ranks)), find_run(run))
    pages = {"rank3.pickle": "ranks/rank3.html"}
    assert "[`rank 3, cuda:1`](<ranks/rank3.html#device=1>)" in markdown(made, pages)
    assert 'href="ranks/rank3.html#device=1"' in html_of(made, pages)


def test_markdown_of_many_ranks_fits_and_counts_what_it_leaves_out() -> None:
    made = example_run(600, events=10)
    said = markdown(made, {each.source: f"ranks/{each.source}.html" for each in made[0].ranks})
    assert len(said.encode()) < LIMIT
    shown = said.count(" | [`rank ")
    left = re.search(r"(\d+) more ranks are left out", said)
    assert left
    assert shown + int(left[1]) == 600 - 3


def test_a_run_without_any_figures_says_so(small: Made) -> None:
    ranks = tuple(replace(each, devices=(), error="cut off") for each in small[0].ranks)
    made = (run := replace(small[0], ranks=ranks), find_run(run))
    assert "there are no figures" in html_of(made)
    assert "heat-still" not in html_of(made)
    assert "cut off" in text(made)
    assert "`rank0.pickle`: cut off" in markdown(made)


def test_json_has_every_row_to_the_byte(small: Made) -> None:
    run, findings = small
    rows = run_as_json(run, findings)["rows"]
    assert [row["allocated"] for row in rows] == [
        run.ranks[at].devices[place].allocated for at, place in findings.rows
    ]


class _Scripts(HTMLParser):
    """The text of each script and style that a browser would run or apply."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.tags: list[str] = []
        self._open = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not any(name.startswith("on") or name == "style" for name, _ in attrs)
        if tag in ("script", "style") and not dict(attrs).get("type"):
            self._open = True
            self.found.append("")

    def handle_endtag(self, tag: str) -> None:
        self._open = False

    def handle_data(self, data: str) -> None:
        if self._open:
            self.found[-1] += data


def hash_of(part: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()


def test_the_policy_allows_what_the_page_has_and_nothing_else(small: Made) -> None:
    page = html_of(small)
    policy = unescape(page.partition('Content-Security-Policy" content="')[2].partition('"')[0])
    parser = _Scripts()
    parser.feed(page)
    allowed = set(re.findall(r"sha256-[A-Za-z0-9+/=]{44}", policy))
    assert policy.startswith("default-src 'none'")
    assert {hash_of(part) for part in parser.found} <= allowed
    colophon = page.partition('<details class="colophon">')[2].partition("</footer>")[0]
    assert set(re.findall(r"sha256-[A-Za-z0-9+/=]{44}", colophon)) == allowed
    assert not re.search(r"https?://|url\(", "".join(parser.found))


def hostile(made: Made, first: int) -> Made:
    """A run in which every text of a stranger attacks, each in the next way."""
    run, findings = made
    attacks = list(ATTACKS.values())
    texts = itertools.cycle(attacks[first:] + attacks[:first])

    def rank(each: RankFacts) -> RankFacts:
        devices = tuple(
            replace(
                device,
                device=next(texts),
                holders=tuple(replace(holder, key=next(texts)) for holder in device.holders),
                failed=tuple(replace(request, site=next(texts)) for request in device.failed),
            )
            for device in each.devices
        )
        return replace(
            each,
            source=f"{each.source}{next(texts)}",
            label=next(texts),
            name=replace(each.name, host=next(texts), coordinates=((next(texts), 1),)),
            devices=devices,
            error=next(texts) if each.error else "",
        )

    differences = tuple(Difference("site", text, 5, 3, 1, 1, 1, 1) for text in attacks[:6])
    return (
        Run(next(texts), tuple(map(rank, run.ranks)), ((next(texts), 4),)),
        replace(
            findings,
            headline=next(texts),
            groups=tuple(
                replace(each, name=next(texts), sentence=next(texts), differences=differences)
                for each in findings.groups
            ),
            odd=tuple(
                replace(each, sentence=next(texts), differences=differences)
                for each in findings.odd
            ),
            replicated=(Replicated(next(texts), 2, next(texts), 5, 3, next(texts)),),
            notes=tuple(attacks),
        ),
    )


@pytest.mark.parametrize("first", range(0, len(ATTACKS), 9))
def test_strangers_texts_stay_texts(small: Made, first: int) -> None:
    calm, parser = _Scripts(), _Scripts()
    calm.feed(html_of(small))
    made = hostile(small, first)
    check_markdown(markdown(made))
    assert is_calm(text(made))
    page = html_of(made)
    parser.feed(page)
    assert set(parser.tags) <= set(calm.tags)
    assert is_calm(page)


def test_without_reserved_bytes_times_or_hosts_there_is_still_a_page(small: Made) -> None:
    run, findings = small
    ranks = tuple(
        replace(
            rank,
            devices=tuple(
                replace(
                    device,
                    kind="cpu",
                    reserved=None,
                    capacity=None,
                    by_time=None,
                    by_event=replace(device.by_event, reserved=None),
                )
                for device in rank.devices
            ),
        )
        for rank in run.ranks
    )
    assert "not known" in html_of((replace(run, ranks=ranks), findings))
    flat = Cells(0, 0, np.zeros(0, np.int64), None)
    bare = replace(ranks[0], devices=(replace(ranks[0].devices[0], by_event=flat),))
    only = replace(findings, rows=((0, 0),), groups=(), odd=(), missing=(), broken=(), growth=())
    assert "heat-still" not in html_of((Run("", (bare,)), only))


def test_every_text_of_the_page_can_be_listed_and_none_of_its_code_is_foreign(small: Made) -> None:
    tally = Tally()
    page_strings(html_of(small), tally)
    found = {(each.kind, each.text) for each in tally.given()}
    assert {
        ("rank", "rank 3"),
        ("host", "node001"),
        ("call site", "attend attention.py:40"),
    } <= found
    assert ("file", "rank9.pickle") not in found  # missing
    assert not {kind for kind, _ in found} & {"script", "style", "comment"}
