"""``at``: what is live at one moment, grouped in one way or another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from snapreport.ground.errors import MomentError
from snapreport.ground.units import format_share
from snapreport.mcp.answering.reply import Column, Part, Reply, size, table
from snapreport.mcp.keeping.kept_recording import KeptRecording
from snapreport.model.findings import LIBRARY, OUTSIDE
from snapreport.model.moment_wanted import MomentWanted, parse_address
from snapreport.model.stacks import FrameTable, short_name
from snapreport.reporters.json.json_parts import frames_of, id_or_none
from snapreport.reporters.words.plain_text import location

if TYPE_CHECKING:
    from snapreport.api.moment import Moment

_FRAMES = 6
_AMOUNTS = ("allocated", "requested", "active", "reserved", "slack", "inactive", "fragmentation")


def moment_reply(recording: KeptRecording, arguments: Mapping[str, Any]) -> Reply:
    """Return the amounts at a moment, what led to it, and who holds the memory.

    Raises:
        SnapreportError: there is no such device or moment.
    """
    device = recording.device(arguments.get("device"))
    about = {"file": recording.file.shown, "device": device.name}
    if (stack := arguments.get("stack")) is not None:
        return Reply(about, {"stack": stack}, (_frames(recording, stack),))
    moment = device.moment(moment_of(arguments))
    by = arguments.get("by", "line")
    amounts = moment.amounts
    head = {
        "event": moment.event,
        "curve": moment.curve,
        "held": size(moment.bytes),
        "time_us": moment.time_us,
        "event_was": _entry(moment),
        "amounts": {
            name: size(getattr(amounts, name))
            for name in _AMOUNTS
            if getattr(amounts, name) is not None
        },
        "live_allocations": amounts.live,
        "from_before_the_recording": _before(moment),
    }
    return Reply(about, head, (_view(moment, by, arguments),))


def moment_of(arguments: Mapping[str, Any]) -> MomentWanted:
    """Return the moment that arguments name; the curve's peak where they name none.

    Raises:
        MomentError: they name two, or something is no address.
    """
    between = arguments.get("between")
    return MomentWanted(
        event=arguments.get("event"),
        time_us=arguments.get("time_us"),
        stage=arguments.get("stage"),
        between=None if between is None else (between[0], between[1]),
        alloc=_address(arguments, "alloc"),
        free=_address(arguments, "free"),
        curve=arguments.get("curve", "allocated"),
    )


def _address(arguments: Mapping[str, Any], name: str) -> Any:
    text = arguments.get(name)
    return None if text is None else parse_address(text)


def _entry(moment: Moment) -> dict[str, Any] | None:
    entry = moment.entry()
    if entry is None:
        return None
    return {
        "action": entry.action,
        "size": size(entry.size),
        "stack": id_or_none(entry.stack),
        "allocation": id_or_none(entry.allocation),
        "frames": _telling_frames(moment, entry.stack),
    }


def _telling_frames(moment: Moment, stack: int) -> list[str]:
    """Return the first frames of Python code, innermost first; of C++ where there are no others."""
    stacks, kinds = moment.device.file.stacks, moment.device.frame_kinds
    path = list(stacks.path(stack))
    python = [each for each in path if kinds[each] in (OUTSIDE, LIBRARY)]
    return [site_text(stacks.frames, each) for each in (python or path)[:_FRAMES]]


def _before(moment: Moment) -> dict[str, Any] | None:
    parts = moment.parts()
    return size(parts.baseline_bytes, allocations=parts.baseline_count)


def _view(moment: Moment, by: str, arguments: Mapping[str, Any]) -> Part:
    title = f"Live after event {moment.event}, in {moment.curve} bytes, by {by}"
    if by == "line":
        return _lines(moment, title, arguments)
    if by == "tree":
        return _tree(moment, title)
    if by == "allocation":
        return _allocations(moment, title)
    groups = moment.by(by)
    stacks = by == "stack"
    columns = (
        (by, "text"), ("held", "bytes"), ("share", "text"), ("allocations", "count"),
        *((("stack id", "count"),) if stacks else ()),
    )  # fmt: skip
    rows = [
        (
            each.name,
            each.bytes,
            format_share(each.bytes, moment.bytes),
            each.count,
            *((id_or_none(each.stack),) if stacks else ()),
        )
        for each in groups
    ]
    return table(title, columns, rows)


def _lines(moment: Moment, title: str, arguments: Mapping[str, Any]) -> Part:
    found = moment.lines(arguments.get("include", ()), arguments.get("exclude", ()))
    columns: tuple[Column, ...] = (
        ("line", "text"), ("function", "text"), ("held", "bytes"), ("share", "text"),
        ("allocations", "count"), ("allocated over the recording", "bytes"), ("code", "text"),
    )  # fmt: skip
    rows: list[tuple[Any, ...]] = [
        (
            each.location,
            each.function,
            each.bytes,
            format_share(each.bytes, moment.bytes),
            each.count,
            each.total,
            each.source,
        )
        for each in found
    ]
    if not any(each.source for each in found):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    return table(title, columns, rows)


def _tree(moment: Moment, title: str) -> Part:
    tree, frames = moment.tree(folded=True), moment.device.file.stacks.frames
    columns = (
        ("node", "count"), ("parent", "count"), ("frame", "text"), ("held", "bytes"),
        ("held by its own", "bytes"), ("allocations", "count"),
    )  # fmt: skip

    def take(first: int, last: int) -> list[tuple[Any, ...]]:
        rows = []
        for node in range(first, last):
            frame = int(tree.frame[node])
            name = tree.label[node] if frame < 0 else site_text(frames, frame)
            parent = int(tree.parent[node])
            rows.append(
                (
                    node,
                    None if parent < 0 else parent,
                    name,
                    int(tree.bytes[node]),
                    int(tree.own_bytes[node]),
                    int(tree.count[node]),
                )
            )
        return rows

    return Part(title, len(tree), take, columns)


def _allocations(moment: Moment, title: str) -> Part:
    live, rows = moment.live(), moment.device.allocations
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
    rows = [(_frame_text(each), each["source"]) for each in frames_of(stacks, stack)]
    return table("Frames, innermost first", (("frame", "text"), ("code", "text")), rows)


def site_text(frames: FrameTable, frame: int) -> str:
    """Return a frame as answers have it."""
    line = int(frames.lines[frame])
    place = location(frames.filenames[frame], line if line > 0 else None)
    return f"{short_name(frames.names[frame])}  {place}".rstrip()


def _frame_text(frame: Mapping[str, Any]) -> str:
    return f"{frame['name']}  {location(frame['file'], frame['line'])}".rstrip()
