"""Reads one device's trace events, and its segments and blocks at the end, into columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Sized
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.errors import NotASnapshotError
from snapreport.ground.safe_text import CleanTexts, shortened
from snapreport.ground.units import words
from snapreport.model.snapshot import (
    INACTIVE,
    LATEST_US,
    MOVES,
    NO_ID,
    NO_STACK,
    NO_TIME,
    PENDING,
    STATED,
    DeviceId,
    Segments,
    Trace,
)
from snapreport.read.fields import (
    check_bytes,
    count_unknown_key,
    count_unknown_keys,
    integers,
    take,
)
from snapreport.read.interner import StackInterner, StringInterner
from snapreport.read.parsed import MOST_POOLS, Allowance, ParsedTrace, compress, renumber, replaced


@dataclass
class _PoolInterner:
    """Ids for pools; the file has them as (int, int), or as lists in JSON."""

    pools: list[tuple[int, int]] = field(default_factory=list)
    _ids: dict[str, int] = field(default_factory=dict)
    """Keyed by texts: pairs of integers could be chosen to have equal hashes."""

    def intern(self, pool: Any) -> int:
        """Return the id of a pool, NO_ID for anything but a pair of integers."""
        if not isinstance(pool, (tuple, list)) or len(pool) != 2:
            return NO_ID
        first, second = pool
        if not isinstance(first, int) or not isinstance(second, int):
            return NO_ID
        pair = (int(first), int(second))
        if not all(-(2**63) <= number < 2**63 for number in pair):
            return NO_ID
        key = f"{pair[0]} {pair[1]}"
        known = self._ids.get(key)
        if known is None:
            if len(self.pools) == MOST_POOLS:
                raise NotASnapshotError(f"is damaged: it has over {MOST_POOLS:,} memory pools.")
            known = self._ids[key] = len(self.pools)
            self.pools.append(pair)
        return known


class Tables:
    """What the devices of a file share while it is read."""

    def __init__(self, length: int) -> None:
        """Start with nothing; ``length`` is the file's, in bytes."""
        self.rows = Allowance(length)
        """How many more events, segments and blocks there may be."""
        self.fields = Allowance(length)
        """How many more fields they may have."""
        self.texts = CleanTexts()
        self.stacks = StackInterner(self.texts, Allowance(length))
        self.strings = StringInterner(self.texts, "N/A")  # PyTorch's word for no compile context
        self.pools = _PoolInterner()
        self.oddities: Counter[str] = Counter()


_EVENT_KEYS = words(
    "action addr device_free size stream time_us frames compile_context user_metadata pool_id"
    " category forward_frames internal_metadata"
)


def read_trace(events: Any, device: DeviceId, tables: Tables) -> Trace:
    """Turn a device's trace events into columns.

    Raises:
        NotASnapshotError: the events are not a list of dicts with the fields that PyTorch writes.
    """
    where = f"{device}: event"
    if isinstance(events, ParsedTrace):
        return _read_parsed(events, device, tables)
    if not isinstance(events, (list, tuple)):
        raise NotASnapshotError(
            f"is not a memory snapshot: the trace of {device} is of type {type(events).__name__}."
        )
    size = integers(events, "size", where, default=0)  # also checks that every row is a dict
    present = count_unknown_keys(events, _EVENT_KEYS, "event", tables.oddities, tables.fields)
    actions, action = _actions(events, where, tables.texts)
    addr = _addresses(events, where, present)
    _check_moves(actions, action, addr, size, where)
    stack = tables.stacks.intern_field(events, "frames")
    if "forward_frames" in present:
        stack = tables.stacks.join(stack, tables.stacks.number_forwards(events))
    return Trace(
        device=device,
        actions=actions,
        action=action,
        addr=addr,
        size=size,
        stream=integers(events, "stream", where, default=0),
        time_us=_times(integers(events, "time_us", where, default=NO_TIME), tables.oddities),
        stack=stack,
        pool=_ids(events, "pool_id", tables.pools, present),
        category=_ids(events, "category", tables.strings, present),
        compile_context=_ids(events, "compile_context", tables.strings, present),
        metadata=_ids(events, "user_metadata", tables.strings, present),
        internal=_ids(events, "internal_metadata", tables.strings, present),
    )


def _read_parsed(events: ParsedTrace, device: DeviceId, tables: Tables) -> Trace:
    """Do as ``read_trace()`` with events whose types are checked and whose values are columns."""
    where, texts = f"{device}: event", events.file.texts

    def string_ids(column: NDArray[np.int32]) -> NDArray[np.int32]:
        return renumber(column, lambda k: tables.strings.intern(texts[k]))

    for key, count in events.unknown_keys:
        count_unknown_key(texts[key], count, "event", tables.oddities)
    names, action = compress(events.action)
    _check_count(names)
    actions = tuple(texts[name] for name in names)
    _check_moves(actions, action, events.addr, events.size, where)
    return Trace(
        device=device,
        actions=actions,
        action=action.astype(np.int16),
        addr=events.addr,
        size=events.size,
        stream=events.stream,
        time_us=_times(events.time_us, tables.oddities),
        stack=_stacks(events, tables.stacks),
        pool=renumber(events.pool, lambda k: tables.pools.intern(events.file.pairs[k])),
        category=string_ids(events.category),
        compile_context=string_ids(events.compile_context),
        metadata=string_ids(events.metadata),
        internal=string_ids(events.internal),
    )


_STACKS_AT_ONCE = 1024
"""How many stacks have their frames in memory twice at a time; each may have thousands."""


def _stacks(events: ParsedTrace, interner: StackInterner) -> NDArray[np.int32]:
    """Return the ids of the stacks of events, numbered in order of first appearance."""
    file, (distinct, position) = events.file, compress(events.stack)
    numbers: list[int] = []
    for low in range(0, len(distinct), _STACKS_AT_ONCE):
        places = file.places_of(np.array(distinct[low : low + _STACKS_AT_ONCE], np.int32))
        numbers += interner.intern_places(file.frames, *places)
    stacks = replaced(position, numbers)

    def lines(stack: int) -> list[Any]:
        places, _ = file.places_of(np.array([stack], np.int32))
        return [file.frames[place] for place in places.tolist()]

    # The lists of the lines are temporary: their identities say nothing.
    forward = renumber(events.forward, lambda stack: interner.number_lines(lines(stack)))
    return interner.join(stacks, forward)


def _actions(
    events: Sequence[dict[str, Any]], where: str, texts: CleanTexts
) -> tuple[tuple[str, ...], Any]:
    names = take(events, "action")
    if set(map(type, names)) - {str}:
        index = next(i for i, name in enumerate(names) if type(name) is not str)
        raise NotASnapshotError(
            f"is damaged: {where} {index} has no 'action', or one that is not text."
        )
    ids = {name: number for number, name in enumerate(dict.fromkeys(names))}
    _check_count(ids)
    return tuple(map(texts.clean, ids)), np.array(list(map(ids.__getitem__, names)), np.int16)


def _check_count(actions: Sized) -> None:
    if len(actions) > np.iinfo(np.int16).max:
        raise NotASnapshotError(f"is damaged: {len(actions):,} different actions in one trace.")


def _check_moves(
    actions: tuple[str, ...], action: Any, addr: Any, size: NDArray[np.int64], where: str
) -> None:
    moves = np.array([name in MOVES for name in actions], np.bool_)
    check_bytes(addr, size, where, slice(None) if moves.all() else moves[action])


def _times(times: NDArray[np.int64], oddities: dict[str, int]) -> NDArray[np.int64]:
    if len(times) and (times.min() < NO_TIME or times.max() > LATEST_US):
        wrong = (times < NO_TIME) | (times > LATEST_US)
        oddities["event time that is not a date"] = int(wrong.sum())
        times = np.where(wrong, NO_TIME, times)
    return times


def _addresses(events: Sequence[dict[str, Any]], where: str, present: set[Any]) -> Any:
    addresses = integers(events, "addr", where, default=0)
    for index, event in enumerate(events if "device_free" in present else ()):
        if "device_free" in event:
            addresses[index] = integers([event], "device_free", f"{where} {index}, part")[0]
    return addresses


_TEXT_TYPES = {str, type(None)}


def _ids(
    events: Sequence[dict[str, Any]],
    key: str,
    interner: StringInterner | _PoolInterner,
    present: set[Any],
) -> Any:
    if key not in present:
        return np.full(len(events), NO_ID, np.int32)
    values = take(events, key)
    if isinstance(interner, _PoolInterner):
        return np.array([interner.intern(value) for value in values], np.int32)
    try:
        distinct = dict.fromkeys(values)  # no number equals a text, so these have all types
        plain = set(map(type, distinct)) <= _TEXT_TYPES
    except TypeError:
        plain = False
    if not plain:
        values = [
            value if type(value) in _TEXT_TYPES else interner.texts.clean(value) for value in values
        ]
        distinct = dict.fromkeys(values)
    ids = {value: interner.intern(value) for value in distinct}
    if len(ids) == 1:
        return np.full(len(values), next(iter(ids.values())), np.int32)
    return np.array(list(map(ids.__getitem__, values)), np.int32)


# Segments and blocks.

_SEGMENT_KEYS = words(
    "device address total_size stream segment_type segment_pool_id is_expandable frames"
    " forward_frames blocks"
).union(STATED)


def read_segments(rows: list[dict[str, Any]], where: str, tables: Tables) -> Segments:
    """Turn one device's segments into columns, in address order.

    Args:
        rows: the device's segment dicts.
        where: the device, for messages.
        tables: what the devices of the file share.

    Raises:
        NotASnapshotError: a segment or block lacks what PyTorch always writes.
    """
    count_unknown_keys(rows, _SEGMENT_KEYS, "segment", tables.oddities, tables.fields)
    address = integers(rows, "address", f"{where}: segment")
    size = integers(rows, "total_size", f"{where}: segment")
    check_bytes(address, size, f"{where}: segment", np.arange(len(rows)))
    order = np.argsort(address, kind="stable")
    rows = [rows[i] for i in order]
    address, size = address[order], size[order]
    blocks, block_segment, block_address, block_size = _blocks(rows, address, where, tables)
    everyone = np.arange(len(blocks))
    check_bytes(block_address, block_size, f"{where}: block", everyone)
    state = [_state(block, tables.oddities) for block in blocks]
    requested = [_requested(block, s) for block, s in zip(blocks, state, strict=True)]
    block_requested = integers([{"requested_size": r} for r in requested], "requested_size", where)
    check_bytes(block_address, block_requested, f"{where}: request of block", everyone)
    return Segments(
        address=address,
        size=size,
        stream=integers(rows, "stream", f"{where}: segment", default=0),
        pool=np.array([tables.pools.intern(row.get("segment_pool_id")) for row in rows], np.int32),
        large=np.array([row.get("segment_type") == "large" for row in rows], np.bool_),
        expandable=np.array([row.get("is_expandable") is True for row in rows], np.bool_),
        stack=_stacks_of([row.get("frames") for row in rows], rows, tables),
        stated=np.stack(
            [integers(rows, key, f"{where}: segment", default=-1) for key in STATED], axis=1
        ),
        block_segment=block_segment.astype(np.int32),
        block_address=block_address,
        block_size=block_size,
        block_requested=block_requested,
        block_state=np.array(state, np.int8),
        block_stack=_block_stacks(blocks, state, tables),
    )


_BLOCK_KEYS = words("address size requested_size state frames history forward_frames")


def _blocks(
    rows: list[dict[str, Any]], address: NDArray[np.int64], where: str, tables: Tables
) -> tuple[list[dict[str, Any]], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return all blocks in one list, with the segment, address and size of each."""
    lists = [row.get("blocks", []) for row in rows]
    for index, own in enumerate(lists):
        if not isinstance(own, list):
            raise NotASnapshotError(f"is damaged: {where}: segment {index} has no list of blocks.")
    blocks = [block for own in lists for block in own]
    lengths = np.array([len(own) for own in lists], np.int64)
    segment = np.repeat(np.arange(len(lists)), lengths)
    size = integers(blocks, "size", f"{where}: block")
    count_unknown_keys(blocks, _BLOCK_KEYS, "block", tables.oddities, tables.fields)
    # Blocks of PyTorch 2.0 and older have no address: each begins where the one before ends.
    before = np.concatenate(([0], np.cumsum(size)))
    start = address[segment] + before[:-1] - before[np.cumsum(lengths) - lengths][segment]
    given = np.array(["address" in block for block in blocks], np.bool_)
    if given.any():
        own_address = np.isin(segment, segment[given]) if not given.all() else given
        chosen = [blocks[i] for i in np.flatnonzero(own_address).tolist()]
        start[own_address] = integers(chosen, "address", f"{where}: block")
    return blocks, segment, start, size


_STATES = {
    "active_allocated": 0,
    "active_pending_free": PENDING,
    "active_awaiting_free": PENDING,  # the documentation's word for it
    "inactive": INACTIVE,
}


def _state(block: dict[str, Any], oddities: Counter[str]) -> int:
    name = block.get("state")
    state = _STATES.get(name) if isinstance(name, str) else None
    if state is None:
        oddities[f"block state {shortened(name)!r}"] += 1
        return INACTIVE
    return state


def _history(block: dict[str, Any]) -> dict[str, Any]:
    """Return the newest entry of a 2.0 block's history, or an empty dict."""
    history = block.get("history")
    if isinstance(history, list) and history and isinstance(history[0], dict):
        entry: dict[str, Any] = history[0]
        return entry
    return {}


def _requested(block: dict[str, Any], state: int) -> Any:
    if state == INACTIVE:
        return 0  # the file keeps the size of the last request there
    value = block.get("requested_size")
    if value is None:
        value = _history(block).get("real_size", block["size"])
    return value


def _block_stacks(
    blocks: list[dict[str, Any]], state: list[int], tables: Tables
) -> NDArray[np.int32]:
    """Return the stack of each block in use, with the forward call stack behind it."""
    in_use = [block if s != INACTIVE else {} for block, s in zip(blocks, state, strict=True)]
    frames = [
        block["frames"] if "frames" in block else _history(block).get("frames") for block in in_use
    ]
    return _stacks_of(frames, in_use, tables)


def _stacks_of(frames: list[Any], rows: list[dict[str, Any]], tables: Tables) -> NDArray[np.int32]:
    """Return the stacks of blocks or segments, where an empty list means that none was recorded."""
    own = [tables.stacks.intern(each) if each else NO_STACK for each in frames]
    return tables.stacks.join(np.array(own, np.int32), tables.stacks.number_forwards(rows))
