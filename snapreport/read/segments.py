"""Reads the segments and blocks at the end of a snapshot into columns, one set per device."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from snapreport.ground.clean_texts import shortened
from snapreport.ground.errors import NotASnapshotError
from snapreport.model.snapshot import INACTIVE, PENDING, STATED, Segments
from snapreport.model.stacks import NO_STACK
from snapreport.read.fields import check_bytes, count_unknown_keys, integers
from snapreport.read.traces import Tables

_SEGMENT_KEYS = frozenset(
    [
        "device",
        "address",
        "total_size",
        *STATED,
        "stream",
        "segment_type",
        "segment_pool_id",
        "is_expandable",
        "frames",
        "forward_frames",
        "blocks",
    ]
)
_BLOCK_KEYS = frozenset(
    ["address", "size", "requested_size", "state", "frames", "history", "forward_frames"]
)
_STATES = {
    "active_allocated": 0,
    "active_pending_free": PENDING,
    "active_awaiting_free": PENDING,  # the documentation's word for it
    "inactive": INACTIVE,
}


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
        stack=_with_forward([_stack(row.get("frames"), tables) for row in rows], rows, tables),
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
    stacks = [_stack(_block_frames(block), tables) for block in in_use]
    return _with_forward(stacks, in_use, tables)


def _with_forward(
    stacks: list[int], rows: list[dict[str, Any]], tables: Tables
) -> NDArray[np.int32]:
    return tables.stacks.join(np.array(stacks, np.int32), tables.stacks.number_forwards(rows))


def _block_frames(block: dict[str, Any]) -> Any:
    return block["frames"] if "frames" in block else _history(block).get("frames")


def _stack(frames: Any, tables: Tables) -> int:
    """Intern a stack; an empty list on a block or segment means that none was recorded."""
    return tables.stacks.intern(frames) if frames else NO_STACK
