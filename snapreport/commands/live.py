"""``snapreport live``: the allocations live at a moment, one by one, grouped or as a tree."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from snapreport.commands.answers import (
    by_option,
    groups_json,
    load_moment,
    moment_json,
    moment_name,
    new_page,
    print_json,
    print_page,
)
from snapreport.commands.moments import MomentChoice, moment_options
from snapreport.commands.naming import keep_paths_option
from snapreport.commands.options import (
    device_option,
    full_option,
    json_option,
    quiet_option,
    source_argument,
    top_option,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from snapreport.api.device import Moment


@click.command(short_help="Print what was live at a moment: a table, groups or a tree.")
@source_argument("SNAPSHOT|BUNDLE")
@device_option("Of this device")
@moment_options
@by_option
@click.option("--tree", is_flag=True, help="As a call tree, outermost frame first.")
@top_option(20)
@json_option
@full_option
@keep_paths_option
@quiet_option
def live(
    source: Path,
    device: str | None,
    choice: MomentChoice,
    by: str | None,
    tree: bool,
    top: int,
    as_json: bool,
    full: bool,
    quiet: bool,
) -> None:
    """Print what was live at a moment of a SNAPSHOT or BUNDLE, the peak by default.

    One row per allocation, largest first; with --by one row per group, with --tree a call tree.
    Either way the bytes add up to the curve at that moment.

    \b
    Example:
      snapreport live snap.zip --by file
    """
    if by and tree:
        raise click.UsageError("--by and --tree are two views; give one of them.")
    moment = load_moment(source, device, choice, quiet)
    most = None if full else top
    if as_json:
        print_json("live", moment_json(moment, **_answer(moment, by, tree)))
        return
    from snapreport.reporters.terminal import answers_text
    from snapreport.reporters.terminal.tree_text import tree_lines
    from snapreport.reporters.words.summary_rows import lines_note

    page = new_page(full)
    page.say(moment_name(moment).text, "title")
    if tree:
        kinds = moment.device.frame_kinds
        for line in tree_lines(moment.tree(), moment.device.file.stacks, kinds, most or 10**9):
            page.amount(*line)
    elif by:
        answers_text.groups(page, by, moment.by(by), moment.bytes, most)
    else:
        found = moment.live()
        rows = moment.device.allocations
        sites = moment.device.site_names(found.rows[:most])
        answers_text.allocations(page, found, rows, sites, moment.device.events, most)
    if note := lines_note(moment.device.file):
        page.say(note)
    print_page(page)


def _answer(moment: Moment, by: str | None, tree: bool) -> dict[str, Any]:
    device = moment.device
    if by:
        return {"by": by, "groups": groups_json(device, moment.by(by), by)}
    if tree:
        return {"tree": _tree(moment)}
    from snapreport.reporters.json.json_parts import id_or_none, stack_table

    live, rows = moment.live(), device.allocations
    columns: dict[str, NDArray[np.signedinteger[Any]]] = {
        "allocation": live.rows,
        "address": rows.addr[live.rows],
        "version": rows.version[live.rows],
        "bytes": live.bytes,
        "requested": rows.size[live.rows],
        "block": rows.block_size[live.rows],
        "alloc_step": rows.alloc_step[live.rows],
        "free_requested_step": rows.free_requested_step[live.rows],
        "free_step": rows.free_step[live.rows],
        "stream": rows.stream[live.rows],
    }
    stacks, sites = rows.stack[live.rows].tolist(), device.site_names(live.rows)
    return {
        "allocations": [
            {
                **dict(zip(columns, values, strict=True)),
                "call_site": site,
                "stack": id_or_none(stack),
            }
            for *values, site, stack in zip(
                *(column.tolist() for column in columns.values()), sites, stacks, strict=True
            )
        ],
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
            "line": int(frames.lines[f]) if f >= 0 and frames.lines[f] > 0 else None,
            "bytes": int(tree.bytes[i]),
            "own_bytes": int(tree.own_bytes[i]),
            "count": int(tree.count[i]),
        }
        for i, f in enumerate(tree.frame.tolist())
    ]
