"""Answers from the recording itself: ``at`` (what is live at a moment), ``query`` and ``diff``."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from snapreport.api.comparison import diff
from snapreport.bundle.query import statements
from snapreport.commands.mcp_server.opened import KeptRecording
from snapreport.commands.mcp_server.reply import (
    Field,
    Part,
    Reply,
    held_table,
    listed,
    size,
    table,
    table_of,
)
from snapreport.diagnosis.compare.diff_types import Change, DiffSide, Place
from snapreport.ground.errors import MomentError, QueryError
from snapreport.ground.units import format_share
from snapreport.model.asked import (
    MomentWanted,
    parse_address,
)
from snapreport.model.findings import AMOUNTS, LIBRARY, MACHINERY, OUTSIDE
from snapreport.model.snapshot import FrameTable
from snapreport.reporters.json_report import frames_of, id_or_none
from snapreport.reporters.plain_text import location, named_place

if TYPE_CHECKING:
    from snapreport.api.device import Asked, Changed, Device, Moment


_FRAMES = 6


def moment_reply(recording: KeptRecording, arguments: Mapping[str, Any]) -> Reply:
    """Return the amounts at a moment, the event that led to it, and what holds the memory.

    Raises:
        SnapreportError: there is no such device or moment.
    """
    device = recording.device(arguments.get("device"))
    about = {"file": recording.file.shown, "device": device.name}
    if (stack := arguments.get("stack")) is not None:
        return Reply(about, {"stack": stack}, (_frames(recording, stack),))
    by = arguments.get("by", "line")
    if lived := {name: arguments[name] for name in _LIVED if arguments.get(name) is not None}:
        return Reply(about, *_lived(device, lived, by, arguments))
    moment = device.moment(moment_of(arguments))
    amounts, old = moment.amounts, moment.parts()
    head = {
        "event": moment.event,
        "curve": moment.curve,
        "held": size(moment.bytes),
        "time_us": moment.time_us,
        "event_was": _entry(moment),
        "amounts": {name: size(getattr(amounts, name)) for name in AMOUNTS},
        "live_allocations": amounts.live,
        "from_before_the_recording": size(old.baseline_bytes, allocations=old.baseline_count),
    }
    title = f"Live after event {moment.event}, in {moment.curve} bytes, by {by}"
    return Reply(about, head, (_view(moment, title, by, arguments),))


_LIVED = ("made", "freed", "alive", "changed")


def _lived(
    device: Device, lived: dict[str, Any], by: str, arguments: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[Part, ...]]:
    """Return the allocations that lived when it was asked for, or what changed in between.

    Raises:
        MomentError: they do not go together, or there is no such moment.
    """
    for name, markers in lived.items():
        known = (1, 2) if name == "alive" else (2,)
        if len(markers) not in known or {type(each) for each in markers} - {int, str}:
            takes = "two moments" if known == (2,) else "one moment or two"
            raise MomentError(f"{name} takes {takes}: events, times, start, peak or end.")
    span, curve = lived.pop("changed", None), arguments.get("curve", "allocated")
    if (span and lived) or moment_of(arguments).names:
        raise MomentError("Name a moment, or made, freed and alive, or changed; these do not mix.")
    if span is None:
        if len(lived.get("alive", ())) == 1:
            (lived["alive"],) = lived["alive"]
        asked = device.ask(**lived, curve=curve)
        said = f"{asked.question}, in {curve} bytes"
        held = size(asked.bytes, allocations=len(asked.allocations.rows))
        title = f"{said[:1].upper()}{said[1:]}, by {by}"
        return {"answer": said, "held": held}, (_view(asked, title, by, arguments),)
    found = device.changed(*span, curve=curve)
    head = {
        "answer": f"what changed after event {found.first}, by event {found.last}",
        "curve": curve,
        "change": size(found.bytes),
        "came_and_stayed": size(found.came.bytes, allocations=len(found.came.allocations.rows)),
        "went": size(found.went.bytes, allocations=len(found.went.allocations.rows)),
    }
    title = f"Changes in {curve} bytes, by {by}"
    if by == "tree":
        return head, (_tree(found, title),)
    if by == "allocation":
        return head, (_allocations(found, title),)
    return head, (table_of(title, found.by(by), ((by, "text", "name"), *_CAME)),)


def moment_of(arguments: Mapping[str, Any]) -> MomentWanted:
    """Return the moment that the arguments name; the curve's peak if they name none.

    Raises:
        MomentError: they name two moments, or an invalid address.
    """
    names = ("event", "time_us", "stage", "between", "alloc", "free", "curve")
    given = {name: arguments[name] for name in names if arguments.get(name) is not None}
    for name in {"alloc", "free"} & given.keys():
        given[name] = parse_address(given[name])
    return MomentWanted(**given)


def _entry(moment: Moment) -> dict[str, Any] | None:
    entry = moment.entry()
    if entry is None:
        return None
    return {
        "action": entry.action,
        "size": size(entry.size),
        "stack": id_or_none(entry.stack),
        "allocation": id_or_none(entry.allocation),
        "frames": _first_frames(moment, entry.stack),
    }


def _first_frames(moment: Moment, stack: int) -> list[str]:
    """Return the first Python frames, innermost first; if there are none, of C++ what tells."""
    stacks, kinds = moment.device.file.stacks, moment.device.frame_kinds
    path = list(stacks.path(stack))
    python = [each for each in path if kinds[each] in (OUTSIDE, LIBRARY)]
    telling = [each for each in path if kinds[each] != MACHINERY]
    frames = moment.device.tree_frames
    return [_frame_text(frames, each) for each in (python or telling or path)[:_FRAMES]]


def _view(moment: Asked, title: str, by: str, arguments: Mapping[str, Any]) -> Part:
    if by == "line":
        return _lines(moment, title, arguments)
    if by == "tree":
        return _tree(moment, title)
    if by == "allocation":
        return _allocations(moment, title)
    more: tuple[Field, ...] = ()
    if by == "stack":
        more = (("stack id", "count", lambda each: id_or_none(each.stack)),)
    found = moment.by(by)
    if any(group.backward for group in found):
        more = (("of it in the backward pass", "bytes", "backward"), *more)
    return held_table(title, (by, "text", "name"), found, moment.bytes, *more)


def _lines(moment: Asked, title: str, arguments: Mapping[str, Any]) -> Part:
    found = moment.lines(arguments.get("include", ()), arguments.get("exclude", ()))
    fields: tuple[Field, ...] = (
        ("line", "text", "location"),
        ("function", "text", "function"),
        ("held", "bytes", "bytes"),
        ("share", "text", lambda each: format_share(each.bytes, moment.bytes)),
        ("allocations", "count", "count"),
        ("allocated over the recording", "bytes", "total"),
        ("code", "text", "source"),
    )
    has_source = any(each.source for each in found)
    return table_of(title, found, fields if has_source else fields[:-1])


def _tree(moment: Asked | Changed, title: str) -> Part:
    tree, frames = moment.tree(folded=True), moment.device.tree_frames

    def name(node: int) -> str:
        frame = int(tree.frame[node])
        return tree.label[node] if frame < 0 else _frame_text(frames, frame)

    fields: tuple[Field, ...] = (
        ("node", "count", lambda node: node),
        ("parent", "count", lambda node: id_or_none(int(tree.parent[node]))),
        ("frame", "text", name),
        ("held", "bytes", lambda node: int(tree.bytes[node])),
        ("held by its own", "bytes", lambda node: int(tree.own_bytes[node])),
        ("allocations", "count", lambda node: int(tree.count[node])),
    )
    return table_of(title, range(len(tree)), fields)


def _allocations(moment: Asked | Changed, title: str) -> Part:
    live, rows = moment.allocations, moment.device.allocations
    columns = (
        ("allocation id", "count"), ("held", "bytes"), ("call site", "text"), ("role", "text"),
        ("address", "text"), ("made at event", "event"), ("freed at event", "event"),
        ("stack id", "count"),
    )  # fmt: skip
    events = moment.device.events

    def take(first: int, last: int) -> list[tuple[Any, ...]]:
        chosen = live.rows[first:last]
        return [
            (
                row, held, site, role, f"{address:x}_{version}", made,
                freed if freed < events else None, id_or_none(stack),
            )
            for row, held, site, role, address, version, made, freed, stack in zip(
                chosen.tolist(),
                live.bytes[first:last].tolist(),
                moment.device.site_names(chosen),
                rows.role[chosen].tolist(),
                rows.addr[chosen].tolist(),
                rows.version[chosen].tolist(),
                rows.alloc_event[chosen].tolist(),
                rows.free_requested_event[chosen].tolist(),
                rows.stack[chosen].tolist(),
                strict=True,
            )
        ]  # fmt: skip

    return Part(title, len(live.rows), take, columns)


def _frames(recording: KeptRecording, stack: int) -> Part:
    stacks = recording.snapshot.history.stacks
    if not 0 <= stack < len(stacks):
        raise MomentError(f"There is no call stack {stack}; they go from 0 to {len(stacks) - 1}.")
    fields: tuple[Field, ...] = (
        ("frame", "text", lambda each: named_place(each["name"], each["file"], each["line"])),
        ("code", "text", lambda each: each["source"]),
    )
    return table_of("Frames, innermost first", frames_of(stacks, stack), fields)


def _frame_text(frames: FrameTable, frame: int) -> str:
    return named_place(frames.names[frame], frames.filenames[frame], frames.line(frame))


# query

MOST_ROWS = 10_000
"""The most rows of an answer; a question that needs more should aggregate."""
_MOST_LETTERS = 2**24
_LONGEST_CELL = 2000


def query_reply(recording: KeptRecording, arguments: Mapping[str, Any]) -> Reply:
    """Run one statement and return its rows.

    Raises:
        QueryError: it is not one statement, would write, or takes too long.
    """
    if len(list(statements(arguments["sql"]))) > 1:
        raise QueryError("That is more than one statement; send them one at a time.")
    answer = next(recording.database.run(arguments["sql"]), None)
    if answer is None:
        raise QueryError("That has no statement; send one that reads, such as a SELECT.")
    rows: list[tuple[Any, ...]] = []
    letters = 0
    for row in islice(answer.rows, MOST_ROWS):
        cells = tuple(_cell(value) for value in row)
        letters += sum(len(cell) for cell in cells if isinstance(cell, str))
        if letters > _MOST_LETTERS:
            break
        rows.append(cells)
    more = len(rows) >= MOST_ROWS or letters > _MOST_LETTERS
    head = {
        "answer": f"{'at least ' if more else ''}{len(rows):,} row{'s' if len(rows) != 1 else ''}"
    }
    columns = tuple((name, "any") for name in answer.columns)
    return Reply(
        {"file": recording.file.shown},
        head,
        (table("rows", columns, rows),),
    )


def _cell(value: Any) -> Any:
    if isinstance(value, bytes):
        value = f"x'{value[: _LONGEST_CELL // 2].hex()}'"
    if isinstance(value, str) and len(value) > _LONGEST_CELL:
        return f"{value[:_LONGEST_CELL]}…"
    return value


# diff


def diff_reply(base: KeptRecording, new: KeptRecording, arguments: Mapping[str, Any]) -> Reply:
    """Return what changed between two recordings, each at its own moment.

    Raises:
        SnapreportError: they have no device or moment that can be compared.
    """
    found = diff(base.snapshot, new.snapshot, **arguments)
    head = {
        "answer": found.conclusion,
        "change": size(found.change),
        "curve": found.curve,
        "moment": found.moment,
        "base": _side(base, found.base),
        "new": _side(new, found.new),
        "notes": list(found.notes),
    }
    categories = found.categories if found.by == "site" else ()
    settings = [{"setting": name, "base": one, "new": other} for name, one, other in found.settings]
    parts = (
        table_of(f"Changes by {found.by}, largest first", found.groups, _CHANGE),
        table_of("By category", categories, _CHANGE),
        table_of("Figures of both", found.figures, _FIGURE),
        table_of("Stages", found.stages, _STAGE),
        listed("settings_that_differ", settings),
    )
    return Reply({}, head, parts)


def _side(recording: KeptRecording, side: DiffSide) -> dict[str, Any]:
    return {
        "file": recording.file.shown,
        "device": side.device,
        "event": side.event,
        **(size(side.bytes) or {}),
        "allocations": side.count,
    }


def _name(change: Change) -> str:
    base, new = _place(change.base_place), _place(change.new_place)
    if base and new and base != new:
        return f"{change.name}  {new} (in base {base})"
    return f"{change.name}  {new or base}".rstrip()


def _place(place: Place | None) -> str:
    return "" if place is None else location(place.filename, place.line)


_CAME: tuple[Field, ...] = (
    ("change", "bytes", "change"),
    ("came and stayed", "bytes", "came"),
    ("went", "bytes", "went"),
    ("allocations that came", "count", "came_count"),
    ("allocations that went", "count", "went_count"),
)
_CHANGE: tuple[Field, ...] = (
    ("name", "text", _name),
    ("change", "bytes", "change"),
    ("base", "bytes", "base_bytes"),
    ("new", "bytes", "new_bytes"),
    ("base allocations", "count", "base_count"),
    ("new allocations", "count", "new_count"),
    ("match", "text", "match"),
)
_FIGURE: tuple[Field, ...] = (
    ("figure", "text", "name"),
    ("when", "text", "when"),
    ("change", "bytes", "change"),
    ("base", "bytes", "base"),
    ("new", "bytes", "new"),
)
_STAGE: tuple[Field, ...] = (
    ("stage", "text", "name"),
    ("match", "text", "match"),
    ("change of its peak", "bytes", "change"),
    ("base peak", "bytes", "base_peak"),
    ("new peak", "bytes", "new_peak"),
)
