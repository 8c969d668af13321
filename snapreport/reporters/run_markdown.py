"""A run as Markdown, short enough for an issue comment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO

from snapreport.ground.units import format_bytes, format_count, plural
from snapreport.ground.version import __version__
from snapreport.model.run import Difference, Group, Odd, Run, RunFindings
from snapreport.reporters.markdown import bullets, first_that_fits, folded, table
from snapreport.reporters.plain_text import code_span, cut, escaped
from snapreport.reporters.run_words import (
    KIND_WORDS,
    ODD_WORDS,
    RunRow,
    balance,
    change_text,
    difference_name,
    extent,
    failed_text,
    heading,
    here_text,
    missing_text,
    parting_text,
    peak_text,
    rows_of,
    usual_text,
)


@dataclass(frozen=True)
class _Room:
    """How much of each part is shown."""

    rows: int
    """The most rows in the tables of ranks and groups, and in the list of broken files."""
    odd: int
    differences: int
    letters: int
    """The most letters of a name."""


_ROOMS = (
    _Room(10_000, 100, 6, 80),
    _Room(400, 60, 5, 80),
    _Room(150, 30, 4, 60),
    _Room(60, 15, 3, 40),
    _Room(20, 6, 2, 30),
)


class RunMarkdownReporter:
    """Writes the findings about a run as Markdown."""

    def render(
        self,
        run: Run,
        findings: RunFindings,
        out: BinaryIO,
        pages: Mapping[str, str] | None = None,
    ) -> None:
        """Write the Markdown in UTF-8.

        Args:
            run: the run's figures.
            findings: the conclusions from them.
            out: the file to write to.
            pages: links to pages of single files, by ``RankFacts.source``.
        """
        rows = rows_of(run, findings, pages)
        out.write(first_that_fits(partial(_report, run, findings, rows), _ROOMS))


def _report(run: Run, findings: RunFindings, rows: Sequence[RunRow], room: _Room) -> Iterator[str]:
    yield f"## {escaped(cut(heading(run), 200))}"
    yield f"**{escaped(findings.headline)}**"
    yield escaped(", ".join(extent(run, findings)))
    yield from _odd(findings.odd, rows, room)
    yield from _groups(findings.groups, room)
    yield from _lost(run, findings, room)
    yield from bullets(map(escaped, balance(findings)))
    if rows:
        yield folded("All ranks", _ranks(rows, room))
    yield f"<sub>snapreport {__version__}</sub>"


def _linked(row: RunRow, letters: int) -> str:
    """Return a row's name, as a link to its page if there is one."""
    name = code_span(row.name, letters)
    return f"[{name}](<{row.link}>)" if row.link and not set(row.link) & set("<>\n\\") else name


def _odd(odd: Sequence[Odd], rows: Sequence[RunRow], room: _Room) -> Iterator[str]:
    if not odd:
        return
    yield "### Unlike the others"
    for each in odd[: room.odd]:
        name = _linked(rows[each.row], room.letters)
        parting = parting_text(each)
        text = f"**{ODD_WORDS[each.code]}**, {name}: {escaped(each.sentence)}"
        yield f"{text}\n{escaped(parting)}" if parting else text
        yield from _differences(each.differences, room)
    yield from _more(len(odd) - room.odd, "odd rank")


def _differences(differences: tuple[Difference, ...], room: _Room) -> Iterator[str]:
    if not differences:
        return
    rows = [
        (
            change_text(each),
            here_text(each),
            usual_text(each),
            KIND_WORDS[each.kind],
            code_span(difference_name(each), room.letters),
        )
        for each in differences[: room.differences]
    ]
    yield table(("difference", "here", "usually", "kind", "what"), rows, left=(3, 4))
    yield from _more(len(differences) - room.differences, "difference")


def _groups(groups: Sequence[Group], room: _Room) -> Iterator[str]:
    if not groups:
        return
    yield "### Groups of ranks that behave alike"
    rows = [
        (
            escaped(cut(each.name, room.letters)),
            format_count(len(each.rows)),
            format_bytes(each.allocated),
            escaped(cut(each.sentence, 300)),
        )
        for each in groups[: room.rows]
    ]
    yield table(("group", "ranks", "median peak", ""), rows, left=(0, 3))
    yield from _more(len(groups) - room.rows, "group")


def _lost(run: Run, findings: RunFindings, room: _Room) -> Iterator[str]:
    if missing := missing_text(findings):
        yield missing
    yield from bullets(
        f"{code_span(rank.source, room.letters)}: {escaped(cut(rank.error, 300))}"
        for rank in (run.ranks[at] for at in findings.broken[: room.rows])
    )
    yield from _more(len(findings.broken) - room.rows, "broken file")


def _ranks(rows: Sequence[RunRow], room: _Room) -> Iterator[str]:
    cells = [
        (
            _linked(row, room.letters),
            code_span(row.rank.name.host, room.letters) if row.rank.name.host else "",
            escaped(cut(row.group_name, room.letters)),
            peak_text(row.device),
            row.versus,
            "-" if row.device.reserved is None else format_bytes(row.device.reserved),
            failed_text(row.device),
        )
        for row in rows[: room.rows]
    ]
    headings = (
        "rank",
        "host",
        "group",
        "peak allocated",
        "vs. median",
        "reserved",
        "out of memory",
    )
    yield table(headings, cells, left=(0, 1, 2))
    yield from _more(len(rows) - room.rows, "rank")


def _more(count: int, word: str) -> Iterator[str]:
    if count > 0:
        yield f"{plural(count, f'more {word}')} {'is' if count == 1 else 'are'} left out."
