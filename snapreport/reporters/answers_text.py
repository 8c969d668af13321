"""Answers about a moment as text for a terminal: amounts, groups, lines and live allocations."""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from snapreport.ground.safe_text import csv_cell, plain_json
from snapreport.ground.units import format_bytes, format_count, format_share, plural
from snapreport.model.answers import (
    Cell,
    Group,
    LineUse,
    LiveRows,
    Parts,
    PeakWithout,
    Profile,
    QueryAnswer,
    TraceEntry,
    WhatIf,
    sizes_of,
)
from snapreport.model.findings import AMOUNTS, Amounts, StageUse
from snapreport.model.history import Allocations
from snapreport.reporters.json_report import fields_of, with_format
from snapreport.reporters.plain_text import cut, cut_place, one_line
from snapreport.reporters.text_tables import Page
from snapreport.reporters.words import amount, event_name, event_range, signed


def amounts(
    page: Page, title: str, found: Amounts, parts: Parts, ever: int, entry: TraceEntry | None
) -> None:
    """Write every amount at a moment, the event before it, and all bytes ever allocated."""
    page.say(title, "title")
    if entry is not None:
        at = "" if entry.action == "oom" else f" at {entry.addr:#x}"
        page.say(f"after {one_line(entry.action)} of {format_bytes(entry.size)}{at}")
    values = [(name, getattr(found, name)) for name in AMOUNTS]
    page.table(
        ("", "", "bytes"),
        [
            (field, "not known", "")
            if value is None
            else (field, format_bytes(value), format_count(value))
            for field, value in values
        ],
    )
    page.say(
        f"baseline {format_bytes(parts.baseline_bytes)} in"
        f" {plural(parts.baseline_count, 'allocation')}, made during the recording"
        f" {format_bytes(parts.dynamic_bytes)} in {plural(parts.dynamic_count, 'allocation')}"
    )
    page.say(f"ever allocated {format_bytes(ever)}")


def groups(page: Page, by: str, found: Sequence[Group], total: int, most: int | None) -> None:
    """Write live allocations by what they have in common."""
    shown = found[:most]
    split = any(group.backward for group in found)
    page.table(
        ("bytes", *(("backward",) if split else ()), "share", "count", "requested", by),
        [
            (
                format_bytes(group.bytes),
                *((format_bytes(group.backward),) if split else ()),
                format_share(group.bytes, total),
                format_count(group.count),
                format_bytes(group.requested),
                group.name,
            )
            for group in shown
        ],
        shares=[group.bytes / max(total, 1) for group in shown],
        cut=cut_place if by in ("line", "file") else cut,  # the end of a path says the most
    )
    _say_rest(page, len(found) - len(shown), sum(group.bytes for group in found[len(shown) :]))


def lines(page: Page, found: Sequence[LineUse], most: int | None) -> None:
    """Write the line tracer's table."""
    shown = found[:most]
    code = {line.source for line in shown if line.source}
    headings = ("bytes", "cumulative", "median", "count", "allocated", "line", "code")
    rows = [
        (
            format_bytes(line.bytes),
            format_bytes(line.cumulative),
            " and ".join(map(format_bytes, sizes_of(line))),
            format_count(line.count),
            format_bytes(line.total),
            line.location,
            line.source,
        )
        for line in shown
    ]
    used = len(headings) if code else -1  # no column of code if no line has any
    page.table(
        headings[:used],
        [row[:used] for row in rows],
        (5, 6),
        cut=lambda text, wide: (cut if text in code else cut_place)(text, wide),
    )
    _say_rest(page, len(found) - len(shown), sum(line.bytes for line in found[len(shown) :]))


def allocations(
    page: Page,
    live: LiveRows,
    rows: Allocations,
    sites: Sequence[str],
    events: int,
    most: int | None,
) -> None:
    """Write the live allocations, largest first.

    Args:
        page: to write on.
        live: the allocations.
        rows: the device's columns.
        sites: the call site of each row of ``live``.
        events: the device's number of events.
        most: the most rows to write; None for all.
    """
    shown = live.rows[:most].tolist()
    page.table(
        ("bytes", "requested", "address", "made", "freed", "call site"),
        [
            (
                format_bytes(int(live.bytes[k])),
                format_bytes(int(rows.size[i])),
                f"{int(rows.addr[i]):x}_{int(rows.version[i])}",
                event_name(int(rows.alloc_event[i])),
                "-"
                if rows.free_requested_event[i] >= events
                else format_count(int(rows.free_requested_event[i])),
                sites[k],
            )
            for k, i in enumerate(shown)
        ],
    )
    _say_rest(page, len(live.rows) - len(shown), int(live.bytes[len(shown) :].sum()))


def stages(
    page: Page, numbered: Sequence[tuple[str, StageUse]], tops: Sequence[Sequence[Group]]
) -> None:
    """Write stages with their memory, then the largest stacks at each stage's peak, if any."""
    stage_table(page, numbered)
    for (label, stage), top in zip(numbered, tops, strict=True):
        if top:
            page.say()
            page.say(f"{one_line(label)}, at its peak (event {event_name(stage.peak_event or 0)})")
            groups(page, "stack", top, stage.peak_bytes or 0, None)


def stage_table(page: Page, named: Sequence[tuple[str, StageUse]]) -> None:
    """Write stages under the names given, indented by depth."""
    page.table(
        ("events", "start", "peak", "end", "change", "stage"),
        [
            (
                event_range(stage.start_event, stage.end_event),
                amount(stage.start_bytes),
                amount(stage.peak_bytes),
                amount(stage.end_bytes),
                signed(stage.change),
                "  " * min(stage.depth, 8) + one_line(name),
            )
            for name, stage in named
        ],
        cut=cut,
    )


def _say_rest(page: Page, count: int, held: int) -> None:
    if count:
        page.say(f"and {format_count(count)} more with {format_bytes(held)}; --full shows all")


# What the peak would be without some allocations, as text for a terminal.


_NAMED = 3
"""The most removed groups that are named."""


def peak_as_it_was(device: str, curve: str, peak: int, event: int) -> str:
    """Say where the peak is before any allocation is removed."""
    return f"{device}: {format_bytes(peak)} {curve} at the peak, {_at(event)}"


def what_if_table(page: Page, every: Sequence[WhatIf], by: str, most: int | None) -> None:
    """Write the peak without each group, the lowest first."""
    shown = every[:most]
    page.table(
        ("peak without", "lower by", "held there", "then at event", by),
        [
            (
                format_bytes(each.peak_bytes),
                format_bytes(each.falls),
                format_bytes(each.held),
                event_name(each.peak_event),
                each.name,
            )
            for each in shown
        ],
    )
    if rest := every[len(shown) :]:
        falls = format_bytes(max(each.falls for each in rest))
        page.say(
            f"and {format_count(len(rest))} more, each lower by {falls} at most; --full shows all"
        )


def without(page: Page, left: PeakWithout, by: str, most: int | None) -> None:
    """Write the peak that remains without some groups, and what holds it."""
    found = left.what_if
    names = [one_line(name) for name in left.taken[:_NAMED]]
    more = len(left.taken) - len(names)
    page.say(
        f"without {plural(found.count, 'allocation')} of {', '.join(names)}"
        + (f" and {format_count(more)} more" if more else "")
    )
    page.say(
        f"{format_bytes(found.peak_bytes)} at the peak, {_at(found.peak_event)}: lower by"
        f" {format_bytes(found.falls)} (they held {format_bytes(found.held)} at the peak as it was)"
    )
    if left.held:
        page.say()
        page.say("Held then")
        groups(page, by, left.held, found.peak_bytes, most)


def _at(event: int) -> str:
    return "at the start" if event < 0 else f"event {event_name(event)}"


# A profile as text, JSON or CSV: memory by group over time.


def write_profile(page: Page, profile: Profile, by: str) -> None:
    """Write each group's bytes at the device's peak, its own peak, and its rule."""
    whole = profile.peak_bytes
    page.say(
        f"{format_bytes(whole)} {profile.curve} at the peak"
        f" (event {event_name(profile.peak_event)})"
    )
    page.table(
        ("at the peak", "share", "own peak", "at event", "allocations", by),
        [
            (
                format_bytes(group.at_peak),
                format_share(group.at_peak, whole),
                format_bytes(group.peak_bytes),
                event_name(group.peak_event),
                format_count(group.count),
                f"{group.name}  [{group.rule}]" if group.rule else group.name,
            )
            for group in profile.groups
        ],
        cut=cut,
    )


def profile_json(profile: Profile) -> dict[str, Any]:
    """Return a profile as plain objects: one list of events, and a list of bytes for each group."""
    return {
        **fields_of(profile, "curve peak_event peak_bytes"),
        "events": profile.events.tolist(),
        "total": profile.total.tolist(),
        "groups": [
            {
                **fields_of(group, "name rule peak_bytes peak_event at_peak"),
                "allocations": group.count,
                "bytes": group.bytes.tolist(),
            }
            for group in profile.groups
        ],
    }


def profile_csv(profile: Profile, times: list[int | None]) -> str:
    """Return a profile as CSV: a row for each event, a column for each group.

    Args:
        profile: the profile.
        times: the time of each of its events in microseconds, None where unknown.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["event", "time_us", "total", *(csv_cell(group.name) for group in profile.groups)]
    )
    columns = [group.bytes.tolist() for group in profile.groups]
    rows = zip(profile.events.tolist(), times, profile.total.tolist(), *columns, strict=True)
    for event, time, *values in rows:
        writer.writerow([event, "" if time is None else time, *values])
    return text.getvalue()


# The rows that a query returns, as an aligned table, JSON or CSV.


_AT_ONCE = 1000


def query_table(answer: QueryAnswer, width: int, most: int | None) -> bytes:
    """Return an answer as an aligned table.

    Args:
        answer: what the query returned; its rows are consumed.
        width: of the terminal, in columns.
        most: the most rows to show; None for all.
    """
    found = list(itertools.islice(answer.rows, None if most is None else most + 1))
    shown = found[:most]
    texts = [[_text(cell) for cell in row] for row in shown]
    left = [
        i
        for i in range(len(answer.columns))
        if not any(isinstance(row[i], (int, float)) for row in shown)
        or not all(row[i] is None or isinstance(row[i], (int, float)) for row in shown)
    ]
    page = Page(width)
    page.table(answer.columns, texts, left, cut=cut)
    if not shown:
        page.say("(no rows)")
    if len(found) > len(shown):
        page.say(f"and more than these {format_count(len(shown))} rows; --full shows all")
    return page.render()


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bytes):
        return f"x'{cell.hex()}'"
    # A call stack has a line for each frame; here they share one line, outermost last.
    return one_line(" < ".join(cell.split("\n"))) if isinstance(cell, str) else str(cell)


def json_lines(answer: QueryAnswer) -> Iterator[bytes]:
    """Yield an answer as JSON with an object for each row, in chunks of rows."""
    head = orjson.dumps(with_format("query", {"columns": answer.columns}))
    yield plain_json(head)[:-1] + b',"rows":['
    first = True
    for chunk in _chunks(answer):
        rows = [
            plain_json(orjson.dumps(dict(zip(answer.columns, map(_plain, row), strict=True))))
            for row in chunk
        ]
        yield (b"\n" if first else b",\n") + b",\n".join(rows)
        first = False
    yield b"\n]}\n"


def _plain(cell: Cell) -> Cell:
    if isinstance(cell, bytes):
        return cell.hex()
    if isinstance(cell, float) and not math.isfinite(cell):
        return str(cell)
    return cell


def csv_lines(answer: QueryAnswer) -> Iterator[bytes]:
    """Yield an answer as CSV with a heading, in chunks of rows; NULL is an empty field."""
    heading = io.StringIO()
    csv.writer(heading, lineterminator="\n").writerow(map(csv_cell, answer.columns))
    yield heading.getvalue().encode()
    for chunk in _chunks(answer):
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([_csv(cell) for cell in row] for row in chunk)
        yield text.getvalue().encode()


def _csv(cell: Cell) -> Cell:
    if isinstance(cell, str):
        return csv_cell(cell)
    return cell.hex() if isinstance(cell, bytes) else cell


def _chunks(answer: QueryAnswer) -> Iterator[list[tuple[Cell, ...]]]:
    while chunk := list(itertools.islice(answer.rows, _AT_ONCE)):
        yield chunk
