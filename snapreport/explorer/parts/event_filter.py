"""Search for events by actions, sizes, addresses and texts, as on the page."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from snapreport.explorer.parts.tree_rows import passing_frames
from snapreport.figures.event_at import ACTIONS, ALLOC, OTHER, UNKNOWN, trace_kinds
from snapreport.ground.patterns import Match
from snapreport.model.history import DeviceHistory
from snapreport.model.snapshot import NO_ID
from snapreport.model.stacks import StackTable
from snapreport.model.tree_paths import marks_on_path

_SIZE = r"(\d{1,18}(?:\.\d{1,9})?)(b|[kmgt](?:i?b)?)?"
_BOUND = re.compile(rf"(>=|<=|>|<|=)?{_SIZE}", re.IGNORECASE)
_RANGE = re.compile(rf"{_SIZE}(?:\.\.|-){_SIZE}", re.IGNORECASE)
_WORD = re.compile(r'"([^"]*)"?|(\S+)')
_MOST = 2**63 - 1
_MOST_TEXTS = 20
_NO_ADDRESS = ("oom", "snapshot")


def find_events(
    history: DeviceHistory, stacks: StackTable, typed: str, test: Match | None = None
) -> NDArray[np.int64]:
    """Return the events that match any of the search's actions and all of its other terms.

    Args:
        history: the device.
        stacks: the file's.
        typed: actions (``alloc``), sizes (``>=1MiB``, ``1M..4M``), addresses (``0x7f..``) and
            texts; quotes make anything a text.
        test: also require a frame whose function, file or ``file:line`` passes.
    """
    if not typed and test is None:
        return np.arange(history.events, dtype=np.int64)
    kinds = trace_kinds(history)
    kind, row = kinds.kind, kinds.row
    rows, other = history.allocations, history.other
    is_other, is_own = kind == OTHER, (kind != OTHER) & (kind != UNKNOWN)
    size = np.zeros(len(kind), np.int64)
    addr = np.full(len(kind), -1, np.int64)
    stack = np.full(len(kind), NO_ID, np.int64)
    size[is_own], size[is_other] = rows.size[row[is_own]], other.size[row[is_other]]
    addr[is_own], addr[is_other] = rows.addr[row[is_own]], other.addr[row[is_other]]
    names = np.array([*ACTIONS, *dict.fromkeys(other.action)])
    action = kind.astype(np.int64)
    places = {name: k for k, name in enumerate(names.tolist())}
    code = np.array([places[name] for name in other.action], np.int64)
    action[is_other] = code[row[is_other]]
    freed = is_own & (kind != ALLOC)
    stack[is_own], stack[is_other] = rows.stack[row[is_own]], other.stack[row[is_other]]
    freeing = rows.free_stack[row[freed]]
    empty = np.append(stacks.stack_node < 0, True)[freeing]  # the last is for NO_STACK
    stack[freed] = np.where(empty, stack[freed], freeing)

    keep = np.ones(len(kind), np.bool_)
    actions: list[int] = []
    texts: list[Match] = [] if test is None else [test]
    for quoted, word in _WORD.findall(typed):
        sizes = _sizes(word)
        if word in places:
            actions.append(places[word])
        elif sizes is not None:
            keep &= (size >= sizes[0]) & (size <= sizes[1])
        elif re.fullmatch(r"0x[0-9a-fA-F]{1,15}", word):
            has_one = ~np.isin(action, [places[each] for each in _NO_ADDRESS if each in places])
            keep &= has_one & _holds(addr, size, int(word, 16))
        elif quoted or word:
            texts.append(_part(quoted or word))
    if actions:
        keep &= np.isin(action, actions)
    for text in texts[:_MOST_TEXTS]:
        keep &= np.append(_stacks_with(stacks, text), False)[stack]
    return np.flatnonzero(keep)


def _part(text: str) -> Match:
    wanted = text.lower()
    return lambda other: wanted in other.lower()


def _stacks_with(stacks: StackTable, test: Match) -> NDArray[np.bool_]:
    """Say for each stack whether one of its frames passes."""
    hits = np.array(passing_frames(stacks.frames, test), np.int8)
    marked = np.append(marks_on_path(stacks.node_parent, hits[stacks.node_frame]), np.int8(0))
    passed: NDArray[np.bool_] = marked[stacks.stack_node] > 0
    return passed


def _holds(addr: NDArray[np.int64], size: NDArray[np.int64], wanted: int) -> NDArray[np.bool_]:
    """Say which memory contains an address, or is at one that begins with these hex digits."""
    held = (addr <= wanted) & (wanted < addr + np.maximum(size, 1))
    rest = addr.copy()
    while (longer := rest > wanted).any() and wanted:
        rest[longer] //= 16
    found: NDArray[np.bool_] = held | ((rest == wanted) & (wanted > 0))
    return found


def _sizes(word: str) -> tuple[int, int] | None:
    """Return the range of bytes that a word names, None for a text; a bare number is text."""
    found = _BOUND.fullmatch(word)
    if found:
        sign, count, unit = found.groups()
        if not sign and not unit:
            return None
        size = _bytes(count, unit)
        return {
            ">=": (size, _MOST),
            "<=": (0, size),
            ">": (size + 1, _MOST),
            "<": (0, size - 1),
        }.get(sign, (size, size))
    found = _RANGE.fullmatch(word)
    if not found or not (found[2] or found[4]):
        return None
    return _bytes(found[1], found[2] or found[4]), _bytes(found[3], found[4] or found[2])


def _bytes(count: str, unit: str | None) -> int:
    size: int = 1024 ** "bkmgt".index((unit or "b")[0].lower())
    return min(round(float(count) * size), _MOST - 1)
