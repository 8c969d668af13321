"""The index of several recordings: what it says, and that strangers' names stay text."""

from __future__ import annotations

import io
from typing import Any

from markdown_it import MarkdownIt

from snapreport.model.ranks import Rank, RankDevice, Run
from snapreport.reporters.markdown.ranks_markdown import RanksMarkdownReporter
from snapreport.reporters.page.ranks_page import RanksHtmlReporter
from snapreport.reporters.words.ranks_words import conclusion, deviation, deviation_text
from tests.builders import MIB

HOSTILE = '<img src=x onerror="alert(1)">|`[a](b)`'


def device(allocated: int = 100 * MIB, **values: Any) -> RankDevice:
    usual: dict[str, Any] = {
        "device": "cuda:0",
        "kind": "cuda",
        "place": 0,
        "opens": True,
        "recorded": True,
        "allocated_width": 0,
        "reserved": 120 * MIB,
        "ooms": 0,
        "oom_size": 0,
        "verdict": "100 MiB allocated at the peak",
        "code": "peak",
        "severity": "note",
        "growth": 0,
    }
    return RankDevice(allocated=allocated, **usual | values)


def rank(name: str, *devices: RankDevice, error: str = "") -> Rank:
    return Rank(name, "" if error else f"{name}.html", devices, error)


def run_of(*ranks: Rank) -> Run:
    return Run("", ranks)


def page(run: Run) -> str:
    out = io.BytesIO()
    RanksHtmlReporter().render(run, out)
    return out.getvalue().decode()


def markdown(run: Run) -> str:
    out = io.BytesIO()
    RanksMarkdownReporter().render(run, out)
    return out.getvalue().decode()


def test_equal_peaks_are_said_to_be_equal_and_none_is_the_largest() -> None:
    run = run_of(*(rank(f"r{k}", device()) for k in range(8)))
    assert conclusion(run) == ["Allocated memory peaks at 100.0 MiB in all 8, to the byte."]
    assert not any(run.is_largest(each) for _, each in run.rows)
    assert "largest" not in page(run).split("<body", 1)[1]


def test_the_one_that_is_off_is_named_and_marked() -> None:
    odd = device(121 * MIB)
    run = run_of(*(rank(f"r{k}", device()) for k in range(7)), rank("odd", odd))
    assert conclusion(run)[0] == (
        "Allocated memory peaks between 100.0 MiB (r0) and 121.0 MiB (odd), median 100.0 MiB."
    )
    assert deviation_text(deviation(run, odd)) == "+21%"
    assert page(run).count("largest peak") == 1
    assert page(run).count('class="num odd"') == 1
    assert "**121.0 MiB** (largest) | +21%" in markdown(run)


def test_failures_growth_and_odd_verdicts_are_named() -> None:
    run = run_of(
        *(rank(f"r{k}", device()) for k in range(9)),
        rank("full", device(ooms=2, oom_size=MIB, code="oom", severity="critical")),
        rank("leaks", device(growth=3 * MIB, code="leak", severity="warning")),
        rank("late", device(code="started-late", severity="warning")),
        rank("gone", error="gone.pickle does not exist; check the path."),
    )
    assert conclusion(run)[1:] == [
        "Out of memory: full.",
        "Growing with every step: leaks.",
        "Unlike the others: late (much was allocated before recording began).",
        "Without a report: gone.",
    ]
    for text in (page(run), markdown(run)):
        assert "1.00 MiB refused, last of 2" in text
        assert "3.00 MiB a step" in text
        assert "gone.pickle does not exist" in text


def test_memories_of_different_kinds_are_not_compared() -> None:
    host = device(MIB, device="host:0", kind="host", place=1, opens=False, reserved=None)
    run = run_of(*(rank(f"r{k}", device(), host) for k in range(3)))
    assert run.middle("cuda") == 100 * MIB
    assert run.middle("host") == MIB
    assert conclusion(run) == [
        "Allocated memory peaks at 100.0 MiB in all 3, to the byte.",
        "Pinned host memory peaks at 1.00 MiB in all 3, to the byte.",
    ]
    assert "odd" not in page(run).split("<body", 1)[1]
    assert 'href="r0.html#device=1"' in page(run)


def test_a_lower_bound_says_so() -> None:
    text = page(run_of(rank("a", device(allocated_width=512))))
    assert "≥ 100.0 MiB" in text
    assert "at least 104,857,600 bytes, at most 512 more" in text


def test_strangers_names_stay_text() -> None:
    run = Run(HOSTILE, (rank("a", device(verdict=HOSTILE)), rank(HOSTILE, error=HOSTILE)))
    assert "<img" not in page(run)
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown(run))
    assert "<img" not in rendered
    assert rendered.count("<a href") == 1
    rows = [line for line in markdown(run).splitlines() if line.startswith("| [")]
    assert [line.replace("\\|", "").count("|") for line in rows] == [9]


def test_a_thousand_ranks_fit_into_a_comment() -> None:
    run = run_of(*(rank(f"rank{k}", device(verdict="x" * 300)) for k in range(1000)))
    text = markdown(run)
    assert len(text.encode()) < 65_536
    assert "more are left out." in text
