"""The index of several reports as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import BinaryIO

from snapreport.ground.units import format_bytes, format_count
from snapreport.ground.version import __version__
from snapreport.model.ranks import Rank, RankDevice, Run
from snapreport.reporters.markdown.markdown_parts import first_that_fits, table
from snapreport.reporters.words.plain_text import code_span, cut, escaped
from snapreport.reporters.words.ranks_words import (
    conclusion,
    deviation,
    deviation_text,
    growth_text,
    heading,
    oom_text,
    peak_text,
)
from snapreport.reporters.words.summary_rows import memory_name

# Letters of names and of verdicts, and rows, tried in turn until the whole fits.
_ROOMS = ((80, 160, 10_000), (60, 80, 400), (40, 40, 200), (40, 0, 50))


class RanksMarkdownReporter:
    """Writes the list of several recordings as Markdown that fits into an issue comment."""

    def render(self, run: Run, out: BinaryIO) -> None:
        """Write the Markdown in UTF-8."""
        out.write(first_that_fits(partial(_report, run), _ROOMS))


def _report(run: Run, room: tuple[int, int, int]) -> Iterator[str]:
    name_room, _, most = room
    memory = memory_name(device.kind for _, device in run.rows)
    yield f"## {memory}: {escaped(cut(heading(run), 200))}"
    yield ""
    yield escaped(" ".join(conclusion(run)))
    yield ""
    headings = (
        "recording", "device", "peak allocated", "vs. median", "peak reserved",
        "out of memory", "growth", "verdict",
    )  # fmt: skip
    rows = [_row(run, rank, device, room) for rank, device in run.rows]
    yield from table(headings, rows[:most], left=(0, 1, 7))
    if len(rows) > most:
        yield f"{format_count(len(rows) - most)} more are left out."
        yield ""
    broken = [rank for rank in run.ranks if rank.error]
    for rank in broken[:most]:
        yield f"- {code_span(rank.name, name_room)}: {escaped(cut(rank.error, 300))}"
    if broken:
        yield ""
    yield f"<sub>snapreport {__version__}</sub>"
    yield ""


def _row(run: Run, rank: Rank, device: RankDevice, room: tuple[int, int, int]) -> tuple[str, ...]:
    name_room, verdict_room, _ = room
    peak = peak_text(device)
    return (
        f"[{code_span(rank.name, name_room)}]({rank.link})",
        code_span(device.device),
        f"**{peak}** (largest)" if run.is_largest(device) else peak,
        deviation_text(deviation(run, device)),
        "-" if device.reserved is None else format_bytes(device.reserved),
        oom_text(device),
        growth_text(device),
        escaped(cut(device.verdict, verdict_room)) if verdict_room else "",
    )
