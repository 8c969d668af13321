"""Packs findings into the block of typed columns that the report page unpacks.

The layout, format 3: a u32 length, that many bytes of JSON header, zeros up to a multiple of 8,
then the columns, each at a multiple of 8. Everything is little-endian, gzip-compressed, and base64
in the page. A column holds the lowest bytes of all its values, then the next higher ones, and so
on: higher bytes are alike, so gzip makes them small. Long columns that the first picture does not
need are a second block, which the page unpacks later.
``templates/app/lib/data/payload.ts`` reads it.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import ArrayLike, NDArray

from snapreport.ground.glossary import ROLE_MEANINGS
from snapreport.ground.safe_text import shown
from snapreport.model.answer_tables import NO_FORWARD, NONE
from snapreport.model.findings import MISSING_REASONS, DeviceFindings, Findings
from snapreport.model.history import Allocations
from snapreport.model.segment_lives import SegmentLives
from snapreport.model.snapshot import NO_ID, NO_TIME, pool_name
from snapreport.model.stacks import short_name
from snapreport.native.sorting import distinct, sum_groups, unique
from snapreport.reporters.page.deflate_orders import by_kind, by_last_use
from snapreport.reporters.page.payload_cut import cut_columns, drawn_devices
from snapreport.reporters.page.stack_subset import StackSubset, Strings
from snapreport.reporters.page.step_columns import pack_steps
from snapreport.reporters.words.role_words import evidence_text
from snapreport.reporters.words.summary_rows import lines_note

FORMAT = 3
DEFAULT_POOL = pool_name((0, 0))
_ENVELOPES = 6
"""The most private pools with a line of their own."""

# Narrowest first; signed types only serve columns that have a negative value.
_UNSIGNED = (("u8", np.uint8), ("u16", np.uint16), ("u32", np.uint32))
_SIGNED = (("i8", np.int8), ("i16", np.int16), ("i32", np.int32))


class Columns:
    """Typed columns, one after the other; ``add`` returns where each is."""

    def __init__(self, *, later: bool = False) -> None:
        """``later``: whether the page unpacks them after its first picture."""
        self._later = later
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, values: ArrayLike, *, delta: bool = False) -> dict[str, Any]:
        """Append one column in the narrowest type that holds it; return its directory entry.

        Args:
            values: integers, shape (n,), each below 2**53 in magnitude.
            delta: store the differences, which are small where the values only grow.
        """
        column = np.asarray(values, dtype=np.int64)
        if delta and len(column):
            column = np.diff(column, prepend=0)
        name, typed = _narrowest(column)
        raw = typed.view(np.uint8).reshape(len(column), typed.itemsize).T.tobytes()
        entry = {"type": name, "offset": self._size, "length": len(column), "delta": delta}
        if self._later:
            entry["later"] = True
        padded = raw + bytes(-len(raw) % 8)
        self._parts.append(padded)
        self._size += len(padded)
        return entry

    def tobytes(self) -> bytes:
        """Return all columns, one after the other."""
        return b"".join(self._parts)

    def with_header(self, header: dict[str, Any]) -> bytes:
        """Return a header of plain objects, which says where each column is, and the columns."""
        head = orjson.dumps(header)
        body = len(head).to_bytes(4, "little") + head
        return body + bytes(-len(body) % 8) + self.tobytes()


class Packed(NamedTuple):
    """Both blocks of the payload, gzip-compressed."""

    first: bytes
    """The header, and the columns that the first picture needs."""
    later: bytes
    """The other columns, without a header."""


def pack(findings: Findings, summary: dict[str, Any]) -> Packed:
    """Pack what the page draws and reads; equal input gives equal bytes.

    Args:
        summary: ``findings_as_json`` of the same findings.
    """
    history = findings.history
    columns, later = Columns(), Columns(later=True)
    strings = Strings()
    drawn = drawn_devices(findings)
    used = _used_stacks(drawn)
    subset = StackSubset(history.stacks, used, findings.stack_sites[used])
    # Most nodes come after their parents, so the parents' ids grow, too.
    shared = {
        name: columns.add(values, delta=name == "node_parent")
        for name, values in subset.columns(strings).items()
    }
    shared["frame_kind"] = columns.add(findings.frame_kinds[subset.frames])
    shared["stack_site"] = columns.add(subset.renumber_frames(findings.stack_sites[subset.used]))
    sites = set(findings.stack_sites[subset.used].tolist())
    called = [short_name(name) for name in history.stacks.frames.names]
    in_trees, as_sites = findings.tree_frames.names, findings.site_frames.names
    for column, names, known in (
        ("tree_name", in_trees, called),
        ("site_name", [name if i in sites else "" for i, name in enumerate(as_sites)], in_trees),
    ):
        ids = [
            strings.id(names[frame]) if names[frame] not in ("", known[frame]) else -1
            for frame in subset.frames.tolist()
        ]
        shared[column] = columns.add(np.array(ids, np.int64))
    pools = [pool_name(pool) for pool in history.pools]
    devices = [
        _pack_device(
            device, pools, history.strings, (columns, later), strings, subset, findings.colour
        )
        for device in drawn
    ]
    if findings.picture is not None:
        for packed, device, part in zip(devices, drawn, findings.picture.devices, strict=True):
            # What the page needs to know about the allocations that it does not draw.
            packed["window"] = part.window
            packed["columns"] |= {
                name: columns.add(values, delta=name != "version")
                for name, values in cut_columns(device, part).items()
            }
    header = {
        "format": FORMAT,
        "summary": shown_data(
            summary | {"devices": [each | {"steps": None} for each in summary.get("devices", ())]}
        ),
        "strings": strings.values,
        "missing_reasons": MISSING_REASONS,
        "colour": findings.colour,
        "role_meanings": list(ROLE_MEANINGS.items()),
        "packages": history.names.packages,
        "lines_note": lines_note(history),
        "columns": shared,
        "devices": devices,
    }
    return Packed(_compressed(columns.with_header(header)), _compressed(later.tobytes()))


def _compressed(body: bytes) -> bytes:
    # gzip, not zstd: the browser unpacks this, and DecompressionStream has no zstd. Level 9 took
    # 3.6 s instead of 0.3 s for a million events and saved 1 to 10%. For a large payload, level 5
    # takes a quarter less time than level 6 and makes the page 3% larger.
    packer = zlib.compressobj(level=6 if len(body) < _MUCH else 5, wbits=31)
    return packer.compress(body) + packer.flush()


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


def _narrowest(column: NDArray[np.int64]) -> tuple[str, NDArray[Any]]:
    low, high = (int(column.min()), int(column.max())) if len(column) else (0, 0)
    for name, dtype in _UNSIGNED if low >= 0 else _SIGNED:
        bounds = np.iinfo(dtype)
        if bounds.min <= low and high <= bounds.max:
            return name, column.astype(np.dtype(dtype).newbyteorder("<"))
    return "f64", column.astype("<f8")


def _used_stacks(devices: list[DeviceFindings]) -> NDArray[np.int64]:
    """Return the ids of the stacks that the page can show, in order."""
    used: list[NDArray[np.int32]] = [np.zeros(0, dtype=np.int32)]
    for device in devices:
        allocations, other = device.history.allocations, device.history.other
        used += [allocations.stack, allocations.free_stack, other.stack]
    ids = unique(np.concatenate(used)).astype(np.int64)
    return ids[ids >= 0]


def _pack_device(
    device: DeviceFindings,
    pools: list[str],
    texts: list[str],
    blocks: tuple[Columns, Columns],
    strings: Strings,
    subset: StackSubset,
    colour: str,
) -> dict[str, Any]:
    columns, later = blocks
    history = device.history
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
    packed |= {
        "stack": columns.add(subset.renumber(allocations.stack)),
        "free_stack": later.add(subset.renumber(allocations.free_stack)),
        "missing": columns.add(device.missing),
        "category": later.add(groups["category"]),
        "role": (columns if colour == "role" else later).add(role),
        "compile_context": later.add(groups["context"]),
        "metadata": later.add(groups["metadata"]),
        "event_time": later.add(by_kind(np.diff(event_time, prepend=0), allocations)),
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
        "steps": device.steps and shown_data(pack_steps(device.steps, later.add)),
        "columns": packed,
    }


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
        if pool < 0 or pools[pool] == DEFAULT_POOL:
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


def _allocation_columns(
    allocations: Allocations,
    blocks: tuple[Columns, Columns],
    addresses: _Numbered,
    streams: _Numbered,
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


_Numbered = tuple["NDArray[np.int64]", "NDArray[np.int64]"]
"""Distinct values, ascending, and for each row the index of its value."""


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
