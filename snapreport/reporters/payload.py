"""Packs findings into the block of typed columns that the report page unpacks.

The layout, format 4: a u32 length, that many bytes of JSON header, zeros up to a multiple of 8,
then the columns, each at a multiple of 8. Everything is little-endian, gzip-compressed, and base64
in the page. A column holds the lowest bytes of all its values, then the next higher ones, and so
on: higher bytes are alike, so gzip makes them small. Long columns that the first picture does not
need are a second block, which the page unpacks later.
``templates/app/lib/data/payload.ts`` reads it.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import ArrayLike, NDArray

from snapreport.ground.files import gzipped
from snapreport.ground.glossary import ROLE_MEANINGS
from snapreport.ground.native.columns import by_kind, distinct, stable_order, sum_groups, unique
from snapreport.ground.records import dataclass
from snapreport.ground.safe_text import shown
from snapreport.model.answers import NO_FORWARD, NONE
from snapreport.model.findings import MISSING_REASONS, DeviceFindings, Findings
from snapreport.model.history import Allocations, Drawn, History
from snapreport.model.replays import SegmentLives
from snapreport.model.roles import Steps
from snapreport.model.snapshot import (
    NO_ID,
    NO_TIME,
    StackTable,
    pool_name,
    short_name,
    with_ancestors,
)
from snapreport.reporters.words import evidence_text, identified_text, lines_note

FORMAT = 4

_DEFAULT_POOL = pool_name((0, 0))

_ENVELOPES = 6
"""The most private pools with a line of their own."""


class Packed(NamedTuple):
    """Both blocks of the payload, gzip-compressed."""

    first: bytes
    """The header, and the columns that the first picture needs."""
    later: bytes
    """The other columns, without a header."""


@dataclass(frozen=True)
class Compared:
    """The recording that another one is compared with, in the same page."""

    new: Findings
    places: tuple[NDArray[np.int64], NDArray[np.int64]]
    """The number of the place in the code of each frame of BASE, and of NEW (``place_frames``)."""
    events: tuple[int, int]
    """The compared moment of each; -1 is the start."""
    curve: str


def pack(findings: Findings, summary: dict[str, Any], compared: Compared | None = None) -> Packed:
    """Pack what the page draws and reads; equal input gives equal bytes.

    Args:
        findings: of the recording, or of BASE.
        summary: ``findings_as_json`` of it, with the devices of NEW after its own.
        compared: what it is compared with, if anything.
    """
    recordings = [findings] if compared is None else [findings, compared.new]
    colours = {each.colour for each in recordings}
    colour = colours.pop() if len(colours) == 1 else "site"  # a colour has one meaning in a page
    columns, later = Columns(), Columns(later=True)
    strings = Strings()
    drawn = [_drawn_devices(each) for each in recordings]
    subsets: list[_StackSubset] = []
    stacks: dict[str, list[NDArray[np.int64]]] = defaultdict(list)
    for each, devices in zip(recordings, drawn, strict=True):
        used = _used_stacks(devices)
        after = subsets[-1].ends if subsets else _Ends()
        subset = _StackSubset(each.history.stacks, used, each.stack_sites[used], after)
        for name, values in _stack_columns(each, subset, strings).items():
            stacks[name].append(values)
        subsets.append(subset)
    if compared is not None:
        stacks["frame_same"] = [_stand_ins(compared.places, subsets)]
    # Most nodes come after their parents, so the parents' ids grow, too.
    shared = {
        name: columns.add(np.concatenate(parts), delta=name == "node_parent")
        for name, parts in stacks.items()
        if name != "frame_code" or any((part >= 0).any() for part in parts)
    }
    packed = [
        _pack_device(device, each.history, (columns, later), strings, subset, colour)
        for each, devices, subset in zip(recordings, drawn, subsets, strict=True)
        for device in devices
    ]
    if findings.picture is not None:
        for one, device, part in zip(packed, drawn[0], findings.picture.devices, strict=True):
            # What the page needs to know about the allocations that it does not draw: which rows it
            # draws, their versions, which it cannot count, and the sum of the rest.
            one["window"] = part.window
            one["columns"] |= {
                "row": columns.add(part.rows, delta=True),
                "version": columns.add(device.history.allocations.version),
                **{
                    f"rest_{name}": columns.add(values, delta=True)
                    for name, values in vars(part.rest).items()
                },
            }
    histories = [each.history for each in recordings]
    header = {
        "format": FORMAT,
        "summary": shown_data(
            summary | {"devices": [each | {"steps": None} for each in summary.get("devices", ())]}
        ),
        "strings": strings.values,
        "missing_reasons": MISSING_REASONS,
        "colour": colour,
        "role_meanings": list(ROLE_MEANINGS.items()),
        "packages": list(dict.fromkeys(name for each in histories for name in each.names.packages)),
        "lines_note": next(filter(None, map(lines_note, histories)), ""),
        "columns": shared,
        "devices": packed,
    }
    if compared is not None:
        header["compared"] = {"events": compared.events, "curve": compared.curve}
    return Packed(_compressed(columns.with_header(header)), _compressed(later.parts))


def _stack_columns(
    findings: Findings, subset: _StackSubset, strings: Strings
) -> dict[str, NDArray[np.int64]]:
    """Return the tables of frames, nodes and stacks as columns."""
    columns = subset.columns(strings)
    columns["frame_kind"] = findings.frame_kinds[subset.frames].astype(np.int64)
    columns["stack_site"] = subset.renumber_frames(findings.stack_sites[subset.used])
    sites = set(findings.stack_sites[subset.used].tolist())
    called = [short_name(name) for name in findings.history.stacks.frames.names]
    in_trees, as_sites = findings.tree_frames.names, findings.site_frames.names
    for column, names, known in (
        ("tree_name", in_trees, called),
        ("site_name", [name if i in sites else "" for i, name in enumerate(as_sites)], in_trees),
    ):
        ids = [
            strings.id(names[frame]) if names[frame] not in ("", known[frame]) else NO_ID
            for frame in subset.frames.tolist()
        ]
        columns[column] = np.array(ids, np.int64)
    return columns


def _stand_ins(
    places: tuple[NDArray[np.int64], ...], subsets: list[_StackSubset]
) -> NDArray[np.int64]:
    """Return for each frame the one that stands for its place: the first of NEW, else of BASE."""
    place = np.concatenate([of[each.frames] for of, each in zip(places, subsets, strict=True)])
    turned = np.roll(np.arange(len(place)), -len(subsets[0].frames))  # NEW's first
    _, first, number = np.unique(place[turned], return_index=True, return_inverse=True)
    found = np.empty(len(place), np.int64)
    found[turned] = turned[first[number]]
    return found


def _drawn_devices(findings: Findings) -> list[DeviceFindings]:
    """Return the devices with only the allocations that are drawn, and with the drawn times."""
    if findings.picture is None:
        return list(findings.devices)
    return [_drawn(*each) for each in zip(findings.devices, findings.picture.devices, strict=True)]


def _drawn(device: DeviceFindings, drawn: Drawn) -> DeviceFindings:
    rows = drawn.rows
    allocations = device.history.allocations
    kept = {field.name: getattr(allocations, field.name)[rows] for field in fields(Allocations)}
    return replace(
        device,
        history=replace(device.history, allocations=Allocations(**kept)),
        missing=device.missing[rows],
        category=device.category[rows],
        roles=replace(
            device.roles, role=device.roles.role[rows], evidence=device.roles.evidence[rows]
        ),
        labels=tuple((by, (number[rows], names)) for by, (number, names) in device.labels),
        times=device.times if drawn.times is None else drawn.times,
    )


def _used_stacks(devices: list[DeviceFindings]) -> NDArray[np.int64]:
    """Return the ids of the stacks that the page can show, in order."""
    used: list[NDArray[np.int32]] = [np.zeros(0, dtype=np.int32)]
    for device in devices:
        allocations, other = device.history.allocations, device.history.other
        used += [allocations.stack, allocations.free_stack, other.stack]
    ids = unique(np.concatenate(used)).astype(np.int64)
    return ids[ids >= 0]


def _compressed(parts: list[bytes]) -> bytes:
    # gzip, not zstd: the browser unpacks this, and DecompressionStream has no zstd. Level 9 took
    # 3.6 s instead of 0.3 s for a million events and saved 1 to 10%. For a large payload, level 5
    # takes a quarter less time than level 6 and makes the page 3% larger.
    return gzipped(parts, 6 if sum(map(len, parts)) < _MUCH else 5)


_MUCH = 1 << 22
"""Unpacked bytes of a large payload, of about 150,000 allocations."""

_NUMBERS = frozenset([int, float, bool, type(None)])


def shown_data(value: Any) -> Any:
    """Return plain data with its texts made safe to show: strangers wrote them."""
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, dict):
        return {
            # Most values are numbers, and there may be a million.
            _shown_key(key): item if type(item) in _NUMBERS else shown_data(item)
            for key, item in value.items()
        }
    return [shown_data(item) for item in value] if isinstance(value, (list, tuple)) else value


@functools.lru_cache(1024)  # few distinct values, often repeated
def _shown_key(key: str) -> str:
    return shown(key)


# One device.


def _pack_device(
    device: DeviceFindings,
    file: History,
    blocks: tuple[Columns, Columns],
    strings: Strings,
    subset: _StackSubset,
    colour: str,
) -> dict[str, Any]:
    columns, later = blocks
    history = device.history
    pools, texts = [pool_name(pool) for pool in file.pools], file.strings
    allocations, other = history.allocations, history.other
    origin, event_time = _times_by_event(device)
    actions = sorted(set(other.action))
    action_ids = {action: i for i, action in enumerate(actions)}
    segments = device.allocator.segments
    tables = (allocations, segments, other)
    addresses, address = _places((allocations.addr, segments.address, other.addr))
    streams, stream = _places(tuple(table.stream for table in tables))
    role, roles = device.roles.with_evidence()
    packed = _allocation_columns(allocations, blocks, (addresses, address[0]), (streams, stream[0]))
    packed |= _segment_columns(segments, later, address[1], stream[1])
    names = np.array([strings.id(category.name) for category in device.categories], np.int64)
    groups: dict[str, NDArray[Any]] = {
        "category": names[device.category] if len(names) else names,
        "stream": stream[0],
        "pool": allocations.pool,
        "context": strings.renumber(texts, allocations.compile_context),
        "metadata": strings.renumber(texts, allocations.metadata),
        "forward": np.full(len(allocations), NO_ID),
    }
    for name, (number, labels) in device.labels:
        ids = [NO_ID if each in (NO_FORWARD, NONE) else strings.id(each) for each in labels]
        groups[name] = np.array(ids, np.int64)[number]
    stack = subset.renumber(allocations.stack)
    packed |= {
        "stack": columns.add(stack),
        "free_stack": later.add(subset.renumber(allocations.free_stack)),
        "missing": columns.add(device.missing),
        "category": later.add(groups["category"]),
        "role": (columns if colour == "role" else later).add(role),
        "compile_context": later.add(groups["context"]),
        "metadata": later.add(groups["metadata"]),
        "event_time": later.add(_by_stack(np.diff(event_time, prepend=0), allocations, stack)),
        "event_index": columns.add(other.event, delta=True),
        "event_action": columns.add([action_ids[action] for action in other.action]),
        "event_addr": later.add(address[2]),
        "event_size": later.add(other.size),
        "event_stream": later.add(stream[2]),
        "event_stack": columns.add(subset.renumber(other.stack)),
        "reserved_event": columns.add(device.reserved_events, delta=True),
        "reserved_bytes": columns.add(device.reserved_bytes),
    }
    return {
        "id": str(history.device),
        "events": history.events,
        "time_origin_us": origin,
        "actions": shown_data(actions),
        "pools": pools,
        "category_rules": shown_data(
            {category.name: category.rule for category in device.categories}
        ),
        "roles": [(name, evidence_text(evidence)) for name, evidence in roles],
        "labels": {shown(name): later.add(groups[name]) for name, _ in device.labels},
        "one_colour": [name for name, ids in groups.items() if not (ids != ids[:1]).any()],
        "replays": [
            {
                "settings": each.settings,
                "event": later.add(each.events, delta=True),
                "bytes": later.add(each.bytes),
            }
            for each in (device.settings.curves if device.settings else ())
        ],
        "envelopes": [
            {
                "pool": pools[pool],
                "most": most,
                "event": columns.add(events, delta=True),
                "bytes": columns.add(values),
            }
            for pool, most, events, values in _envelopes(device, pools)
        ],
        "large_page": device.allocator.large_page,
        "steps": device.steps and shown_data(_pack_steps(device.steps, later.add)),
        "columns": packed,
    }


def _allocation_columns(
    allocations: Allocations,
    blocks: tuple[Columns, Columns],
    addresses: tuple[NDArray[np.int64], NDArray[np.int64]],
    streams: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> dict[str, Any]:
    """Pack an allocation's sizes, events, addresses, streams and pools."""
    columns, later = blocks
    classes, size_class = _size_classes(allocations)
    back, first = by_last_use(addresses[1])
    return {
        "addr_back": later.add(back),
        "addr_first": later.add(first),
        "addr_values": later.add(addresses[0], delta=True),
        "size_class": columns.add(size_class),
        "class_requested": columns.add(classes[0], delta=True),
        "class_block": columns.add(classes[1]),
        "class_block_max": columns.add(classes[2]),
        "alloc_event": columns.add(allocations.alloc_event, delta=True),
        "free_requested_after": columns.add(
            allocations.free_requested_event - allocations.alloc_event
        ),
        "free_after": columns.add(allocations.free_event - allocations.free_requested_event),
        "stream": later.add(streams[1]),
        "stream_values": columns.add(streams[0]),
        "pool": later.add(allocations.pool),
    }


def _segment_columns(
    segments: SegmentLives,
    columns: Columns,
    address: NDArray[np.int64],
    stream: NDArray[np.int64],
) -> dict[str, Any]:
    """Pack the lives of segments; the page derives their contents and fragmentation from these."""
    sizes, size = distinct(segments.size)
    return {
        "segment_addr": columns.add(address),
        "segment_size": columns.add(size),
        "segment_size_values": columns.add(sizes, delta=True),
        "segment_start": columns.add(segments.start_event, delta=True),
        "segment_life": columns.add(segments.end_event - segments.start_event),
        "segment_stream": columns.add(stream),
        "segment_pool": columns.add(segments.pool),
        "segment_kind": columns.add(segments.kind),
        "segment_expandable": columns.add(segments.expandable),
    }


def _places(
    columns: tuple[NDArray[np.int64], ...],
) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
    """Return the distinct values of all columns together, and each column as indices of these."""
    values, place = distinct(np.concatenate(columns))
    return values, np.split(place, np.cumsum([len(column) for column in columns])[:-1])


def _size_classes(
    allocations: Allocations,
) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
    """Return the distinct combinations of sizes, in order, and each allocation's index in them."""
    slack = allocations.block_size - allocations.size
    width = allocations.block_size_max - allocations.block_size
    # Slack and width sort as the block sizes do, and small values need no sorting.
    (size, slack, width), place = _distinct_rows((allocations.size, slack, width))
    return [size, size + slack, size + slack + width], place


def _distinct_rows(
    columns: tuple[NDArray[np.int64], ...],
) -> tuple[list[NDArray[np.int64]], NDArray[np.int64]]:
    """Return the distinct rows of some columns, in order, and each row's index in them."""
    key = np.zeros(len(columns[0]), dtype=np.int64)
    numbered = [distinct(column) for column in columns]
    for values, ids in numbered:
        key = key * max(len(values), 1) + ids
    # np.unique(axis=1) does the same, a hundred times slower.
    keys, place = distinct(key)
    rows = []
    for values, _ in reversed(numbered):
        keys, ids = np.divmod(keys, max(len(values), 1))
        rows.append(values[ids])
    return rows[::-1], place


def _times_by_event(device: DeviceFindings) -> tuple[int | None, NDArray[np.int64]]:
    """Return the first known time, and each event's microseconds after it; empty without times."""
    times = device.times
    known_events = np.flatnonzero(times != NO_TIME)
    if not len(known_events):
        return None, np.zeros(0, dtype=np.int64)
    origin = int(times[known_events[0]])
    if len(known_events) == len(times):
        return origin, times - origin
    # An event without a time gets that of the last event with one, or else the first known time.
    latest = np.searchsorted(known_events, np.arange(len(times)), side="right") - 1
    return origin, times[known_events[np.maximum(latest, 0)]] - origin


def _envelopes(
    device: DeviceFindings, pools: list[str]
) -> Iterator[tuple[int, int, NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the lower edge of what each private pool reserves, the largest pool first.

    The first pool reaches down from the reserved curve, the next one from there, and so on.

    Yields:
        the pool; the most that it reserves; the events from which another value holds, the start
        first; and the values of the edge.
    """
    lives = device.allocator.segments
    if "reserved" not in device.peaks:  # none to reach down from, or not at every event
        return
    moves: list[tuple[int, int, NDArray[np.int64], NDArray[np.int64]]] = []
    for pool in unique(lives.pool).tolist():
        if pool < 0 or pools[pool] == _DEFAULT_POOL:
            continue
        own = lives.pool == pool
        moved = np.concatenate([lives.start_event[own], lives.end_event[own]])
        events, place = distinct(moved)
        size = lives.size[own]
        deltas = sum_groups(place, np.concatenate([size, -size]), len(events))
        there = events < device.history.events
        most = int(np.cumsum(deltas[there]).max(initial=0))
        moves.append((most, pool, events[there], deltas[there]))
    event = device.reserved_events
    edge = np.diff(device.reserved_bytes, prepend=0)
    moves.sort(key=lambda each: (-each[0], each[1]))
    for most, pool, events, deltas in moves[:_ENVELOPES]:
        event, place = distinct(np.concatenate([event, events]))
        edge = sum_groups(place, np.concatenate([edge, -deltas]), len(event))
        yield pool, most, event, np.cumsum(edge)


_STEP_KINDS = ("unknown", "warm-up", "steady", "other")


def _pack_steps(steps: Steps, add: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """Return the steps, without the figures that the page can read off the curve.

    Args:
        steps: of one device.
        add: appends a column of integers and returns its directory entry.
    """
    rows = steps.steps
    return {
        "told": identified_text(steps),
        "peak": steps.peak,
        "kinds": _STEP_KINDS,
        "names": [step.name for step in rows] if any(step.name for step in rows) else [],
        "columns": {
            "bounds": add([*(step.start_event for step in rows), rows[-1].end_event], delta=True),
            "kind": add([_STEP_KINDS.index(step.kind) for step in rows]),
            "kept": add([step.kept_bytes for step in rows]),
            "allocations": add([step.allocations for step in rows]),
            "allocated": add([step.allocated_bytes for step in rows]),
        },
    }


# Columns, strings and stacks.


class Columns:
    """Typed columns, one after the other; ``add`` returns where each is."""

    def __init__(self, *, later: bool = False) -> None:
        """``later``: whether the page unpacks them after its first picture."""
        self._later = later
        self.parts: list[bytes] = []
        """All columns, one after the other."""
        self._size = 0

    def add(self, values: ArrayLike, *, delta: bool = False) -> dict[str, Any]:
        """Append one column in the narrowest type that holds it; return its directory entry.

        Args:
            values: integers, shape (n,), each below 2**53 in magnitude.
            delta: store the differences, which are small where the values only grow.
        """
        column = np.asarray(values, dtype=np.int64)
        if delta and len(column):
            values, column = column, column.copy()
            column[1:] -= values[:-1]
        name, typed = _narrowest(column)
        raw = typed.view(np.uint8).reshape(len(column), typed.itemsize).T.tobytes()
        entry = {"type": name, "offset": self._size, "length": len(column), "delta": delta}
        if self._later:
            entry["later"] = True
        self.parts += [raw, bytes(-len(raw) % 8)]
        self._size += len(raw) + -len(raw) % 8
        return entry

    def with_header(self, header: dict[str, Any]) -> list[bytes]:
        """Return a header of plain objects, which says where each column is, and the columns."""
        head = orjson.dumps(header)
        size = len(head).to_bytes(4, "little")
        return [size, head, bytes(-(4 + len(head)) % 8), *self.parts]


# Narrowest first; signed types only serve columns that have a negative value.
_UNSIGNED = (("u8", np.uint8), ("u16", np.uint16), ("u32", np.uint32))

_SIGNED = (("i8", np.int8), ("i16", np.int16), ("i32", np.int32))


def _narrowest(column: NDArray[np.int64]) -> tuple[str, NDArray[Any]]:
    low, high = (int(column.min()), int(column.max())) if len(column) else (0, 0)
    for name, dtype in _UNSIGNED if low >= 0 else _SIGNED:
        bounds = np.iinfo(dtype)
        if bounds.min <= low and high <= bounds.max:
            return name, column.astype(np.dtype(dtype).newbyteorder("<"))
    return "f64", column.astype("<f8")


class Strings:
    """Distinct strings in the order of their first use, made safe to show."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self._ids: dict[str, int] = {}

    def id(self, text: str) -> int:
        """Return the row of a string, which is added if new."""
        if text not in self._ids:
            self._ids[text] = len(self.values)
            self.values.append(shown(text))
        return self._ids[text]

    def renumber(self, texts: list[str], ids: NDArray[np.int32]) -> NDArray[np.int64]:
        """Turn rows of another table into rows of this one; negative ids stay as they are."""
        used, place = distinct(ids)
        table = {int(i): self.id(texts[i]) for i in used if i >= 0}
        new = np.array([table.get(int(i), int(i)) for i in used], dtype=np.int64)
        return new[place]


class _Ends(NamedTuple):
    """How many rows the tables have up to the end of a recording's."""

    frames: int = 0
    nodes: int = 0
    stacks: int = 0


class _StackSubset:
    """Some stacks of a table, with only their nodes and frames."""

    def __init__(
        self,
        stacks: StackTable,
        used: NDArray[np.int64],
        sites: NDArray[np.int32],
        after: _Ends,
    ) -> None:
        """``used``: stack ids, ascending and distinct; ``sites``: frame ids to keep, or -1.

        New ids count on ``after`` those of the recording before.
        """
        self._stacks = stacks
        self.used = used
        """Old ids of the stacks, ascending and distinct."""
        nodes = stacks.stack_node[used]
        self._nodes = with_ancestors(stacks.node_parent, nodes[nodes >= 0])
        frames = np.concatenate([stacks.node_frame[self._nodes], sites[sites >= 0]])
        self.frames = unique(frames).astype(np.int64)
        """Old ids of the frames, ascending; a frame's new id is its index here."""
        self._after = after
        self.ends = _Ends(
            after.frames + len(self.frames),
            after.nodes + len(self._nodes),
            after.stacks + len(used),
        )

    def renumber(self, stack_ids: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the new ids of stacks; negative ids, and those outside the subset, become -1."""
        return _position(self.used, np.asarray(stack_ids, dtype=np.int64), self._after.stacks)

    def renumber_frames(self, frame_ids: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the new ids of frames; negative ids, and those outside the subset, become -1."""
        return _position(self.frames, np.asarray(frame_ids, dtype=np.int64), self._after.frames)

    def columns(self, strings: Strings) -> dict[str, NDArray[np.int64]]:
        """Return the tables as columns; names and files go into ``strings``."""
        stacks, frames, before = self._stacks, self._stacks.frames, self._after.nodes
        names = [strings.id(frames.names[f]) for f in self.frames]
        files = [strings.id(frames.filenames[f]) for f in self.frames]
        code = [frames.code(int(f)) for f in self.frames]
        codes = [strings.id(text) if text else NO_ID for text in code]
        return {
            "frame_code": np.array(codes, np.int64),
            "frame_name": np.array(names, dtype=np.int64),
            "frame_file": np.array(files, dtype=np.int64),
            "frame_line": frames.lines[self.frames],
            "node_parent": _position(self._nodes, stacks.node_parent[self._nodes], before),
            "node_frame": self.renumber_frames(stacks.node_frame[self._nodes]),
            "stack_node": _position(self._nodes, stacks.stack_node[self.used], before),
        }


def _position(
    table: NDArray[np.int64], ids: NDArray[np.integer[Any]], before: int
) -> NDArray[np.int64]:
    """Return the index of each id in a sorted table, after so many others; -1 if not there."""
    if not len(table):
        return np.full(len(ids), -1, dtype=np.int64)
    last = int(table[-1])
    if int(table[0]) >= 0 and last < len(ids):  # enough ids for a table: no search needed
        place = np.full(last + 2, -1, dtype=np.int64)
        place[table] = np.arange(before, before + len(table))
        return place[np.where((ids >= 0) & (ids <= last), ids, last + 1)]
    at = np.minimum(np.searchsorted(table, ids), len(table) - 1)
    return np.where(table[at] == ids, at + before, -1)


# Orders in which long columns compress best; ``templates/app/lib/data/read_device.ts`` restores the
# original.


def _by_stack(
    values: NDArray[np.int64], allocations: Allocations, stack: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Order the times of events by what happened there and before, and by the allocation's stack.

    They depend on these, so gzip makes them smaller if alike events are together.
    """
    events = (allocations.alloc_event, allocations.free_requested_event, allocations.free_event)
    return by_kind(values, events, (stack + 1).astype(np.int32))


def by_last_use(ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how many places back each id was last used; freed addresses are soon used again.

    Args:
        ids: shape (n,).

    Returns:
        The distances, 0 at the first use of an id, and the ids in order of first use.
    """
    order = stable_order(ids)
    same = np.zeros(len(ids), dtype=bool)
    ordered = ids[order]
    np.equal(ordered[1:], ordered[:-1], out=same[1:])
    back = np.zeros(len(ids), dtype=np.int64)
    back[order[same]] = (order - np.roll(order, 1))[same]
    return back, ids[back == 0]
