"""The segments and blocks at the end of a snapshot to columns, one set per device."""

from __future__ import annotations

from typing import Any

import numpy as np

from snapreport.errors import NotASnapshotError
from snapreport.model.snapshot import INACTIVE, PENDING, Segments
from snapreport.model.stacks import NO_STACK
from snapreport.read.fields import check_bytes, count_unknown_keys, integers
from snapreport.read.interner import clean_text
from snapreport.read.traces import Tables

_SEGMENT_KEYS = frozenset(
    [
        "device",
        "address",
        "total_size",
        "allocated_size",
        "active_size",
        "requested_size",
        "stream",
        "segment_type",
        "segment_pool_id",
        "is_expandable",
        "frames",
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
_STATED = ("allocated_size", "active_size", "requested_size")


def read_segments(rows: list[dict[str, Any]], where: str, tables: Tables) -> Segments:
    """Turn one device's segments into columns, in address order.

    Args:
        rows: the device's segment dicts.
        where: the device, for messages.
        tables: what the devices of the file share.

    Raises:
        NotASnapshotError: a segment or block lacks what PyTorch always writes.
    """
    count_unknown_keys(rows, _SEGMENT_KEYS, "segment", tables.oddities)
    address = integers(rows, "address", f"{where}: segment")
    size = integers(rows, "total_size", f"{where}: segment")
    check_bytes(address, size, f"{where}: segment", np.arange(len(rows)))
    order = np.argsort(address, kind="stable")
    rows = [rows[i] for i in order]
    blocks, block_segment, starts = _blocks(rows, where, tables.oddities)
    block_address = np.array(starts, np.int64)
    block_size = integers(blocks, "size", f"{where}: block")
    everyone = np.arange(len(blocks))
    check_bytes(block_address, block_size, f"{where}: block", everyone)
    state = [_state(block, tables.oddities) for block in blocks]
    requested = [_requested(block, s) for block, s in zip(blocks, state, strict=True)]
    block_requested = integers([{"requested_size": r} for r in requested], "requested_size", where)
    check_bytes(block_address, block_requested, f"{where}: request of block", everyone)
    return Segments(
        address=address[order],
        size=size[order],
        stream=integers(rows, "stream", f"{where}: segment", default=0),
        pool=np.array([tables.pools.intern(row.get("segment_pool_id")) for row in rows], np.int32),
        large=np.array([row.get("segment_type") == "large" for row in rows], np.bool_),
        expandable=np.array([row.get("is_expandable") is True for row in rows], np.bool_),
        stack=np.array([_stack(row.get("frames"), tables) for row in rows], np.int32),
        stated=np.stack(
            [integers(rows, key, f"{where}: segment", default=-1) for key in _STATED], axis=1
        ).reshape(-1, 3),
        block_segment=np.array(block_segment, np.int32),
        block_address=block_address,
        block_size=block_size,
        block_requested=block_requested,
        block_state=np.array(state, np.int8),
        block_stack=np.array(
            [
                NO_STACK if s == INACTIVE else _stack(_block_frames(block), tables)
                for block, s in zip(blocks, state, strict=True)
            ],
            np.int32,
        ),
    )


def _blocks(
    rows: list[dict[str, Any]], where: str, oddities: dict[str, int]
) -> tuple[list[dict[str, Any]], list[int], list[int]]:
    """Flatten the blocks; those of PyTorch 2.0 and older have no address of their own."""
    blocks: list[dict[str, Any]] = []
    segment: list[int] = []
    address: list[int] = []
    for index, row in enumerate(rows):
        own = row.get("blocks", [])
        if not isinstance(own, list):
            raise NotASnapshotError(f"is damaged: {where}: segment {index} has no list of blocks.")
        sizes = integers(own, "size", f"{where}: segment {index}: block")
        starts = row["address"] + np.cumsum(sizes) - sizes
        address += integers_or(own, "address", starts.tolist(), f"{where}: block")
        segment += [index] * len(own)
        blocks += own
    count_unknown_keys(blocks, _BLOCK_KEYS, "block", oddities)
    return blocks, segment, address


def integers_or(
    rows: list[dict[str, Any]], key: str, otherwise: list[int], where: str
) -> list[int]:
    """Return an integer field of each row, or the value at the same place of ``otherwise``."""
    if not any(key in row for row in rows):
        return otherwise
    given: list[int] = integers(rows, key, where).tolist()
    return given


def _state(block: dict[str, Any], oddities: dict[str, int]) -> int:
    name = block.get("state")
    state = _STATES.get(name) if isinstance(name, str) else None
    if state is None:
        key = f"block state {clean_text(name)[:60]!r}"
        oddities[key] = oddities.get(key, 0) + 1
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
        return 0  # what the file holds there is the last user's
    value = block.get("requested_size")
    if value is None:
        value = _history(block).get("real_size", block["size"])
    return value


def _block_frames(block: dict[str, Any]) -> Any:
    return block["frames"] if "frames" in block else _history(block).get("frames")


def _stack(frames: Any, tables: Tables) -> int:
    """Intern a stack; an empty list on a block or segment means that none was recorded."""
    return tables.stacks.intern(frames) if frames else NO_STACK
