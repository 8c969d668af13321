"""Answers about a moment as text for a terminal: amounts, groups, lines and live allocations."""

from __future__ import annotations

from collections.abc import Sequence

from snapreport.ground.units import format_bytes, format_count, format_share, plural
from snapreport.model.answer_tables import Group, LineUse, LiveRows, Parts, TraceEntry, sizes_of
from snapreport.model.findings import AMOUNTS, Amounts, StageUse
from snapreport.model.history import Allocations
from snapreport.reporters.terminal.text_tables import Page
from snapreport.reporters.words.plain_text import cut, cut_place, one_line
from snapreport.reporters.words.summary_rows import amount, event_name, event_range, signed


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
