"""Answers about one device as documents: what was live at a moment, what lived between two, stages.

Also memory by group, the peak without some allocations, and the rows that a query returns.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.units import (
    format_bytes,
    format_count,
    format_share,
    format_signed_bytes,
    plural,
)
from snapreport.model.answers import (
    Cell,
    Group,
    GroupChange,
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
from snapreport.model.findings import AMOUNTS, Amounts, CallTree, StageUse
from snapreport.model.history import Allocations
from snapreport.model.roles import Kind, Steps, StepUse, runs_of, step_range
from snapreport.model.snapshot import FrameTable
from snapreport.reporters.document import (
    Block,
    Code,
    Column,
    Cut,
    Document,
    Listing,
    Paragraph,
    Size,
    Table,
    Tag,
    Words,
    columns,
)
from snapreport.reporters.plain_text import cut_site, location
from snapreport.reporters.words import event_name, event_range, identified_text

_ALL = "--full shows all"

# A moment: every amount, then what holds the memory, in one of several views.


def live_document(
    said: str,
    found: Amounts,
    parts: Parts,
    ever: int,
    entry: TraceEntry | None,
    held: Block,
    note: str = "",
) -> Document:
    """Say what is live at a moment.

    Args:
        said: names the moment and the bytes of its curve.
        found: every amount.
        parts: how much is from before the recording.
        ever: all bytes allocated in the recording.
        entry: the event that led to the moment; None for the start.
        held: what holds the memory: a table by group, by line or by allocation, or a tree.
        note: what to know about the lines in it.
    """
    led = ""
    if entry is not None:
        at = "" if entry.action == "oom" else f" at {entry.addr:#x}"
        led = f"After {entry.action} of {format_bytes(entry.size)}{at}."
    values = [(name, getattr(found, name)) for name in AMOUNTS]
    rows: list[tuple[Words, ...]] = [
        (name, "not known", "") if value is None else (name, Size(value), Size(value, exact=True))
        for name, value in values
    ]
    blocks = [
        Paragraph(said, "title"),
        *([Paragraph(led)] if led else []),
        Table([Column("memory", True), Column("size"), Column("bytes")], rows),
        Paragraph(
            f"{_parts(parts)} Over the whole recording, {format_bytes(ever)} were allocated."
        ),
        held,
        *([Paragraph(note)] if note else []),
    ]
    return Document("What is live at a moment", blocks)


def _parts(parts: Parts) -> str:
    """Say how much was there before the recording began and how much came later, zeros left out."""
    count = parts.baseline_count + parts.dynamic_count
    if not count:
        return "No allocations."
    if parts.baseline_count and parts.dynamic_count:
        return (
            f"{format_bytes(parts.baseline_bytes)} in {plural(parts.baseline_count, 'allocation')}"
            f" are from before the recording, {format_bytes(parts.dynamic_bytes)} in"
            f" {format_count(parts.dynamic_count)} were made in it."
        )
    every = "all " if count > 1 else ""
    since = "from before" if parts.baseline_count else "made in"
    held = format_bytes(parts.baseline_bytes + parts.dynamic_bytes)
    return f"{held} in {plural(count, 'allocation')}, {every}{since} the recording."


def asked_document(said: str, parts: Parts, held: Block, note: str = "") -> Document:
    """Say which allocations lived when it was asked for.

    Args:
        said: the question, and the bytes of all that answer it.
        parts: how much is from before the recording.
        held: the allocations, as in ``live_document``.
        note: what to know about the lines in it.
    """
    blocks: list[Block] = [Paragraph(said, "title"), Paragraph(_parts(parts))]
    if parts.baseline_count or parts.dynamic_count:
        blocks += [held, *([Paragraph(note)] if note else [])]
    return Document("What lived when", blocks)


def change_document(
    said: str,
    curve: tuple[int, int],
    came: NDArray[np.int64],
    went: NDArray[np.int64],
    held: Block,
    note: str = "",
) -> Document:
    """Say what came and what went between two moments.

    Args:
        said: names the moments and the change.
        curve: its bytes at both.
        came: bytes of each allocation that came and stayed.
        went: bytes of each allocation that went.
        held: the changes: a table by group or by allocation, or a tree.
        note: what to know about the lines in it.
    """
    gained, lost = int(came.sum()), int(went.sum())
    before, after = map(format_bytes, curve)
    blocks: list[Block] = [Paragraph(said, "title")]
    if not (len(came) or len(went)):
        blocks += [Paragraph(f"Nothing came and stayed, and nothing went: {before} at both.")]
        return Document("What changed between two moments", blocks)
    stayed = f"{format_bytes(gained)} in {plural(len(came), 'allocation')} came and stayed"
    left = f"{format_bytes(lost)} in {plural(len(went), 'allocation')} went"
    told = f"{stayed if len(came) else 'Nothing came and stayed'}, and"
    exact = f"{Size(gained - lost, is_change=True, exact=True)} bytes"
    blocks += [
        Paragraph(
            f"{told} {left if len(went) else 'nothing went'}. The curve goes from {before} to"
            f" {after}: {exact}, and the rows add up to that, to the byte."
        ),
        held,
        *([Paragraph(note)] if note else []),
    ]
    return Document("What changed between two moments", blocks)


def changes_table(by: str, found: Sequence[GroupChange], most: int | None) -> Table:
    """Return what came and went by what it has in common, the largest change first."""
    shown, left = found[:most], found[len(found[:most]) :]
    cut: Cut = "place" if by in ("line", "file") else "site" if by == "site" else "end"
    change = format_signed_bytes(sum(each.change for each in left))
    rest = f"{format_count(len(left))} more changed by {change} in all; {_ALL}."
    total = [sum(getattr(each, name) for each in found) for name in _CHANGES]
    return Table(
        [Column("change", bar=True), *columns("came", "went", "count", text=by, cut=cut)],
        [
            (*_change_cells([getattr(each, name) for name in _CHANGES]), Code(each.name))
            for each in shown
        ],
        total=(*_change_cells(total), "in all"),
        rest=rest if left else "",
    )


_CHANGES = ("change", "came", "went", "came_count", "went_count")


def _change_cells(figures: Sequence[int]) -> tuple[Words, ...]:
    change, came, went, came_count, went_count = figures
    count = f"+{format_count(came_count)} -{format_count(went_count)}"
    return Size(change, is_change=True), Size(came), Size(went), count


def group_table(
    by: str, found: Sequence[Group], total: int, most: int | None, title: Words = ""
) -> Table:
    """Return live allocations by what they have in common; ``total``: the bytes of all."""
    shown, rest = found[:most], _rest([group.bytes for group in found], most)
    split = ["backward"] if any(group.backward for group in found) else []
    cut: Cut = "place" if by in ("line", "file") else "end"  # the end of a path says the most
    return Table(
        columns("bytes", *split, "share", "count", "requested", text=by, cut=cut),
        [
            (
                Size(group.bytes),
                *(Size(group.backward) for _ in split),
                format_share(group.bytes, total),
                format_count(group.count),
                Size(group.requested),
                Code(group.name),
            )
            for group in shown
        ],
        title,
        rest=rest,
        shares=[group.bytes / max(total, 1) for group in shown],
    )


def line_table(found: Sequence[LineUse], most: int | None) -> Table:
    """Return the line tracer's table; its column of code only if any line has some."""
    shown, rest = found[:most], _rest([line.bytes for line in found], most)
    code = [Column("code", True, "end")] if any(line.source for line in shown) else []
    names = ("bytes", "cumulative", "median", "count", "allocated")
    return Table(
        [*columns(*names, text="line", cut="place"), *code],
        [
            (
                Size(line.bytes),
                Size(line.cumulative),
                " and ".join(map(format_bytes, sizes_of(line))),
                format_count(line.count),
                Size(line.total),
                Code(line.location),
                *(Code(line.source) for _ in code),
            )
            for line in shown
        ],
        rest=rest,
    )


def allocation_table(
    live: LiveRows,
    rows: Allocations,
    sites: Sequence[str],
    events: int,
    most: int | None,
    *,
    signed: bool = False,
) -> Table:
    """Return the allocations, largest first.

    Args:
        live: the allocations.
        rows: the device's columns.
        sites: the call site of each row of ``live`` that is shown.
        events: the device's number of events.
        most: the most rows to show; None for all.
        signed: whether they are a change, in which the bytes of what went are negative.
    """
    shown = zip(live.rows[:most].tolist(), live.bytes[:most].tolist(), sites, strict=True)
    freed = rows.free_requested_event
    return Table(
        columns("bytes", "requested", "address", "made", "freed", text="call site"),
        [
            (
                Size(held, is_change=signed),
                Size(int(rows.size[i])),
                f"{int(rows.addr[i]):x}_{int(rows.version[i])}",
                event_name(int(rows.alloc_event[i])),
                "-" if freed[i] >= events else format_count(int(freed[i])),
                Code(site),
            )
            for i, held, site in shown
        ],
        rest=_rest(live.bytes.tolist(), most),
    )


_SMALLEST, _DEEPEST = 0.005, 16
"""Nodes of a tree with a smaller share of it are left out; deeper ones are indented no further."""


def tree_listing(
    tree: CallTree, frames: FrameTable, most: int | None, *, signed: bool = False
) -> Listing:
    """Draw a call tree, outermost frames first.

    Args:
        tree: the folded tree, without library-internal frames.
        frames: the file's frames, as they are named in trees.
        most: the most lines to draw, None for all; nodes left out are counted.
        signed: whether it is a change, in which nodes that lost memory are negative.
    """
    held, parents = tree.bytes.tolist(), tree.parent.tolist()
    keys: list[int | str] = [
        tree.label.get(node, frame) for node, frame in enumerate(tree.frame.tolist())
    ]
    children: list[list[int]] = [[] for _ in held]
    for node in range(1, len(tree)):
        children[parents[node]].append(node)

    def ranked(node: int) -> list[int]:
        """Return the children, smallest first: the next to be drawn is taken from the end."""
        return sorted(children[node], key=lambda child: (abs(held[child]), str(keys[child])))

    total = max(1, *map(abs, held))  # of all but a change, the root's
    lines: list[str] = []
    shares: list[float] = []
    left_out = 0
    waiting = [(node, 0) for node in ranked(0)]
    while waiting:
        node, depth = waiting.pop()
        if abs(held[node]) < _SMALLEST * total or len(lines) == most:
            left_out += 1
            continue
        share, key = abs(held[node]) / total, keys[node]
        if isinstance(key, str):
            name = f"({key})"
        else:
            place = location(frames.filenames[key], frames.line(key), 60)
            name = f"{cut_site(frames.names[key], 80)}  {place}".rstrip()
        indent = "  " * min(depth, _DEEPEST)
        figures = f"{Size(held[node], signed)!s:>10}" + ("" if signed else f" {share:6.1%}")
        lines.append(f"{figures}  {indent}{name}")
        shares.append(share)
        waiting += [(child, depth + 1) for child in ranked(node)]
    if left_out:
        nodes = (
            "nodes and what is below them are" if left_out > 1 else "node and what is below it is"
        )
        lines.append(f"{format_count(left_out)} smaller {nodes} left out")
        shares.append(0.0)
    return Listing(lines, shares)


def _rest(sizes: Sequence[int], most: int | None) -> str:
    """Say how many rows are left out, with how many bytes."""
    left = [] if most is None else sizes[most:]
    more = f"{format_count(len(left))} more with {format_bytes(sum(left))}"
    return f"{more}; {_ALL}." if left else ""


# Stages and steps.


def stages_document(
    device: str,
    named: Sequence[tuple[str, StageUse]],
    tops: Sequence[Sequence[Group]],
    steps: Steps | None,
    most: int | None,
) -> Document:
    """Say how much was allocated in stages and in the program's steps.

    Args:
        device: its name.
        named: the stages, each with the name to show.
        tops: the largest stacks at the peak of each, if any.
        steps: the steps of the program's loop; None for none.
        most: the most rows of steps; None for all.
    """
    nothing = f"{device} has no stages: nothing was annotated in this recording."
    blocks: list[Block] = [stage_table(named) if named else Paragraph(nothing)]
    for (name, stage), top in zip(named, tops, strict=True):
        if top:
            title = (Code(name), f", at its peak (event {event_name(stage.peak_event or 0)})")
            blocks.append(group_table("stack", top, stage.peak_bytes or 0, None, title))
    if steps is not None:
        blocks += step_blocks(steps, most)
    return Document(f"Stages of {device}", blocks)


def stage_table(
    named: Sequence[tuple[str, StageUse]], title: str = "", rest: str = "", *, counts: bool = False
) -> Table:
    """Return stages under the names given, indented by depth; ``counts``: of their allocations."""
    counted = ("allocations",) if counts else ()
    return Table(
        columns("events", "start", "peak", "end", "change", *counted, text="stage", cut="end"),
        [
            (
                event_range(stage.start_event, stage.end_event),
                *map(Size, (stage.start_bytes, stage.peak_bytes, stage.end_bytes)),
                Size(stage.change, is_change=True),
                *(
                    "-" if stage.allocations is None else format_count(stage.allocations)
                    for _ in counted
                ),
                Code(name),
            )
            for name, stage in named
        ],
        title,
        rest=rest,
        depths=[stage.depth for _, stage in named],
    )


def step_blocks(steps: Steps, most: int | None) -> Iterator[Block]:
    """Yield the steps of the program, and how they were identified."""
    rows, left = step_rows(steps, most)
    heads = columns("step", "events", "start", "peak", "kept", text="note", cut="end")
    title = "Steps of the program, in allocated bytes"
    yield Table(heads, rows, title, rest=f"{format_count(left)} more." if left else "")
    yield Paragraph(identified_text(steps))


_KINDS: dict[Kind, str] = {
    "warm-up": "warm-up",
    "steady": "alike",
    "other": "differs",
    "unknown": "",
}


def step_rows(steps: Steps, most: int | None = None) -> tuple[list[tuple[str, ...]], int]:
    """Return the rows of the table of steps, and how many steps are left out.

    "kept" is the bytes that a step allocated and that outlive it. Consecutive steady steps share
    one row, which shows their lowest to highest value.

    Args:
        steps: of one device.
        most: the most rows, plus the row of the peak; None for all.
    """
    runs = runs_of(steps.steps)
    shown = [
        run
        for i, run in enumerate(runs)
        if most is None or i < most or any(step.number == steps.peak for step in run)
    ]
    rows: list[tuple[str, ...]] = [
        (
            step_range(run),
            event_range(run[0].start_event, run[-1].end_event),
            _spread([step.start_bytes for step in run]),
            _spread([step.peak_bytes for step in run]),
            _spread([step.kept_bytes for step in run]),
            _note(run, steps.peak),
        )
        for run in shown
    ]
    return rows, len(steps) - sum(map(len, shown))


def _note(run: Sequence[StepUse], peak: int | None) -> str:
    notes = [run[0].name] if len(run) == 1 else []
    if peak is not None and any(step.number == peak for step in run):
        notes.append("peak" if len(run) == 1 else f"peak in {format_count(peak)}")
    if run[0].kind != "steady" or len(run) > 1:
        notes.append(_KINDS[run[0].kind])
    if not run[0].start_event and run[0].start_bytes:
        notes.append("begins with the recording")  # and may have begun before it
    return ", ".join(filter(None, notes))


def _spread(values: Sequence[int]) -> str:
    least, most = format_bytes(min(values)), format_bytes(max(values))
    if least == most:
        return least
    number, _, unit = least.partition(" ")
    return f"{number if most.endswith(f' {unit}') else least} to {most}"


# Memory by group over time.


def profile_document(device: str, file: str, profile: Profile, by: str) -> Document:
    """Say what each group holds at the device's peak, its own peak, and its rule."""
    whole, at = profile.peak_bytes, event_name(profile.peak_event)
    names = ("at the peak", "share", "own peak", "at event", "allocations")
    held = Table(
        columns(*names, text=by, cut="end"),
        [
            (
                Size(group.at_peak),
                format_share(group.at_peak, whole),
                Size(group.peak_bytes),
                event_name(group.peak_event),
                format_count(group.count),
                (Code(group.name), *(("  ", Tag(group.rule)) if group.rule else ())),
            )
            for group in profile.groups
        ],
        f"{format_bytes(whole)} {profile.curve} at the peak (event {at})",
    )
    return Document(f"Memory of {device} by {by}", [Paragraph((f"{device} of ", Code(file))), held])


# The peak without some allocations.


_NAMED = 3
"""The most removed groups that are named."""


def what_if_document(
    device: str, was: str, every: Sequence[WhatIf], by: str, most: int | None
) -> Document:
    """Say what the peak would be without each group, the lowest first; ``was``: as it is."""
    rest = ""
    if left := every[len(every[:most]) :]:
        falls = format_bytes(max(each.falls for each in left))
        rest = f"{format_count(len(left))} more, each lower by {falls} at most; {_ALL}."
    found = Table(
        columns("peak without", "lower by", "held there", "then at event", text=by),
        [
            (
                *map(Size, (each.peak_bytes, each.falls, each.held)),
                event_name(each.peak_event),
                Code(each.name),
            )
            for each in every[:most]
        ],
        was,
        rest=rest,
    )
    return Document(f"The peak of {device} without each {by}", [found])


def without_document(
    device: str, was: str, left: PeakWithout, by: str, most: int | None
) -> Document:
    """Say what the peak would be without some groups together, and what holds it then."""
    found = left.what_if
    more = len(left.taken) - _NAMED
    names = ", ".join(left.taken[:_NAMED]) + (f" and {format_count(more)} more" if more > 0 else "")
    peak, falls, held = map(format_bytes, (found.peak_bytes, found.falls, found.held))
    blocks: list[Block] = [
        Paragraph(was),
        Paragraph(f"without {plural(found.count, 'allocation')} of {names}"),
        Paragraph(
            f"{peak} at the peak, {_at(found.peak_event)}: lower by {falls} (they held {held} at"
            " the peak as it was)"
        ),
    ]
    if left.held:
        blocks.append(group_table(by, left.held, found.peak_bytes, most, "Held then"))
    return Document(f"The peak of {device} without some allocations", blocks)


def peak_as_it_was(device: str, curve: str, peak: int, event: int) -> str:
    """Say where the peak is before any allocation is removed."""
    return f"{device}: {format_bytes(peak)} {curve} at the peak, {_at(event)}"


def _at(event: int) -> str:
    return "at the start" if event < 0 else f"event {event_name(event)}"


# The rows that a query returns.


def query_document(answer: QueryAnswer, most: int | None) -> Document:
    """Return the rows of an answer as a table.

    Args:
        answer: what the query returned; no more of its rows are consumed than it takes to know
            whether there are more than ``most``.
        most: the most rows to show; None for all.
    """
    found = list(itertools.islice(answer.rows, None if most is None else most + 1))
    shown = found[:most]
    rest = ""
    if not shown:
        rest = "(no rows)"
    elif len(found) > len(shown):
        rest = f"There are more than these {format_count(len(shown))} rows; {_ALL}."
    heads = [
        Column(name, not _is_number([row[i] for row in shown]), "end")
        for i, name in enumerate(answer.columns)
    ]
    rows = [[_text(cell) for cell in row] for row in shown]
    return Document("Rows", [Table(heads, rows, rest=rest)])


def _is_number(cells: Sequence[Cell]) -> bool:
    """Say whether some cells are numbers, and all others empty."""
    known = [cell for cell in cells if cell is not None]
    return bool(known) and all(isinstance(cell, (int, float)) for cell in known)


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bytes):
        return f"x'{cell.hex()}'"
    # A call stack has a line for each frame; here they share one line, outermost last.
    return " < ".join(cell.split("\n")) if isinstance(cell, str) else str(cell)
