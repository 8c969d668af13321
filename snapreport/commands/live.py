"""``snapreport live``: what is live at a moment, grouped by call stack, line, role and more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from snapreport.commands.options import device_option, moment_options, source_argument
from snapreport.commands.output import (
    Answer,
    answer_options,
    device_json,
    groups_json,
    print_json,
)
from snapreport.ground.glossary import FIGURES, GLOSSARY
from snapreport.ground.units import format_bytes
from snapreport.model.asked import (
    GROUPINGS,
    KEYED,
    MomentWanted,
)

if TYPE_CHECKING:
    from snapreport.api.device import Moment
    from snapreport.reporters.document import Block

_SHOW_LINES = ("stack", "tree", "allocation", "line")
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
@click.option(
    "--by",
    type=_By(_VIEWS),
    default="stack",
    show_default=True,
    help="Print one row for each of these. tree is a call tree, outermost frame first; forward is "
    "the line of the forward pass behind a gradient; layer is that line, or else the call site; "
    "metadata:KEY is one key of the metadata.",
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
    by: str,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    answer: Answer,
) -> None:
    """Print what is live in a SNAPSHOT or BUNDLE at the peak, or at another moment.

    First come the amounts, the event that led to them, and how much is from before the recording;
    then what holds the memory. The rows add up to the curve at that moment, to the byte.

    --by line prints the bytes, their running sum, the median allocation, the count, all bytes that
    the line allocated in the recording, and the line: the call site's or, with patterns, that of
    the innermost frame in a matching file.

    \b
    Example:
      snapreport live snap.zip
      snapreport live snap.zip --by line
    """
    if (include or exclude) and by != "line":
        raise click.UsageError("--include and --exclude choose lines; add --by line.")
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


def _held(
    moment: Moment, by: str, include: tuple[str, ...], exclude: tuple[str, ...], most: int | None
) -> Block:
    """Return what holds the memory, in the view asked for."""
    from snapreport.reporters import answers

    device = moment.device
    if by == "tree":
        return answers.tree_listing(moment.tree(folded=True), device.tree_frames, most)
    if by == "allocation":
        found = moment.live()
        sites = device.site_names(found.rows[:most])
        return answers.allocation_table(found, device.allocations, sites, device.events, most)
    if by == "line":
        return answers.line_table(moment.lines(include, exclude), most)
    return answers.group_table(by, moment.by(by), moment.bytes, most)


def _rows_json(
    moment: Moment, by: str, include: tuple[str, ...], exclude: tuple[str, ...]
) -> dict[str, Any]:
    if by == "tree":
        return {"tree": _tree(moment)}
    if by == "allocation":
        return _allocations(moment)
    if by == "line":
        lines = [asdict(each).items() for each in moment.lines(include, exclude)]
        renamed = {"filename": "file"}
        return {"lines": [{renamed.get(key, key): cell for key, cell in line} for line in lines]}
    return {"groups": groups_json(moment.device, moment.by(by), by)}


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


def _allocations(moment: Moment) -> dict[str, Any]:
    from snapreport.reporters.json_report import id_or_none, stack_table

    live, device = moment.live(), moment.device
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


def _tree(moment: Moment) -> list[dict[str, Any]]:
    """The nodes of the call tree, parents first; a node names its parent by position."""
    tree, frames = moment.tree(), moment.device.file.stacks.frames
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
