"""``snapreport live``: what is live at a moment, or lived between two, by stack, line or role."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from snapreport.commands.options import (
    device_option,
    lifetime_options,
    moment_options,
    source_argument,
)
from snapreport.commands.output import (
    Answer,
    answer_options,
    device_json,
    groups_json,
    print_json,
)
from snapreport.ground.glossary import FIGURES, GLOSSARY
from snapreport.ground.units import format_bytes, format_signed_bytes
from snapreport.model.asked import (
    GROUPINGS,
    KEYED,
    MomentWanted,
    event_in_words,
)

if TYPE_CHECKING:
    from snapreport.api.device import Asked, Changed, Moment
    from snapreport.reporters.document import Block

_SHOW_LINES = ("stack", "site", "tree", "allocation", "line")
"""The views with numbers of lines."""
_VIEWS = ("stack", "tree", "allocation", *(each for each in GROUPINGS if each != "stack"))


class _By(click.Choice[str]):
    """One of the views, or a key of the metadata."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Take a key as it is; whether the file has it shows in the answer."""
        if isinstance(value, str) and value.startswith(KEYED) and value != KEYED:
            return value
        return super().convert(value, param, ctx)


@click.command(epilog="\n\n".join(f"{term}: {GLOSSARY[term]}" for term in FIGURES))
@source_argument("SNAPSHOT|BUNDLE")
@device_option("Show this device")
@moment_options
@lifetime_options
@click.option(
    "--by",
    type=_By(_VIEWS),
    help="Print one row for each of these. tree is a call tree, outermost frame first; site is the "
    "call site; forward is the line of the forward pass behind a gradient; layer is that line, or "
    "else the call site; metadata:KEY is one key of the metadata.  [default: stack; of a change, "
    "site]",
)
@click.option(
    "--include",
    multiple=True,
    metavar="PATTERN",
    help="With --by line, count each allocation at its innermost frame in a matching file: part of "
    "its name, a glob or /regex/.",
)
@click.option("--exclude", multiple=True, metavar="PATTERN", help="Skip frames in these files.")
@answer_options(20)
def live(
    source: Path,
    device: str | None,
    wanted: MomentWanted,
    lifetimes: dict[str, Any],
    by: str | None,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    answer: Answer,
) -> None:
    """Print what is live in a SNAPSHOT or BUNDLE at a moment, or what lived between two.

    First come the amounts at the moment, by default the peak, the event that led to them, and how
    much is from before the recording; then what holds the memory. The rows add up to the curve at
    that moment, to the byte.

    --made-between and the options after it ask about lifetimes instead: an event counts as the
    state after it, so A itself is not between A and B, and B is.

    --by line prints the bytes, their running sum, the median allocation, the count, all bytes that
    the line allocated in the recording, and the line: the call site's or, with patterns, that of
    the innermost frame in a matching file.

    \b
    Example:
      snapreport live snap.zip
      snapreport live snap.zip --by line
      snapreport live snap.zip --made-between start peak --alive-at end
    """
    if (include or exclude) and by != "line":
        raise click.UsageError("--include and --exclude choose lines; add --by line.")
    if lifetimes:
        if wanted.names:
            raise click.UsageError("name a moment or ask about lifetimes, not both.")
        span = lifetimes.pop("changed", None)
        if span and (include or exclude):
            raise click.UsageError("--include and --exclude do not go with --changed-between.")
        found = answer.device(source, device)
        if span:
            _print_change(found.changed(*span, curve=wanted.curve), by or "site", answer)
        else:
            asked = found.ask(**lifetimes, curve=wanted.curve)
            _print_asked(asked, by or "stack", include, exclude, answer)
        return
    by = by or "stack"
    moment = answer.device(source, device).moment(wanted)
    amounts, parts = moment.amounts, moment.parts()
    rows = moment.device.allocations
    ever = int(rows.weights(wanted.curve).sum())
    if answer.as_json:
        about = {
            **device_json(moment.device),
            "event": moment.event,
            "time_us": moment.time_us,
            "curve": moment.curve,
            "bytes": moment.bytes,
            "entry": _entry(moment),
            "amounts": asdict(amounts),
            "parts": asdict(parts),
            "ever_allocated": ever,
            "by": by,
        }
        print_json("live", {**about, **_rows_json(moment, by, include, exclude)})
        return
    from snapreport.reporters.answers import live_document
    from snapreport.reporters.words import lines_note, when_text

    when = when_text(moment.device.name, moment.event, moment.time_us)
    said = f"{when}: {format_bytes(moment.bytes)} {moment.curve}"
    held = _held(moment, by, include, exclude, answer.top)
    note = lines_note(moment.device.file) if by in _SHOW_LINES else ""
    answer.print(live_document(said, amounts, parts, ever, moment.entry(), held, note))


def _print_asked(
    asked: Asked, by: str, include: tuple[str, ...], exclude: tuple[str, ...], answer: Answer
) -> None:
    """Print the allocations that answer a question about lifetimes."""
    if answer.as_json:
        about = {
            **device_json(asked.device),
            **_lifetimes_json(asked),
            "parts": asdict(asked.parts()),
            "by": by,
        }
        print_json("live", {**about, **_rows_json(asked, by, include, exclude)})
        return
    from snapreport.reporters.answers import asked_document
    from snapreport.reporters.words import lines_note

    said = f"{asked.device.name}, {asked.question}: {format_bytes(asked.bytes)} {asked.curve}"
    held = _held(asked, by, include, exclude, answer.top)
    note = lines_note(asked.device.file) if by in _SHOW_LINES else ""
    answer.print(asked_document(said, asked.parts(), held, note))


def _print_change(found: Changed, by: str, answer: Answer) -> None:
    """Print what came and what went between two moments."""
    device = found.device
    before, after = (
        int(device.curve(found.curve)[event + 1]) for event in (found.first, found.last)
    )
    if answer.as_json:
        about = {
            **device_json(device),
            "changed": [found.first, found.last],
            "curve": found.curve,
            "before": before,
            "after": after,
            "change": found.bytes,
            "came": _lifetimes_json(found.came),
            "went": _lifetimes_json(found.went),
            "by": by,
        }
        print_json("live", {**about, **_rows_json(found, by)})
        return
    from snapreport.reporters.answers import change_document
    from snapreport.reporters.words import lines_note

    span = f"from {event_in_words(found.first)} to {event_in_words(found.last)}"
    said = f"{device.name}, {span}: {format_signed_bytes(found.bytes)} {found.curve}"
    came, went = (each.allocations.bytes for each in (found.came, found.went))
    held = _held(found, by, (), (), answer.top)
    note = lines_note(device.file) if by in _SHOW_LINES else ""
    answer.print(change_document(said, (before, after), came, went, held, note))


def _lifetimes_json(asked: Asked) -> dict[str, Any]:
    count = len(asked.allocations.rows)
    return {**asdict(asked.question), "bytes": asked.bytes, "count": count}


def _held(
    asked: Asked | Changed,
    by: str,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    most: int | None,
) -> Block:
    """Return what holds the memory, in the view asked for."""
    from snapreport.api.device import Asked
    from snapreport.reporters import answers

    device, signed = asked.device, not isinstance(asked, Asked)
    if by == "tree":
        tree = asked.tree(folded=True)
        return answers.tree_listing(tree, device.tree_frames, most, signed=signed)
    if by == "allocation":
        found = asked.allocations
        sites = device.site_names(found.rows[:most])
        rows, events = device.allocations, device.events
        return answers.allocation_table(found, rows, sites, events, most, signed=signed)
    if not isinstance(asked, Asked):
        return answers.changes_table(by, asked.by(by), most)
    if by == "line":
        return answers.line_table(asked.lines(include, exclude), most)
    return answers.group_table(by, asked.by(by), asked.bytes, most)


def _rows_json(
    asked: Asked | Changed, by: str, include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()
) -> dict[str, Any]:
    from snapreport.api.device import Asked

    if by == "tree":
        return {"tree": _tree(asked)}
    if by == "allocation":
        return _allocations(asked)
    if not isinstance(asked, Asked):
        return {"changes": [asdict(each) for each in asked.by(by)]}
    if by == "line":
        lines = [asdict(each).items() for each in asked.lines(include, exclude)]
        renamed = {"filename": "file"}
        return {"lines": [{renamed.get(key, key): cell for key, cell in line} for line in lines]}
    return {"groups": groups_json(asked.device, asked.by(by), by)}


def _entry(moment: Moment) -> dict[str, Any] | None:
    """Return the event that led to a moment, with its call stack innermost first."""
    from snapreport.reporters.json_report import frames_of, id_or_none

    entry = moment.entry()
    if entry is None:
        return None
    return {
        **asdict(entry),
        "allocation": id_or_none(entry.allocation),
        "stack": id_or_none(entry.stack),
        "frames": frames_of(moment.device.file.stacks, entry.stack),
    }


def _allocations(asked: Asked | Changed) -> dict[str, Any]:
    from snapreport.reporters.json_report import id_or_none, stack_table

    live, device = asked.allocations, asked.device
    rows = device.allocations
    stacks = rows.stack[live.rows].tolist()
    columns: dict[str, Sequence[object]] = {
        "allocation": live.rows.tolist(),
        "address": rows.addr[live.rows].tolist(),
        "version": rows.version[live.rows].tolist(),
        "bytes": live.bytes.tolist(),
        "requested": rows.size[live.rows].tolist(),
        "block": rows.block_size[live.rows].tolist(),
        "alloc_event": rows.alloc_event[live.rows].tolist(),
        "free_requested_event": rows.free_requested_event[live.rows].tolist(),
        "free_event": rows.free_event[live.rows].tolist(),
        "stream": rows.stream[live.rows].tolist(),
        "call_site": device.site_names(live.rows),
        "forward_line": device.forward_lines(live.rows),
        "compile_context": device.compile_contexts(live.rows),
        "metadata": device.metadata(live.rows),
        "stack": [id_or_none(stack) for stack in stacks],
    }
    each = zip(*columns.values(), strict=True)
    return {
        "allocations": [dict(zip(columns, values, strict=True)) for values in each],
        "stacks": stack_table(device.file.stacks, stacks),
    }


def _tree(asked: Asked | Changed) -> list[dict[str, Any]]:
    """The nodes of the call tree, parents first; a node names its parent by position."""
    tree, frames = asked.tree(), asked.device.file.stacks.frames
    return [
        {
            "parent": None if tree.parent[i] < 0 else int(tree.parent[i]),
            "name": frames.names[f] if f >= 0 else tree.label[i],
            "file": frames.filenames[f] if f >= 0 else "",
            "source": frames.code(f),
            "line": frames.line(f) if f >= 0 else None,
            "bytes": int(tree.bytes[i]),
            "own_bytes": int(tree.own_bytes[i]),
            "count": int(tree.count[i]),
        }
        for i, f in enumerate(tree.frame.tolist())
    ]
